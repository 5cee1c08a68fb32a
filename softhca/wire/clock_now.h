// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTHCA_WIRE_CLOCK_NOW_H
#define SOFTHCA_WIRE_CLOCK_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
