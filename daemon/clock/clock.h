// SPDX-License-Identifier: Apache-2.0
/*
 * From the device's free-running clock to UTC nanoseconds: a line through paired readings of both,
 * renewed by the control thread, used by the worker. Pure.
 */
#ifndef DAEMON_CLOCK_CLOCK_H
#define DAEMON_CLOCK_CLOCK_H

#include <stdint.h>

/* utc = base_utc_ns + ((raw - base_raw) & mask) * mult >> shift, (raw - base_raw) taken as signed. */
struct clock_line {
	uint64_t base_raw;
	uint64_t base_utc_ns;
	uint64_t mult;
	uint32_t shift;
	uint64_t mask;
	uint64_t error_ns; /* bound at the last pair */
};

/* One pair: raw was read between the two readings of CLOCK_REALTIME. */
struct clock_pair {
	uint64_t raw;
	uint64_t before_ns;
	uint64_t after_ns;
};

struct clock_fit {
	struct clock_pair first; /* of the window the slope is taken over */
	struct clock_pair last;
	uint64_t hz;             /* nominal */
	uint64_t mask;
	uint32_t n_pairs;
};

void clock_fit_init(struct clock_fit *fit, uint64_t hz, uint64_t mask);

/** Take a pair; a step of CLOCK_REALTIME restarts the fit. Fills line. */
void clock_fit_add(struct clock_fit *fit, const struct clock_pair *pair, struct clock_line *line);

/** Hot path. Raw readings up to a few seconds off the base in either direction. */
static inline uint64_t clock_utc_ns(const struct clock_line *line, uint64_t raw)
{
	uint64_t delta = (raw - line->base_raw) & line->mask;
	uint64_t half = (line->mask >> 1) + 1;

	if (delta & half) /* before the base */
		return line->base_utc_ns - (((line->base_raw - raw) & line->mask) * line->mult >> line->shift);
	return line->base_utc_ns + (delta * line->mult >> line->shift);
}

#endif
