// SPDX-License-Identifier: Apache-2.0
/* Arithmetic on sizes and counts. Pure, but for the size of the kernel's pages, which does not change. */
#ifndef LIB_BASE_SIZE_H
#define LIB_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define SMALL_PAGE_BYTES 4096u /* stands for the kernel's ordinary pages, as opposed to hugepages */

static inline uint64_t round_up(uint64_t value, uint64_t multiple)
{
	return (value + multiple - 1) / multiple * multiple;
}

/** The memory that a segment in pages of page_bytes takes. Ordinary pages have 64 KiB on some arm64 kernels. */
static inline uint64_t round_up_to_pages(uint64_t bytes, uint32_t page_bytes)
{
	uint64_t ordinary = (uint64_t)sysconf(_SC_PAGESIZE);

	return round_up(bytes, page_bytes > ordinary ? page_bytes : ordinary);
}

/** value is not 0. */
static inline bool is_power_of_two(uint64_t value)
{
	return (value & (value - 1)) == 0;
}

/** The smallest power of two that is not less than value, which is at most 2^31. */
static inline uint32_t round_up_to_power_of_two(uint32_t value)
{
	uint32_t power = 1;

	while (power < value)
		power *= 2;
	return power;
}

#endif
