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

#include <stddef.h>

/**
 * Read the caller's struct into ours. Fields that the caller's version lacks become 0. 0; -EINVAL its size is not set;
 * -E2BIG it has fields that this library lacks, and they are not 0.
 */
int sized_struct_read(void *ours, size_t bytes, const void *from, const char *name);

/** Is the caller's struct at least so large? 0 or -EINVAL. */
int sized_struct_check(const void *to, size_t bytes_min, const char *name);

/** Write ours to the caller's struct, as much as it has room for, and set its size to that. 0 or -EINVAL. */
int sized_struct_write(void *to, const void *ours, size_t bytes, const char *name);

/** The same without the check. */
void sized_struct_copy(void *to, const void *ours, size_t bytes);

#endif
