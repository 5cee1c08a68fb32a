// SPDX-License-Identifier: Apache-2.0
/* Sizes of memory, rounded. Pure. */
#ifndef DAEMON_BASE_ROUND_H
#define DAEMON_BASE_ROUND_H

#include <stdint.h>

static inline uint64_t round_up(uint64_t value, uint64_t multiple)
{
	return (value + multiple - 1) / multiple * multiple;
}

/** The least that is not less; at most 2^31. */
static inline uint32_t round_up_to_power_of_two(uint32_t value)
{
	uint32_t power = 1;

	while (power < value)
		power *= 2;
	return power;
}

#endif
