// SPDX-License-Identifier: Apache-2.0
/*
 * Structs of the public API that begin with "size_t size". The caller stores its own sizeof there, so a program and the
 * library may know different versions of a struct: a new version only appends fields, and 0 in a new field means what
 * the library did before it had the field. The same rules as Linux' copy_struct_from_user().
 *
 * bytes is the sizeof that this library knows; name is the struct's, for the error text.
 */
#ifndef IBVCAP_SIZED_STRUCT_H
#define IBVCAP_SIZED_STRUCT_H

#include "lib/ibvcap/client/error.h"

#include <stddef.h>

/* More than any version of a struct will have. A larger size is what an uninitialised variable happened to hold. */
#define SIZED_STRUCT_BYTES_MAX 4096

/**
 * Read the caller's struct into ours. Fields that the caller's version lacks become 0. 0; -EINVAL its size is not set,
 * or is more than SIZED_STRUCT_BYTES_MAX; -E2BIG it has fields that this library lacks, and they are not 0.
 */
int sized_struct_read(void *ours, size_t bytes, const void *from, const char *name) IBVCAP_PRIVATE(sized_struct_read);

/** Store the error text of a size that is refused. -EINVAL. */
int sized_struct_refuse(size_t size, const char *name) IBVCAP_PRIVATE(sized_struct_refuse);

/** Does the caller's struct have bytes_min to SIZED_STRUCT_BYTES_MAX bytes? 0 or -EINVAL. Inline for the hot calls. */
static inline int sized_struct_check(const void *to, size_t bytes_min, const char *name)
{
	size_t size = to ? *(const size_t *)to : 0;

	return size >= bytes_min && size <= SIZED_STRUCT_BYTES_MAX ? 0 : sized_struct_refuse(size, name);
}

/** Write ours to the caller's struct, as much as it has room for, and set its size to that. 0 or -EINVAL. */
int sized_struct_write(void *to, const void *ours, size_t bytes, const char *name) IBVCAP_PRIVATE(sized_struct_write);

/** The same without the check. */
void sized_struct_copy(void *to, const void *ours, size_t bytes) IBVCAP_PRIVATE(sized_struct_copy);

#endif
