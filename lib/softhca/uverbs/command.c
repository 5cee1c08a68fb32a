// SPDX-License-Identifier: Apache-2.0
/* Copies requests and responses of commands, whose length differs between versions of the library. */
#include "command.h"

#include <errno.h>

int command_in(void *to, size_t bytes, const void *from, size_t from_bytes)
{
	const uint8_t *p = from;

	memset(to, 0, bytes);
	if (from_bytes)
		memcpy(to, from, from_bytes < bytes ? from_bytes : bytes);
	for (size_t i = bytes; i < from_bytes; i++)
		if (p[i])
			return -EOPNOTSUPP;
	return 0;
}

void command_out(void *to, size_t to_bytes, const void *from, size_t bytes)
{
	if (to_bytes)
		memcpy(to, from, to_bytes < bytes ? to_bytes : bytes);
}
