// SPDX-License-Identifier: Apache-2.0
/* Reading clocks, and allowances for long work. Any thread; no system call if the vDSO has the clock. */
#ifndef LIB_BASE_TIME_H
#define LIB_BASE_TIME_H

#include <stdint.h>
#include <time.h>

#define TIME_SECOND_NS UINT64_C(1000000000)

static inline uint64_t time_of_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * TIME_SECOND_NS + (uint64_t)now.tv_nsec;
}

/** Nanoseconds since the epoch, UTC. */
static inline uint64_t time_utc_ns(void)
{
	return time_of_clock_ns(CLOCK_REALTIME);
}

/** The clock of tc-etf(8) and PTP: UTC without leap seconds, if somebody has told the kernel their number; else UTC. */
static inline uint64_t time_tai_ns(void)
{
	return time_of_clock_ns(CLOCK_TAI);
}

static inline uint64_t time_monotonic_ns(void)
{
	return time_of_clock_ns(CLOCK_MONOTONIC);
}

/** Allowance for allocating, locking or freeing memory: several times the duration on a slow machine. */
static inline uint64_t time_for_memory_us(uint64_t bytes)
{
	return (bytes >> 20) * 10000;
}

#endif
