// SPDX-License-Identifier: Apache-2.0
/*
 * The program's memory as the kernel sees it in a command: a pointer to memory that is missing or must not be
 * written gives EFAULT and no crash (copy_from_user, copy_to_user).
 */
#ifndef SOFTHCA_UVERBS_USER_MEMORY_H
#define SOFTHCA_UVERBS_USER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* 0 or -EFAULT; a part of it may have been copied then. */
int user_memory_read(void *to, uint64_t from, size_t bytes);
int user_memory_write(uint64_t to, const void *from, size_t bytes);

#endif
