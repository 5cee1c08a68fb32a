// SPDX-License-Identifier: Apache-2.0
/*
 * Maps the device's free-running clock to UTC nanoseconds by a line through paired readings of both clocks. The control
 * thread renews the line, the worker uses it. Pure.
 */
#ifndef DAEMON_CLOCK_CLOCK_H
#define DAEMON_CLOCK_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Time from the base of a line to the newest pair. */
#define CLOCK_BASE_AGE_NS UINT64_C(4000000000)

/*
 * A new pair comes once a second. The error bound of a line holds twice as long, so that it also covers the rows that
 * are stamped before the worker has the next line. It assumes that both clocks keep the rates of the window. What a
 * clock does after a pair, because a program sets or slews it, is known at the next pair only: past_error_ns.
 */
#define CLOCK_RENEWAL_NS UINT64_C(2000000000)

/*
 * utc = base_utc_ns + (((raw - base_raw) & mask) * mult >> shift). The base is before almost every
 * reading, so the difference is not negative; mult and shift are chosen so that the product fits 64
 * bits for 2 * CLOCK_BASE_AGE_NS after the base at least (10 GHz; 34 s at 1 GHz).
 */
struct clock_line {
	uint64_t base_raw;
	uint64_t base_utc_ns;
	uint64_t mult;
	uint32_t shift;
	uint64_t mask;
	uint64_t reach;    /* ticks after the base for which the formula holds; 0: for all readings */
	uint64_t error_ns; /* bound from the newest pair to CLOCK_RENEWAL_NS after it */
	bool can_step;     /* a reading out of reach has no time; else clock_utc_far_ns() maps it */
};

/* One pair: raw was read between the two readings of CLOCK_REALTIME. */
struct clock_pair {
	uint64_t raw;
	uint64_t before_ns;
	uint64_t after_ns;
};

struct clock_fit {
	struct clock_pair first;  /* start of the window that the rate is measured over */
	struct clock_pair middle; /* becomes first when the window is too long */
	struct clock_pair last;
	uint64_t hz; /* nominal */
	uint64_t mask;
	uint64_t mult; /* the current rate, as in the line */
	uint32_t shift;
	uint64_t rate_error_ppb; /* bound on it */
	uint64_t wander_ppb[2];  /* most that a pair missed the rate by, in this half of the window and in the last */
	uint64_t past_error_ns;  /* bound of the line before, for the readings between the last pair and this one */
	uint32_t n_pairs;        /* since the start or the last step */
	bool can_step;           /* the device's clock; may be set after clock_fit_init() */
};

/** False: the counter begins again so soon that it may do so twice between two pairs. */
static inline bool clock_serves(uint64_t hz, uint64_t mask)
{
	return hz && mask / hz >= 2 * CLOCK_RENEWAL_NS / UINT64_C(1000000000);
}

/** hz is the device's nominal frequency, not 0; mask its valid bits, all low. */
void clock_fit_init(struct clock_fit *fit, uint64_t hz, uint64_t mask);

/**
 * Add a pair and renew the line, which is the one of the call before. The line is exact at the middle of the pair, and
 * half of the pair's bracket goes into the error, so the caller should pass the tightest of a few pairs. A pair that is
 * less exact than the line, and does not contradict it, leaves it as it is. The rate is the nominal one until the
 * window is long enough for a better measurement. A pair that contradicts the rate restarts the window with the rate
 * since the pair before. A step of either clock restarts the window and keeps the rate, but for a second step in a row,
 * which is a slew.
 */
void clock_fit_add(struct clock_fit *fit, const struct clock_pair *pair, struct clock_line *line);

/** By how much the device's clock is faster than CLOCK_REALTIME. False: that is not measured yet. */
bool clock_fit_drift_ppb(const struct clock_fit *fit, int64_t *drift_ppb);

/** There was no pair to add this time: the line's error bound holds for another second. */
void clock_fit_miss(const struct clock_fit *fit, struct clock_line *line);

/**
 * Does clock_utc_ns() map this reading? Not if the packet waited for seconds, if the line was not renewed for long, or
 * if the device's clock was stepped by seconds after the newest pair.
 */
static inline bool clock_reaches(const struct clock_line *line, uint64_t raw)
{
	return line->reach == 0 || ((raw - line->base_raw) & line->mask) <= line->reach;
}

/** Hot path. raw: a reading that the line reaches. */
static inline uint64_t clock_utc_ns(const struct clock_line *line, uint64_t raw)
{
	return line->base_utc_ns + (((raw - line->base_raw) & line->mask) * line->mult >> line->shift);
}

/** Any reading of a free-running clock, as far as half the clock's range from the line's base. */
uint64_t clock_utc_far_ns(const struct clock_line *line, uint64_t raw);

/* ---- readings ----------------------------------------------------------------------------------- */

/*
 * Reads a device's clock and CLOCK_REALTIME as a pair whose bracket is true, however old the reading is. A card's
 * clock is read between the two readings of CLOCK_REALTIME around it, by the driver or here. The clock of a device in
 * software is a page that a thread writes from time to time, so a reading is older than its bracket by an unknown
 * time. Such a clock stands still between two readings that follow each other; the clock of a card never does, because
 * it ticks in less time than a reading takes.
 */
struct clock_reader {
	/**
	 * The device's clock: raw, and before_ns and after_ns if the device's driver reads CLOCK_REALTIME around it;
	 * else they stay 0. 0 or -errno.
	 */
	int (*read)(void *context, struct clock_pair *pair);
	/** CLOCK_REALTIME. */
	uint64_t (*utc_ns)(void *context);
	void *context;
};

/**
 * Read the tightest pair of a few. A page is watched up to patience_ns for values that follow each other closely, and
 * the call may take that long. -EAGAIN: the page was not written often enough meanwhile, or CLOCK_REALTIME was set.
 */
int clock_read_pair(const struct clock_reader *reader, uint64_t patience_ns, struct clock_pair *pair);

#endif
