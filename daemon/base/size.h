// SPDX-License-Identifier: Apache-2.0
/* Arithmetic on sizes and counts. Pure. */
#ifndef DAEMON_BASE_SIZE_H
#define DAEMON_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#define SMALL_PAGE_BYTES 4096u /* the kernel's ordinary pages, as opposed to hugepages */

static inline uint64_t round_up(uint64_t value, uint64_t multiple)
{
	return (value + multiple - 1) / multiple * multiple;
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
