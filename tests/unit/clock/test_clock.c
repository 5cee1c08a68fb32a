// SPDX-License-Identifier: Apache-2.0
/* The error of lines through clock pairs, over steps, counter overflows and rates. */
#include "daemon/clock/clock.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define NS_PER_S UINT64_C(1000000000)
#define EPOCH_NS UINT64_C(1700000000000000000)

/* A device whose clock is off its nominal frequency, and the host that reads it. All exact. */
struct machine {
	uint64_t hz;
	int64_t off_ppb;
	uint64_t mask;
	uint64_t raw_at_start;
	int64_t realtime_step_ns;
};

static uint64_t raw_at(const struct machine *m, uint64_t ns)
{
	unsigned __int128 ticks = (unsigned __int128)ns * m->hz * (uint64_t)((int64_t)NS_PER_S + m->off_ppb);

	return (m->raw_at_start + (uint64_t)(ticks / NS_PER_S / NS_PER_S)) & m->mask;
}

static uint64_t utc_at(const struct machine *m, uint64_t ns)
{
	return EPOCH_NS + ns + (uint64_t)m->realtime_step_ns;
}

/* The raw reading falls at a place in the bracket that varies from pair to pair. */
static struct clock_pair pair_at(const struct machine *m, uint64_t ns, uint64_t bracket_ns)
{
	uint64_t early = bracket_ns * (ns / 1000 % 7) / 7;

	return (struct clock_pair){
		.raw = raw_at(m, ns),
		.before_ns = utc_at(m, ns - early),
		.after_ns = utc_at(m, ns - early + bracket_ns),
	};
}

static uint64_t error_at(const struct machine *m, const struct clock_line *line, uint64_t ns)
{
	uint64_t mapped = clock_utc_ns(line, raw_at(m, ns)), true_ns = utc_at(m, ns);

	return mapped > true_ns ? mapped - true_ns : true_ns - mapped;
}

/* Pairs once a second up to and with second n. */
static void run(const struct machine *m, struct clock_fit *fit, struct clock_line *line, uint64_t from_s, uint64_t to_s)
{
	for (uint64_t s = from_s; s <= to_s; s++) {
		struct clock_pair pair = pair_at(m, s * NS_PER_S + s * 12345, 2000);

		clock_fit_add(fit, &pair, line);
	}
}

static const uint64_t frequencies[] = {1000000,    78125000,   156250000,  333333333,  499999999,
                                       1000000000, 3200000000, 9999999999, 10000000000};

Test(clock, mapping_is_exact_to_a_few_ns_over_eight_seconds)
{
	for (size_t i = 0; i < sizeof(frequencies) / sizeof(frequencies[0]); i++) {
		const struct machine m = {.hz = frequencies[i], .mask = UINT64_MAX, .raw_at_start = 1};
		uint64_t tick_ns = NS_PER_S / m.hz + 1;
		struct clock_fit fit;
		struct clock_line line;
		struct clock_pair pair = pair_at(&m, 20 * NS_PER_S, 0);

		clock_fit_init(&fit, m.hz, m.mask);
		clock_fit_add(&fit, &pair, &line);
		for (uint64_t ns = 16 * NS_PER_S + 1000; ns < 24 * NS_PER_S; ns += 7654321) {
			uint64_t delta = (raw_at(&m, ns) - line.base_raw) & line.mask;
			unsigned __int128 exact = (unsigned __int128)delta * line.mult >> line.shift;

			cr_assert(eq(u64, clock_utc_ns(&line, raw_at(&m, ns)), line.base_utc_ns + (uint64_t)exact),
			          "overflow at %llu Hz", (unsigned long long)m.hz);
			cr_assert(le(u64, error_at(&m, &line, ns), tick_ns + 9), "at %llu Hz",
			          (unsigned long long)m.hz);
		}
	}
}

Test(clock, a_device_100_ppm_off_is_followed)
{
	static const int64_t off_ppb[] = {100000, -100000, 37, 0};

	for (size_t i = 0; i < sizeof(off_ppb) / sizeof(off_ppb[0]); i++) {
		const struct machine m = {.hz = 156250000, .off_ppb = off_ppb[i], .mask = UINT64_MAX};
		struct clock_fit fit;
		struct clock_line line;
		int64_t drift_ppb;

		clock_fit_init(&fit, m.hz, m.mask);
		cr_expect(not(clock_fit_drift_ppb(&fit, &drift_ppb)));
		run(&m, &fit, &line, 1, 10);
		for (uint64_t ns = 10 * NS_PER_S; ns <= 11 * NS_PER_S; ns += 999983) {
			cr_assert(le(u64, error_at(&m, &line, ns), 2000));
			cr_assert(le(u64, error_at(&m, &line, ns), line.error_ns));
		}
		cr_expect(le(u64, line.error_ns, 5000));
		cr_assert(clock_fit_drift_ppb(&fit, &drift_ppb));
		cr_expect(le(i64, llabs(drift_ppb - off_ppb[i]), 500));
	}
}

Test(clock, the_error_bound_holds_from_the_first_pair_on)
{
	const struct machine m = {.hz = 1000000000, .off_ppb = 99000, .mask = UINT64_MAX};
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	/* Two right after each other: too close for a rate, and the line must not pretend one. */
	struct clock_pair first = pair_at(&m, 5 * NS_PER_S, 3000), second = pair_at(&m, 5 * NS_PER_S + 4000, 3000);

	clock_fit_add(&fit, &first, &line);
	cr_expect(le(u64, error_at(&m, &line, 6 * NS_PER_S), line.error_ns));
	clock_fit_add(&fit, &second, &line);
	cr_expect(le(u64, error_at(&m, &line, 6 * NS_PER_S), line.error_ns));
	for (uint64_t s = 6; s < 200; s++) {
		run(&m, &fit, &line, s, s);
		for (uint64_t ms = 1; ms < 1000; ms += 111)
			cr_assert(le(u64, error_at(&m, &line, s * NS_PER_S + s * 12345 + ms * 1000000), line.error_ns),
			          "second %llu", (unsigned long long)s);
	}
	cr_expect(le(u64, line.error_ns, 4000), "%llu", (unsigned long long)line.error_ns);
}

Test(clock, the_window_rolls_so_a_rate_that_changes_is_followed)
{
	struct machine m = {.hz = 1000000000, .off_ppb = 0, .mask = UINT64_MAX};
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	run(&m, &fit, &line, 1, 200);
	/* Warmer: 20 ppm faster from here on, without a jump. */
	m.raw_at_start = raw_at(&m, 200 * NS_PER_S);
	m.off_ppb = 20000;
	m.raw_at_start -= 200 * (NS_PER_S + 20000);
	run(&m, &fit, &line, 201, 201);
	cr_expect(ge(u64, line.error_ns, 19000), "the residual shows at once");
	run(&m, &fit, &line, 202, 300);
	cr_expect(le(u64, line.error_ns, 4000), "%llu", (unsigned long long)line.error_ns);
	cr_expect(le(u64, error_at(&m, &line, 301 * NS_PER_S), line.error_ns));
}

Test(clock, a_counter_of_48_bits_wraps_unnoticed)
{
	const struct machine m = {.hz = 1000000000,
	                          .off_ppb = 50000,
	                          .mask = (UINT64_C(1) << 48) - 1,
	                          .raw_at_start = (UINT64_C(1) << 48) - 15 * NS_PER_S};
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	for (uint64_t s = 5; s < 30; s++) {
		run(&m, &fit, &line, s, s);
		cr_expect(eq(u32, fit.n_pairs, s - 4), "taken for a step at second %llu", (unsigned long long)s);
		if (s > 5)
			for (uint64_t ns = (s - 1) * NS_PER_S; ns < (s + 1) * NS_PER_S; ns += 99999989)
				cr_assert(le(u64, error_at(&m, &line, ns), line.error_ns));
	}
	cr_expect(lt(u64, raw_at(&m, 20 * NS_PER_S), raw_at(&m, 14 * NS_PER_S)), "it did wrap");
}

Test(clock, a_counter_of_32_bits_serves_half_its_range)
{
	const struct machine m = {.hz = 1000000000, .mask = UINT32_MAX};
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	for (uint64_t s = 1; s < 20; s++) {
		run(&m, &fit, &line, s, s);
		cr_assert(le(u64, error_at(&m, &line, s * NS_PER_S - NS_PER_S / 2), line.error_ns));
		cr_assert(le(u64, error_at(&m, &line, s * NS_PER_S + NS_PER_S / 2), line.error_ns));
	}
}

Test(clock, a_counter_that_begins_again_within_two_renewals_serves_for_nothing)
{
	cr_expect(clock_serves(1000000000, UINT32_MAX));
	cr_expect(clock_serves(78125000, UINT64_MAX >> 1));
	cr_expect(not(clock_serves(1000000000, UINT32_MAX >> 1)));
	cr_expect(not(clock_serves(0, UINT64_MAX)));
}

Test(clock, a_step_of_the_host_is_followed_at_the_next_pair_and_the_rate_kept)
{
	static const int64_t steps_ns[] = {3600 * (int64_t)NS_PER_S, -3600 * (int64_t)NS_PER_S, 20000000, -20000000};

	for (size_t i = 0; i < sizeof(steps_ns) / sizeof(steps_ns[0]); i++) {
		struct machine m = {.hz = 156250000, .off_ppb = -80000, .mask = UINT64_MAX};
		struct clock_fit fit;
		struct clock_line line;

		clock_fit_init(&fit, m.hz, m.mask);
		run(&m, &fit, &line, 1, 20);
		m.realtime_step_ns = steps_ns[i];
		run(&m, &fit, &line, 21, 21);
		cr_expect(eq(u32, fit.n_pairs, 1));
		cr_expect(le(u64, error_at(&m, &line, 22 * NS_PER_S), line.error_ns));
		cr_expect(le(u64, line.error_ns, 5000), "%llu", (unsigned long long)line.error_ns);
		run(&m, &fit, &line, 22, 40);
		cr_expect(eq(u32, fit.n_pairs, 20));
		cr_expect(le(u64, error_at(&m, &line, 41 * NS_PER_S), line.error_ns));
	}
}

/* Its counter seems to have run for almost its whole range: taken for that, it would spoil the rate. */
Test(clock, a_device_that_is_set_back_is_followed_at_the_next_pair_and_the_rate_kept)
{
	static const uint64_t steps_ns[] = {3600 * NS_PER_S, 3 * NS_PER_S};

	for (size_t i = 0; i < sizeof(steps_ns) / sizeof(steps_ns[0]); i++) {
		struct machine m = {.hz = NS_PER_S, .off_ppb = -80000, .mask = UINT64_MAX, .raw_at_start = EPOCH_NS};
		struct clock_fit fit;
		struct clock_line line;

		clock_fit_init(&fit, m.hz, m.mask);
		fit.can_step = true;
		run(&m, &fit, &line, 1, 20);
		m.raw_at_start -= steps_ns[i];
		run(&m, &fit, &line, 21, 21);
		cr_expect(eq(u32, fit.n_pairs, 1));
		cr_expect(ge(u64, fit.past_error_ns, steps_ns[i]), "the rows of the last second are wrong by the step");
		run(&m, &fit, &line, 22, 22);
		cr_expect(le(u64, error_at(&m, &line, 23 * NS_PER_S), line.error_ns));
		cr_expect(le(u64, line.error_ns, 6000), "%llu", (unsigned long long)line.error_ns);
		cr_expect(le(u64, fit.past_error_ns, 5000));
	}
}

Test(clock, a_slew_is_followed_after_two_pairs)
{
	static const int64_t slews_ppb[] = {500000, -500000, 80000000, -80000000};

	for (size_t i = 0; i < sizeof(slews_ppb) / sizeof(slews_ppb[0]); i++) {
		struct machine m = {.hz = NS_PER_S, .mask = UINT64_MAX};
		struct clock_fit fit;
		struct clock_line line;

		clock_fit_init(&fit, m.hz, m.mask);
		run(&m, &fit, &line, 1, 100);
		m.raw_at_start = raw_at(&m, 100 * NS_PER_S);
		m.off_ppb = slews_ppb[i];
		m.raw_at_start -= raw_at(&m, 100 * NS_PER_S) - m.raw_at_start;
		run(&m, &fit, &line, 101, 103);
		cr_expect(le(u64, error_at(&m, &line, 104 * NS_PER_S), 10000), "%llu",
		          (unsigned long long)error_at(&m, &line, 104 * NS_PER_S));
	}
}

Test(clock, a_step_inside_a_bracket_is_part_of_the_error)
{
	const struct machine m = {.hz = 1000000000, .mask = UINT64_MAX};
	struct clock_pair pair = {.raw = raw_at(&m, NS_PER_S), .before_ns = EPOCH_NS + 1000000, .after_ns = EPOCH_NS};
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	clock_fit_add(&fit, &pair, &line);
	cr_expect(ge(u64, line.error_ns, 500000));
	cr_expect(lt(u64, line.error_ns, 1200000), "half of the bracket, and 300 ppm of two seconds");
}

Test(clock, a_frequency_far_off_its_nominal_shows_in_the_bound)
{
	const struct machine m = {.hz = 1000000000, .off_ppb = 20000000, .mask = UINT64_MAX};
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	run(&m, &fit, &line, 1, 10);
	cr_expect(le(u64, error_at(&m, &line, 11 * NS_PER_S), line.error_ns));
}

Test(clock, a_reading_of_the_full_age_is_not_before_the_base)
{
	static const int64_t off_ppb[] = {99000, 0, -99000};

	for (size_t f = 0; f < sizeof(frequencies) / sizeof(frequencies[0]); f++)
		for (size_t i = 0; i < 3; i++) {
			const struct machine m = {.hz = frequencies[f], .off_ppb = off_ppb[i], .mask = UINT64_MAX};
			uint64_t now = 40 * NS_PER_S + 40 * 12345;
			struct clock_fit fit;
			struct clock_line line;

			clock_fit_init(&fit, m.hz, m.mask);
			run(&m, &fit, &line, 1, 40);
			cr_assert(le(u64, error_at(&m, &line, now - CLOCK_BASE_AGE_NS), 10000), "at %llu Hz",
			          (unsigned long long)m.hz);
			cr_assert(le(u64, error_at(&m, &line, now + CLOCK_BASE_AGE_NS), 10000), "at %llu Hz",
			          (unsigned long long)m.hz);
		}
}

/* Those of packets that waited while the worker stood still, and those after the device's clock could not be read. */
Test(clock, a_reading_out_of_reach_is_mapped_exactly)
{
	static const uint64_t masks[] = {UINT64_MAX, (UINT64_C(1) << 50) - 1};
	static const int64_t away_s[] = {-3000, -300, -20, -5, 5, 20, 300, 3000};

	for (size_t f = 0; f < sizeof(frequencies) / sizeof(frequencies[0]); f++)
		for (size_t i = 0; i < 2 * sizeof(away_s) / sizeof(away_s[0]); i++) {
			const struct machine m = {.hz = frequencies[f], .mask = masks[i & 1], .raw_at_start = 7};
			uint64_t now = 4000 * NS_PER_S, ns = now + (uint64_t)(away_s[i / 2] * (int64_t)NS_PER_S);
			struct clock_pair pair = pair_at(&m, now, 0);
			struct clock_fit fit;
			struct clock_line line;
			uint64_t mapped;

			clock_fit_init(&fit, m.hz, m.mask);
			clock_fit_add(&fit, &pair, &line);
			mapped = clock_utc_far_ns(&line, raw_at(&m, ns));
			cr_assert(le(u64, mapped - utc_at(&m, ns) + 5000, 10000), "%llu Hz, %lld s",
			          (unsigned long long)m.hz, (long long)away_s[i / 2]);
			if (clock_reaches(&line, raw_at(&m, ns)))
				cr_assert(eq(u64, mapped, clock_utc_ns(&line, raw_at(&m, ns))));
		}
}

Test(clock, a_wide_bracket_after_a_long_pause_leaves_the_line_as_it_is)
{
	const struct machine m = {.hz = 1000000000, .mask = UINT64_MAX};
	struct clock_pair wide = pair_at(&m, 103 * NS_PER_S, 8000000);
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	run(&m, &fit, &line, 1, 3);
	clock_fit_add(&fit, &wide, &line);
	cr_expect(eq(u32, fit.n_pairs, 3));
	cr_expect(le(u64, error_at(&m, &line, 103 * NS_PER_S), 100000));
}

Test(clock, a_line_serves_on_when_it_is_not_renewed)
{
	const struct machine m = {.hz = 1000000000, .off_ppb = 50000, .mask = UINT64_MAX};
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	run(&m, &fit, &line, 1, 40);
	cr_expect(le(u64, error_at(&m, &line, 60 * NS_PER_S), 20000));
	/* And the pair after it is no step. */
	run(&m, &fit, &line, 60, 60);
	cr_expect(eq(u32, fit.n_pairs, 41));
}

Test(clock, a_line_of_a_clock_that_can_step_reaches_a_few_seconds_only)
{
	const struct machine m = {.hz = NS_PER_S, .mask = UINT64_MAX, .raw_at_start = EPOCH_NS};

	for (int can_step = 0; can_step < 2; can_step++) {
		struct clock_fit fit;
		struct clock_line line;

		clock_fit_init(&fit, m.hz, m.mask);
		fit.can_step = can_step;
		run(&m, &fit, &line, 1, 40);
		cr_expect(clock_reaches(&line, raw_at(&m, 40 * NS_PER_S - CLOCK_BASE_AGE_NS)));
		cr_expect(clock_reaches(&line, raw_at(&m, 40 * NS_PER_S + CLOCK_BASE_AGE_NS)));
		cr_expect(not(clock_reaches(&line, raw_at(&m, 40 * NS_PER_S) - 10 * NS_PER_S)));
		cr_expect(eq(int, clock_reaches(&line, raw_at(&m, 40 * NS_PER_S) + 20 * NS_PER_S), !can_step));
		cr_expect(eq(int, line.can_step, can_step));
	}
}

Test(clock, counters_of_63_and_64_bits_wrap_unnoticed)
{
	static const uint64_t masks[] = {UINT64_MAX >> 1, UINT64_MAX};

	for (size_t i = 0; i < 2; i++) {
		const struct machine m = {.hz = 1000000000, .mask = masks[i], .raw_at_start = masks[i] - 15 * NS_PER_S};
		struct clock_fit fit;
		struct clock_line line;

		clock_fit_init(&fit, m.hz, m.mask);
		for (uint64_t s = 1; s < 100; s++) {
			run(&m, &fit, &line, s, s);
			cr_assert(eq(u32, fit.n_pairs, s));
			for (uint64_t back = 0; back < (s < 4 ? s : 4); back++)
				cr_assert(le(u64, error_at(&m, &line, (s - back) * NS_PER_S + 1), 10000), "second %llu",
				          (unsigned long long)s);
		}
	}
}

Test(clock, a_step_of_a_few_ms_does_not_become_a_rate)
{
	static const int64_t steps_ns[] = {2000000, -2000000, 4000000};

	for (size_t i = 0; i < 3; i++) {
		struct machine m = {.hz = 1000000000, .off_ppb = 30000, .mask = UINT64_MAX};
		struct clock_fit fit;
		struct clock_line line;

		clock_fit_init(&fit, m.hz, m.mask);
		run(&m, &fit, &line, 1, 3);
		m.realtime_step_ns = steps_ns[i];
		run(&m, &fit, &line, 4, 4);
		cr_expect(eq(u32, fit.n_pairs, 1));
		cr_expect(le(u64, error_at(&m, &line, 5 * NS_PER_S), 5000));
	}
}

Test(clock, a_wide_bracket_is_no_step)
{
	const struct machine m = {.hz = 1000000000, .mask = UINT64_MAX};
	struct clock_pair wide = pair_at(&m, 4 * NS_PER_S + 3000, 8000000);
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	run(&m, &fit, &line, 1, 3);
	clock_fit_add(&fit, &wide, &line);
	cr_expect(eq(u32, fit.n_pairs, 3), "nor of any use, since the line is more exact");
	cr_expect(lt(u64, line.error_ns, 10000));
	cr_expect(le(u64, error_at(&m, &line, 4 * NS_PER_S), line.error_ns));
}

Test(clock, a_line_serves_on_through_wide_brackets_and_takes_one_when_it_is_no_better)
{
	const struct machine m = {.hz = 10000000000, .off_ppb = 90000, .mask = UINT64_MAX};
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	run(&m, &fit, &line, 1, 1);
	for (uint64_t s = 2; s < 100; s++) {
		struct clock_pair wide = pair_at(&m, s * NS_PER_S + s * 3000, 4000000);

		clock_fit_add(&fit, &wide, &line);
		cr_assert(le(u64, error_at(&m, &line, s * NS_PER_S), line.error_ns), "second %llu",
		          (unsigned long long)s);
		cr_assert(le(u64, error_at(&m, &line, (s + 2) * NS_PER_S), line.error_ns), "second %llu",
		          (unsigned long long)s);
		cr_assert(le(u64, line.error_ns, 8000000));
	}
	cr_expect(gt(u32, fit.n_pairs, 1));
}

/* CLOCK_REALTIME is slewed by 500 ppm, and each pair is less exact than the line. */
Test(clock, a_wide_bracket_that_the_line_misses_replaces_it)
{
	const uint64_t slew_ns = 500000, bracket_ns = 400000;
	struct machine m = {.hz = 1000000000, .mask = UINT64_MAX};
	struct clock_fit fit;
	struct clock_line line;

	clock_fit_init(&fit, m.hz, m.mask);
	run(&m, &fit, &line, 1, 10);
	cr_assert(lt(u64, line.error_ns, bracket_ns / 2));
	for (uint64_t s = 11; s < 60; s++) {
		struct clock_pair wide;

		m.realtime_step_ns += (int64_t)slew_ns;
		wide = pair_at(&m, s * NS_PER_S, bracket_ns);
		clock_fit_add(&fit, &wide, &line);
		cr_assert(le(u64, error_at(&m, &line, s * NS_PER_S), line.error_ns + bracket_ns), "second %llu",
		          (unsigned long long)s);
	}
}

/* One reading through two lines that follow each other differs by no more than both bounds. */
Test(clock, a_renewal_goes_back_no_further_than_the_bounds)
{
	const struct machine m = {.hz = 156250000,
	                          .off_ppb = -70000,
	                          .mask = (UINT64_C(1) << 48) - 1,
	                          .raw_at_start = (UINT64_C(1) << 48) - 3000000000};
	struct clock_line old, line;
	struct clock_fit fit;

	clock_fit_init(&fit, m.hz, m.mask);
	run(&m, &fit, &line, 1, 1);
	for (uint64_t s = 2; s < 150; s++) {
		uint64_t raw = raw_at(&m, s * NS_PER_S + s * 12345), before, after;

		old = line;
		run(&m, &fit, &line, s, s);
		before = clock_utc_ns(&old, raw);
		after = clock_utc_ns(&line, raw);
		cr_assert(le(u64, before > after ? before - after : after - before, old.error_ns + line.error_ns));
		/* Within one line never back. */
		cr_assert(ge(u64, clock_utc_ns(&line, (raw + 1) & m.mask), after));
	}
}
