// SPDX-License-Identifier: Apache-2.0
/* Fits the line that maps a device's clock to UTC to a window of clock pairs, and reads such pairs. */
#include "daemon/clock/clock.h"

#include <errno.h>

#define NS_PER_S UINT64_C(1000000000)

/* The product of clock_utc_ns() is nanoseconds << shift: 2 * CLOCK_BASE_AGE_NS of them, at 7 % more than
 * the nominal rate, just fit 64 bits at the most. */
#define SHIFT_MAX 31
_Static_assert(2 * CLOCK_BASE_AGE_NS / 100 * 107 <= UINT64_MAX >> SHIFT_MAX, "the hot path's product overflows");

/*
 * A margin for bracket and rounding, so that a reading of CLOCK_BASE_AGE_NS before the newest pair is after the base.
 */
#define BASE_AGE_NS (CLOCK_BASE_AGE_NS + CLOCK_BASE_AGE_NS / 1000)

/* Of a crystal 200 ppm, twice what IEEE 802.3 allows Ethernet's; and what CLOCK_REALTIME's own rate is corrected by. */
#define NOMINAL_ERROR_PPB UINT64_C(300000)

/* The window is one to two of these long: long compared with a bracket, short compared with changes of temperature. */
#define HALF_WINDOW_NS (30 * NS_PER_S)

/*
 * A clock slewed by ntpd (500 ppm) and a crystal deviate by less than this part of the time between two pairs; more is
 * a step, or a faster slew: chronyd has up to 83,333 ppm.
 */
#define STEP_PPM    1000
#define STEP_NS_MIN UINT64_C(1000000)
#define SLEW_PPM    100000

static uint64_t clock_difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/*
 * A step of CLOCK_REALTIME between its two readings can make the bracket negative; its size is still the uncertainty.
 */
static uint64_t clock_half_bracket_ns(const struct clock_pair *pair)
{
	return (clock_difference(pair->after_ns, pair->before_ns) + 1) / 2;
}

static uint64_t clock_middle_ns(const struct clock_pair *pair)
{
	uint64_t least = pair->before_ns < pair->after_ns ? pair->before_ns : pair->after_ns;

	return least + clock_difference(pair->after_ns, pair->before_ns) / 2;
}

static uint64_t clock_ticks_between(const struct clock_fit *fit, const struct clock_pair *from,
                                    const struct clock_pair *to)
{
	return (to->raw - from->raw) & fit->mask;
}

static uint64_t clock_ticks_to_ns(const struct clock_fit *fit, uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)ticks * fit->mult >> fit->shift);
}

/* Readings are whole ticks. */
static uint64_t clock_tick_ns(const struct clock_fit *fit)
{
	return fit->hz ? NS_PER_S / fit->hz + 1 : 0;
}

static uint64_t clock_part_ns(uint64_t ns, uint64_t ppb)
{
	return (uint64_t)((unsigned __int128)ns * ppb / NS_PER_S);
}

/* What the line through the last pair says of a new one. */
struct clock_miss {
	bool went_back;          /* one of both clocks */
	uint64_t elapsed_ns;     /* by the clock that says less; 0 if one went back */
	uint64_t residual_ns;    /* it misses the middle by so much */
	uint64_t brackets_ns;    /* the readings explain so much of that */
	uint64_t unexplained_ns; /* and the known error of the rate does not explain this rest: the rate has changed */
};

static void clock_set_rate(struct clock_fit *fit, uint64_t ns, uint64_t ticks, uint64_t error_ppb)
{
	fit->mult = (uint64_t)((((unsigned __int128)ns << fit->shift) + ticks / 2) / ticks);
	fit->rate_error_ppb = error_ppb;
}

/*
 * The smallest shift that keeps the rounding of mult below 4 ns in CLOCK_BASE_AGE_NS: with each bit less, a line that
 * is not renewed can be used for twice the time.
 */
static uint32_t clock_choose_shift(uint64_t hz)
{
	uint32_t shift = 0;

	while (shift < SHIFT_MAX && UINT64_C(1) << shift < hz / 2)
		shift++;
	return shift;
}

void clock_fit_init(struct clock_fit *fit, uint64_t hz, uint64_t mask)
{
	*fit = (struct clock_fit){.hz = hz, .mask = mask, .shift = clock_choose_shift(hz)};
	if (hz)
		clock_set_rate(fit, NS_PER_S, hz, NOMINAL_ERROR_PPB);
}

static void clock_fit_restart(struct clock_fit *fit, const struct clock_pair *pair)
{
	fit->first = *pair;
	fit->middle = *pair;
	fit->last = *pair;
	fit->n_pairs = 1;
}

/*
 * Use the measured rate only when the window is so long that the brackets at its ends matter less than the crystal.
 * Raw readings in the window are not masked, because the window may be longer than the range of the counter.
 */
static void clock_measure_rate(struct clock_fit *fit)
{
	uint64_t window_ns = clock_middle_ns(&fit->last) - clock_middle_ns(&fit->first);
	uint64_t ticks = fit->last.raw - fit->first.raw;
	unsigned __int128 error = (unsigned __int128)(clock_half_bracket_ns(&fit->first) +
	                                              clock_half_bracket_ns(&fit->last) + clock_tick_ns(fit)) *
	                          NS_PER_S;

	if (ticks && window_ns && error / window_ns < NOMINAL_ERROR_PPB)
		clock_set_rate(fit, window_ns, ticks, (uint64_t)(error / window_ns));
}

/* The window begins at the last pair. */
static void clock_fit_shorten(struct clock_fit *fit)
{
	fit->first = fit->last;
	fit->middle = fit->last;
}

static void clock_note_wander(struct clock_fit *fit, const struct clock_miss *miss)
{
	uint64_t ppb = miss->elapsed_ns
	                       ? (uint64_t)((unsigned __int128)miss->unexplained_ns * NS_PER_S / miss->elapsed_ns)
	                       : 0;

	if (ppb > fit->wander_ppb[0])
		fit->wander_ppb[0] = ppb;
}

static void clock_fit_extend(struct clock_fit *fit, const struct clock_pair *pair)
{
	uint64_t raw = fit->last.raw + clock_ticks_between(fit, &fit->last, pair);

	fit->last = *pair;
	fit->last.raw = raw;
	fit->n_pairs++;
	clock_measure_rate(fit);
	if (clock_middle_ns(&fit->last) - clock_middle_ns(&fit->middle) < HALF_WINDOW_NS)
		return;
	fit->first = fit->middle;
	fit->middle = fit->last;
	fit->wander_ppb[1] = fit->wander_ppb[0];
	fit->wander_ppb[0] = 0;
}

static uint64_t clock_base_age_ticks(const struct clock_fit *fit)
{
	uint64_t ticks = fit->mult ? (uint64_t)(((unsigned __int128)BASE_AGE_NS << fit->shift) / fit->mult) : 0;

	return ticks < fit->mask / 2 ? ticks : fit->mask / 2;
}

/* A clock that can step is believed for as long as before its last pair; any other, as long as the product fits. */
static uint64_t clock_choose_reach(const struct clock_fit *fit, uint64_t age_ticks)
{
	if (fit->can_step)
		return 2 * age_ticks;
	return fit->mult ? UINT64_MAX / fit->mult : 0;
}

static uint64_t clock_wander_ppb(const struct clock_fit *fit)
{
	return fit->wander_ppb[0] > fit->wander_ppb[1] ? fit->wander_ppb[0] : fit->wander_ppb[1];
}

static void clock_fill_line(const struct clock_fit *fit, struct clock_line *line)
{
	uint64_t age_ticks = clock_base_age_ticks(fit);

	*line = (struct clock_line){
		.base_raw = (fit->last.raw - age_ticks) & fit->mask,
		.base_utc_ns = clock_middle_ns(&fit->last) - clock_ticks_to_ns(fit, age_ticks),
		.mult = fit->mult,
		.shift = fit->shift,
		.mask = fit->mask,
		.reach = clock_choose_reach(fit, age_ticks),
		.can_step = fit->can_step,
		.error_ns = clock_half_bracket_ns(&fit->last) + clock_tick_ns(fit) +
	                    clock_part_ns(CLOCK_RENEWAL_NS, fit->rate_error_ppb + clock_wander_ppb(fit)),
	};
}

/* The same line, with a base that serves for the readings around this pair. */
static void clock_extend_line(const struct clock_fit *fit, const struct clock_pair *pair, struct clock_line *line)
{
	uint64_t base_raw = (pair->raw - clock_base_age_ticks(fit)) & fit->mask;

	line->base_utc_ns = clock_utc_far_ns(line, base_raw);
	line->base_raw = base_raw;
	clock_fit_miss(fit, line);
}

/* A clock that was set back seems to have run for almost the whole range of its counter. */
static struct clock_miss clock_measure_miss(const struct clock_fit *fit, const struct clock_pair *pair)
{
	uint64_t ticks = clock_ticks_between(fit, &fit->last, pair), device_ns = clock_ticks_to_ns(fit, ticks);
	uint64_t last_ns = clock_middle_ns(&fit->last), now_ns = clock_middle_ns(pair), explained_ns;
	struct clock_miss miss = {
		.went_back = ticks > fit->mask / 2 || now_ns < last_ns,
		.residual_ns = clock_difference(last_ns + device_ns, now_ns),
		.brackets_ns = clock_half_bracket_ns(&fit->last) + clock_half_bracket_ns(pair) + clock_tick_ns(fit),
	};

	miss.elapsed_ns = miss.went_back ? 0 : device_ns < now_ns - last_ns ? device_ns : now_ns - last_ns;
	explained_ns = miss.brackets_ns + clock_part_ns(miss.elapsed_ns, fit->rate_error_ppb);
	if (miss.residual_ns > explained_ns)
		miss.unexplained_ns = miss.residual_ns - explained_ns;
	return miss;
}

static bool clock_is_step(const struct clock_miss *miss)
{
	uint64_t limit_ns = miss->elapsed_ns / (1000000 / STEP_PPM);

	return miss->went_back || miss->unexplained_ns > (limit_ns > STEP_NS_MIN ? limit_ns : STEP_NS_MIN);
}

/* Slewed fast: the last pair is the first after a step, or what seemed to be one, and this is the next. */
static bool clock_is_fast_slew(const struct clock_fit *fit, const struct clock_miss *miss)
{
	return fit->n_pairs == 1 && !miss->went_back && miss->residual_ns < miss->elapsed_ns / (1000000 / SLEW_PPM);
}

/* A pair that the line misses by more than both errors shows that the line is wrong: a clock is slewed. */
static bool clock_is_worse_than_line(const struct clock_pair *pair, const struct clock_miss *miss,
                                     const struct clock_line *line)
{
	uint64_t half_bracket_ns = clock_half_bracket_ns(pair);

	return half_bracket_ns > line->error_ns && miss->residual_ns <= half_bracket_ns + line->error_ns;
}

/*
 * The line was off by up to so much at this pair. It may have gone wrong all the time, and the worker takes the next
 * line a little later: hence a quarter more.
 */
static uint64_t clock_past_error_ns(const struct clock_fit *fit, const struct clock_pair *pair,
                                    const struct clock_line *line)
{
	uint64_t off_ns = clock_difference(clock_utc_far_ns(line, pair->raw), clock_middle_ns(pair));

	return off_ns + off_ns / 4 + clock_half_bracket_ns(pair) + clock_tick_ns(fit);
}

/* A slew. The rate since the last pair is better than that of the window if the pair missed that by more. */
static void clock_fit_follow(struct clock_fit *fit, const struct clock_pair *pair, const struct clock_miss *miss)
{
	clock_note_wander(fit, miss);
	if (miss->unexplained_ns > miss->brackets_ns)
		clock_fit_shorten(fit);
	clock_fit_extend(fit, pair);
}

void clock_fit_add(struct clock_fit *fit, const struct clock_pair *pair, struct clock_line *line)
{
	struct clock_miss miss;

	fit->past_error_ns = 0;
	if (fit->n_pairs == 0) {
		clock_fit_restart(fit, pair);
		clock_fill_line(fit, line);
		return;
	}
	miss = clock_measure_miss(fit, pair);
	if (!clock_is_step(&miss) && clock_is_worse_than_line(pair, &miss, line)) {
		clock_extend_line(fit, pair, line);
		return;
	}
	fit->past_error_ns = clock_past_error_ns(fit, pair, line);
	if (!clock_is_step(&miss) || clock_is_fast_slew(fit, &miss))
		clock_fit_follow(fit, pair, &miss);
	else
		clock_fit_restart(fit, pair);
	clock_fill_line(fit, line);
}

bool clock_fit_drift_ppb(const struct clock_fit *fit, int64_t *drift_ppb)
{
	if (!fit->mult || fit->rate_error_ppb >= NOMINAL_ERROR_PPB)
		return false;
	*drift_ppb = (int64_t)((((unsigned __int128)NS_PER_S << fit->shift) * NS_PER_S) / fit->mult / fit->hz) -
	             (int64_t)NS_PER_S;
	return true;
}

void clock_fit_miss(const struct clock_fit *fit, struct clock_line *line)
{
	line->error_ns += fit->rate_error_ppb; /* in a second */
}

uint64_t clock_utc_far_ns(const struct clock_line *line, uint64_t raw)
{
	uint64_t after = (raw - line->base_raw) & line->mask, before = (line->base_raw - raw) & line->mask;

	if (clock_reaches(line, raw) || after < before)
		return line->base_utc_ns + (uint64_t)((unsigned __int128)after * line->mult >> line->shift);
	return line->base_utc_ns - (uint64_t)((unsigned __int128)before * line->mult >> line->shift);
}

/* ---- reading ------------------------------------------------------------------------------------ */

#define TRIES 8

/* A pair this tight needs no better one. */
#define TIGHT_NS 2000

static int clock_take_pair(const struct clock_reader *reader, struct clock_pair *pair)
{
	uint64_t before_ns = reader->utc_ns(reader->context), after_ns;
	int r;

	*pair = (struct clock_pair){0};
	r = reader->read(reader->context, pair);
	after_ns = reader->utc_ns(reader->context);
	if (pair->before_ns == 0) {
		pair->before_ns = before_ns;
		pair->after_ns = after_ns;
	}
	return r;
}

/* A pair whose end is before its begin, because CLOCK_REALTIME was set back, is wider than any other. */
static uint64_t clock_bracket_ns(const struct clock_pair *pair)
{
	return pair->after_ns >= pair->before_ns ? pair->after_ns - pair->before_ns : UINT64_MAX;
}

static void clock_keep_tightest(struct clock_pair *best, const struct clock_pair *pair)
{
	if (clock_bracket_ns(pair) < clock_bracket_ns(best))
		*best = *pair;
}

/*
 * A thread takes a value from the clock, is perhaps held up, and writes it; then the next value. So a value was taken
 * after the value before it was written, which was after the last reading that gave the value before that one.
 */
static int clock_watch_page(const struct clock_reader *reader, uint64_t patience_ns, struct clock_pair *best)
{
	struct clock_pair now, last;
	uint64_t begin_ns, written_after_ns = 0; /* the value of last was written after this; 0: not known */
	int r = clock_take_pair(reader, &last);

	begin_ns = last.before_ns;
	while (r == 0 && clock_bracket_ns(best) > TIGHT_NS && last.after_ns - begin_ns < patience_ns) {
		r = clock_take_pair(reader, &now);
		if (r == 0 && now.raw != last.raw) {
			if (written_after_ns)
				clock_keep_tightest(best,
				                    &(struct clock_pair){now.raw, written_after_ns, now.after_ns});
			written_after_ns = last.before_ns;
		}
		last = now;
	}
	return r;
}

int clock_read_pair(const struct clock_reader *reader, uint64_t patience_ns, struct clock_pair *pair)
{
	const struct clock_pair none = {.before_ns = 1};
	struct clock_pair now;
	uint64_t last_raw = 0;
	bool is_page = false;
	int r = 0;

	*pair = none;
	for (int i = 0; i < TRIES && r == 0; i++) {
		r = clock_take_pair(reader, &now);
		is_page |= i > 0 && now.raw == last_raw;
		last_raw = now.raw;
		clock_keep_tightest(pair, &now);
	}
	if (r == 0 && is_page) {
		*pair = none;
		r = clock_watch_page(reader, patience_ns, pair);
	}
	if (r < 0)
		return r;
	return clock_bracket_ns(pair) == UINT64_MAX ? -EAGAIN : 0;
}
