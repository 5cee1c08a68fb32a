// SPDX-License-Identifier: Apache-2.0
#include "tools/send/timing.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>

#define SECOND_NS UINT64_C(1000000000)
#define NOW_NS    (1800000000 * SECOND_NS)

static uint64_t offset(struct timing_capture *capture, uint64_t time_ns)
{
	uint64_t ns = 0;

	cr_assert(eq(int, timing_of_packet(capture, time_ns, &ns), 0));
	return ns;
}

Test(timing, a_rate_is_exact_however_many_packets_there_are)
{
	cr_expect(eq(u64, timing_at_rate(0, 3), 0));
	cr_expect(eq(u64, timing_at_rate(1, 3), 333333333));
	cr_expect(eq(u64, timing_at_rate(3, 3), SECOND_NS));
	cr_expect(eq(u64, timing_at_rate(UINT64_C(3000000) * 86400 * 365, 3000000), 86400 * 365 * SECOND_NS));
}

Test(timing, the_first_packet_leaves_at_once_and_others_as_recorded)
{
	struct timing_capture capture = {.speed = 1};

	cr_expect(eq(u64, offset(&capture, NOW_NS), 0));
	cr_expect(eq(u64, offset(&capture, NOW_NS + 1), 1));
	cr_expect(eq(u64, offset(&capture, NOW_NS + 5 * SECOND_NS + 7), 5 * SECOND_NS + 7));
}

Test(timing, speed_divides)
{
	struct timing_capture fast = {.speed = 4}, slow = {.speed = 0.5};

	offset(&fast, NOW_NS);
	offset(&slow, NOW_NS);
	cr_expect(eq(u64, offset(&fast, NOW_NS + SECOND_NS), SECOND_NS / 4));
	cr_expect(eq(u64, offset(&slow, NOW_NS + SECOND_NS), 2 * SECOND_NS));
}

Test(timing, a_packet_from_before_its_predecessor_leaves_behind_it)
{
	struct timing_capture capture = {.speed = 1};

	offset(&capture, NOW_NS);
	offset(&capture, NOW_NS + 100);
	cr_expect(eq(u64, offset(&capture, NOW_NS - 50), 100));
	cr_expect(eq(u64, offset(&capture, NOW_NS + 60), 100));
	cr_expect(eq(u64, offset(&capture, NOW_NS + 110), 110));
	cr_expect(eq(u64, capture.backwards, 2));
}

Test(timing, a_gap_that_is_too_long_is_shortened_and_what_follows_keeps_its_distance)
{
	struct timing_capture capture = {.speed = 1, .max_gap_ns = 2 * SECOND_NS};
	struct timing_capture fast = {.speed = 10, .max_gap_ns = 2 * SECOND_NS, .loop_delay_ns = SECOND_NS};

	offset(&capture, NOW_NS);
	cr_expect(eq(u64, offset(&capture, NOW_NS + 2 * SECOND_NS), 2 * SECOND_NS));
	cr_expect(eq(u64, offset(&capture, NOW_NS + 65536 * SECOND_NS), 4 * SECOND_NS));
	cr_expect(eq(u64, offset(&capture, NOW_NS + 65536 * SECOND_NS + 7), 4 * SECOND_NS + 7));
	cr_expect(eq(u64, capture.shortened, 1));
	/* The limit is one of the times at which they are sent. */
	offset(&fast, NOW_NS);
	cr_expect(eq(u64, offset(&fast, NOW_NS + 20 * SECOND_NS), 2 * SECOND_NS));
	cr_expect(eq(u64, offset(&fast, NOW_NS + 50 * SECOND_NS), 4 * SECOND_NS));
	timing_next_pass(&fast);
	cr_expect(eq(u64, offset(&fast, NOW_NS), 5 * SECOND_NS), "after the delay");
}

Test(timing, a_pass_follows_the_one_before_at_the_mean_distance)
{
	struct timing_capture capture = {.speed = 1};

	offset(&capture, NOW_NS);
	offset(&capture, NOW_NS + 10);
	offset(&capture, NOW_NS + 40);
	timing_next_pass(&capture);
	cr_expect(eq(u64, offset(&capture, NOW_NS), 60));
	offset(&capture, NOW_NS + 10);
	cr_expect(eq(u64, offset(&capture, NOW_NS + 40), 100));
	timing_next_pass(&capture);
	cr_expect(eq(u64, offset(&capture, NOW_NS), 120));
}

Test(timing, a_single_packet_is_repeated_once_a_second)
{
	struct timing_capture capture = {.speed = 1};

	for (uint64_t i = 0; i < 5; i++) {
		cr_expect(eq(u64, offset(&capture, NOW_NS), i * SECOND_NS));
		timing_next_pass(&capture);
	}
}

Test(timing, times_decades_apart_are_refused_and_do_not_overflow)
{
	struct timing_capture slow = {.speed = 1e-6}, capture = {.speed = 1};
	uint64_t ns;

	offset(&slow, NOW_NS);
	cr_expect(eq(int, timing_of_packet(&slow, NOW_NS + 2000000 * SECOND_NS, &ns), -ERANGE));
	offset(&capture, 0);
	cr_expect(eq(int, timing_of_packet(&capture, 8 * NOW_NS, &ns), -ERANGE));
	for (int i = 0; i < 20; i++) {
		timing_next_pass(&capture);
		timing_of_packet(&capture, 0, &ns);
		cr_expect(eq(int, timing_of_packet(&capture, 8 * NOW_NS, &ns), -ERANGE));
	}
}

Test(timing, drift_is_how_much_later_the_last_left_than_the_first)
{
	struct timing_drift drift = {0};
	uint64_t lateness = 0, packets = 0;
	double ns;

	timing_drift_add(&drift, SECOND_NS, 0, 0);
	for (uint64_t i = 1; i <= 1000; i++) {
		packets += 10;
		lateness += 10 * (500 + i); /* a ns more each ms */
		timing_drift_add(&drift, SECOND_NS + i * 1000000, packets, lateness);
		cr_expect(eq(int, timing_drift_of(&drift, &ns), i >= 200));
	}
	cr_expect(eq(dbl, ns, 900));
}

Test(timing, a_pause_is_not_drift)
{
	struct timing_drift drift = {0};
	double ns;

	timing_drift_add(&drift, SECOND_NS, 0, 0);
	for (uint64_t i = 1; i <= 100; i++)
		timing_drift_add(&drift, SECOND_NS + i * SECOND_NS, i / 10, i / 10 * 700);
	cr_assert(timing_drift_of(&drift, &ns));
	cr_expect(eq(dbl, ns, 0));
}
