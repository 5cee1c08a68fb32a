// SPDX-License-Identifier: Apache-2.0
/* Copies structs between the library and a program that may be built with another version of ibvcap.h. */
#include "lib/ibvcap/client/sized_struct.h"

#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool sized_struct_is_zero(const uint8_t *bytes, size_t n)
{
	while (n > 0)
		if (bytes[--n])
			return false;
	return true;
}

int sized_struct_refuse(size_t size, const char *name)
{
	return error_set(-EINVAL, "struct %s: its size is %zu; initialise it with IBVCAP_INIT(struct %s)", name, size,
	                 name);
}

int sized_struct_read(void *ours, size_t bytes, const void *from, const char *name)
{
	size_t size;
	int r = sized_struct_check(from, sizeof(size_t), name);

	if (r < 0)
		return r;
	size = *(const size_t *)from;
	if (size > bytes && !sized_struct_is_zero((const uint8_t *)from + bytes, size - bytes))
		return error_set(-E2BIG,
		                 "struct %s: a field is set that libibvcap %s does not know; update libibvcap, or "
		                 "leave the field 0",
		                 name, ibvcap_version());
	memset(ours, 0, bytes);
	memcpy(ours, from, size < bytes ? size : bytes);
	*(size_t *)ours = bytes;
	return 0;
}

void sized_struct_copy(void *to, const void *ours, size_t bytes)
{
	size_t size = *(const size_t *)to;

	if (size > bytes)
		size = bytes;
	memcpy(to, ours, size);
	*(size_t *)to = size;
}

int sized_struct_write(void *to, const void *ours, size_t bytes, const char *name)
{
	int r = sized_struct_check(to, sizeof(size_t), name);

	if (r == 0)
		sized_struct_copy(to, ours, bytes);
	return r;
}
