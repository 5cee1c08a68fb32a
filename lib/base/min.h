// SPDX-License-Identifier: Apache-2.0
/* The lesser or the greater of two unsigned numbers. */
#ifndef LIB_BASE_MIN_H
#define LIB_BASE_MIN_H

#include <stdint.h>

static inline uint32_t u32_min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint64_t u64_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t u64_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
