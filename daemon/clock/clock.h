// SPDX-License-Identifier: Apache-2.0
/*
 * From the device's free-running clock to UTC nanoseconds: a line through paired readings of both,
 * renewed by the control thread, used by the worker. Pure.
 */
#ifndef DAEMON_CLOCK_CLOCK_H
#define DAEMON_CLOCK_CLOCK_H

#include <stdint.h>

/* How long before the newest pair the base of a line lies: readings that are older than that are not mapped right. */
#define CLOCK_BASE_AGE_NS UINT64_C(4000000000)

/* A line's error bound counts on a new pair this often. */
#define CLOCK_RENEWAL_NS UINT64_C(1000000000)

/*
 * utc = base_utc_ns + (((raw - base_raw) & mask) * mult >> shift). The base lies in the past of every
 * reading that is asked for, so the difference is never negative; mult and shift are chosen so that the
 * product fits 64 bits for 2 * CLOCK_BASE_AGE_NS after the base at least (10 GHz; 34 s at 1 GHz).
 */
struct clock_line {
	uint64_t base_raw;
	uint64_t base_utc_ns;
	uint64_t mult;
	uint32_t shift;
	uint64_t mask;
	uint64_t error_ns; /* bound from the newest pair to CLOCK_RENEWAL_NS after it */
};

/* One pair: raw was read between the two readings of CLOCK_REALTIME. */
struct clock_pair {
	uint64_t raw;
	uint64_t before_ns;
	uint64_t after_ns;
};

struct clock_fit {
	struct clock_pair first;  /* of the window the rate is taken over */
	struct clock_pair middle; /* becomes first when the window gets too long */
	struct clock_pair last;
	uint64_t hz; /* nominal */
	uint64_t mask;
	uint64_t mult; /* the rate in force, as in the line */
	uint32_t shift;
	uint64_t rate_error_ppb; /* bound on it */
	uint32_t n_pairs;        /* since the start or the last step */
};

/** hz is the device's nominal frequency, not 0; mask its valid bits, all low. */
void clock_fit_init(struct clock_fit *fit, uint64_t hz, uint64_t mask);

/**
 * Take a pair (the tightest of a few: half of its bracket goes into the error) and fill in the line,
 * which is exact at the pair's middle. Until the window is long enough to measure better, the rate is
 * the nominal one. A step of either clock restarts the window and keeps the rate.
 */
void clock_fit_add(struct clock_fit *fit, const struct clock_pair *pair, struct clock_line *line);

/** Hot path. Readings from CLOCK_BASE_AGE_NS before the line's newest pair on, to as long after it. */
static inline uint64_t clock_utc_ns(const struct clock_line *line, uint64_t raw)
{
	return line->base_utc_ns + (((raw - line->base_raw) & line->mask) * line->mult >> line->shift);
}

#endif
