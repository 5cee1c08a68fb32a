// SPDX-License-Identifier: Apache-2.0
/* What time it is, and how long things may take. Any thread; no system call where the kernel has its page of time. */
#ifndef DAEMON_BASE_TIME_H
#define DAEMON_BASE_TIME_H

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

static inline uint64_t time_monotonic_ns(void)
{
	return time_of_clock_ns(CLOCK_MONOTONIC);
}

/** Microseconds to make, lock or give back so much memory in: several times what a slow machine takes. */
static inline uint64_t time_for_memory_us(uint64_t bytes)
{
	return (bytes >> 20) * 10000;
}

#endif
