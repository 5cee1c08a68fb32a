// SPDX-License-Identifier: Apache-2.0
/* A consumer's numbers add up whatever its page says. */
#include "daemon/control/status.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

struct expected {
	uint64_t delivered;
	uint64_t skipped;
	uint64_t lag;
};

static void expect(uint64_t published, uint64_t delivered, uint64_t skipped, struct expected expected)
{
	const struct status_consumer_view view = {
		.slots_per_block = 64, .head = published, .delivered = delivered, .skipped = skipped};
	uint64_t counters[CONSUMER_COUNTER_N] = {0};

	status_count_consumer(&view, counters);
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_PUBLISHED], published));
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_DELIVERED], expected.delivered));
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_SKIPPED], expected.skipped));
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_LAG], expected.lag));
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_PUBLISHED],
	             counters[CONSUMER_COUNTER_DELIVERED] + counters[CONSUMER_COUNTER_SKIPPED] +
	                     counters[CONSUMER_COUNTER_LAG]));
}

Test(consumer_counts, an_honest_page_is_reported_as_it_is)
{
	expect(0, 0, 0, (struct expected){0, 0, 0});
	expect(150, 70, 30, (struct expected){70, 30, 50});
	expect(UINT64_MAX, UINT64_MAX - 2, 1, (struct expected){UINT64_MAX - 2, 1, 1});
}

Test(consumer_counts, a_punched_page_counts_as_nothing_delivered)
{
	expect(150, 0, 0, (struct expected){0, 0, 150});
}

Test(consumer_counts, counts_that_lie_are_clamped_and_the_sum_holds)
{
	expect(150, UINT64_MAX, 0, (struct expected){150, 0, 0});
	expect(150, 100, UINT64_MAX, (struct expected){100, 50, 0});
	expect(150, UINT64_MAX, UINT64_MAX, (struct expected){150, 0, 0});
	expect(150, 0, UINT64_MAX, (struct expected){0, 150, 0});
}

/* A reader stopped at any instruction changed one of the two words: the other's count stays what it was. */
Test(consumer_counts, a_skip_takes_nothing_from_delivered)
{
	expect(150, 1, 0, (struct expected){1, 0, 149});
	expect(150, 1, 100, (struct expected){1, 100, 49});
	expect(150, 2, 100, (struct expected){2, 100, 48});
}

/* ---- what its tracker counts ---------------------------------------------------------------------- */

Test(consumer_counts, without_a_tracker_there_are_no_counts_of_numbers)
{
	const struct status_consumer_view view = {.slots_per_block = 64};
	uint64_t counters[CONSUMER_COUNTER_N];

	status_count_consumer(&view, counters);
	for (unsigned i = CONSUMER_COUNTER_SOURCES; i < CONSUMER_COUNTER_N; i++)
		cr_expect(eq(u64, counters[i], COUNTER_ABSENT));
}

static void expect_sums(const uint64_t counters[CONSUMER_COUNTER_N])
{
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_ARRIVED],
	             counters[CONSUMER_COUNTER_ONCE] + counters[CONSUMER_COUNTER_REPEATED]));
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_SENT],
	             counters[CONSUMER_COUNTER_ONCE] + counters[CONSUMER_COUNTER_LOST]));
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_LOST],
	             counters[CONSUMER_COUNTER_LOST_BEFORE_CARD] + counters[CONSUMER_COUNTER_LOST_IN_CARD] +
	                     counters[CONSUMER_COUNTER_LOST_AFTER_CARD] + counters[CONSUMER_COUNTER_LOST_UNREAD] +
	                     counters[CONSUMER_COUNTER_LOST_IN_ABSENCE]));
}

Test(consumer_counts, lost_numbers_are_shared_out_among_the_places_that_lose)
{
	const struct status_consumer_view view = {.slots_per_block = 64,
	                                          .numbers_are_packets = true,
	                                          .tracked = {[IBVCAP_TRACKED_COUNTER_SOURCES] = 2,
	                                                      [IBVCAP_TRACKED_COUNTER_ONCE] = 1000,
	                                                      [IBVCAP_TRACKED_COUNTER_LOST] = 100,
	                                                      [IBVCAP_TRACKED_COUNTER_REPEATED] = 5,
	                                                      [IBVCAP_TRACKED_COUNTER_UNREAD] = 3,
	                                                      [IBVCAP_TRACKED_COUNTER_NO_BUFFER] = 20,
	                                                      [IBVCAP_TRACKED_COUNTER_SKIPPED] = 30,
	                                                      [IBVCAP_TRACKED_COUNTER_ABSENCE] = 7}};
	uint64_t counters[CONSUMER_COUNTER_N];

	status_count_consumer(&view, counters);
	expect_sums(counters);
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_LOST_AFTER_CARD], 30));
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_LOST_IN_CARD], 20));
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_LOST_UNREAD], 3));
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_LOST_BEFORE_CARD], 40));
	cr_expect(eq(u64, counters[CONSUMER_COUNTER_LOST_IN_ABSENCE], 7));
}

Test(consumer_counts, sums_of_numbers_hold_whatever_the_page_says)
{
	struct status_consumer_view view = {.slots_per_block = 64, .numbers_are_packets = true};
	uint64_t counters[CONSUMER_COUNTER_N];

	for (unsigned pattern = 1; pattern < 1u << IBVCAP_TRACKED_COUNTER_N; pattern++) {
		for (unsigned i = 0; i < IBVCAP_TRACKED_COUNTER_N; i++)
			view.tracked[i] = pattern >> i & 1 ? UINT64_MAX - i : i;
		view.tracked[IBVCAP_TRACKED_COUNTER_SOURCES] |= 1;
		status_count_consumer(&view, counters);
		expect_sums(counters);
		for (unsigned i = CONSUMER_COUNTER_SOURCES; i < CONSUMER_COUNTER_N; i++)
			cr_assert(lt(u64, counters[i], INT64_MAX), "counter %u", i);
	}
}

/* ---- the part of lag that is gone ----------------------------------------------------------------- */

static uint64_t gone(const struct status_consumer_view *view)
{
	uint64_t counters[CONSUMER_COUNTER_N] = {0};

	status_count_consumer(view, counters);
	cr_expect(le(u64, counters[CONSUMER_COUNTER_GONE], counters[CONSUMER_COUNTER_LAG]));
	return counters[CONSUMER_COUNTER_GONE];
}

Test(consumer_counts, rows_of_the_lag_below_the_oldest_block_are_gone)
{
	struct status_consumer_view view = {.floor = 10,
	                                    .slots_per_block = 64,
	                                    .attach_sequence = 100,
	                                    .delivered = 30,
	                                    .skipped = 20,
	                                    .head = 1000};

	cr_expect(eq(u64, gone(&view), 640 - 150));
	view.floor = 2;
	cr_expect(eq(u64, gone(&view), 0), "it is in block 2");
	view.floor = 3;
	cr_expect(eq(u64, gone(&view), 192 - 150));
	view.floor = 0;
	cr_expect(eq(u64, gone(&view), 0));
}

Test(consumer_counts, the_rest_of_a_leased_block_is_not_gone)
{
	struct status_consumer_view view = {.floor = 10,
	                                    .slots_per_block = 64,
	                                    .lease_blocks = 2,
	                                    .leases = {9, 3},
	                                    .delivered = 150,
	                                    .head = 1000};

	cr_expect(eq(u64, gone(&view), 640 - 192));
	view.delivered = 192;
	cr_expect(eq(u64, gone(&view), 640 - 192), "the next block is not leased");
	view.leases[1] = 0;
	view.delivered = 150;
	cr_expect(eq(u64, gone(&view), 640 - 150));
}

Test(consumer_counts, whatever_the_page_says_no_more_than_the_lag_is_gone)
{
	struct status_consumer_view view = {.floor = 100,
	                                    .slots_per_block = 64,
	                                    .lease_blocks = 1,
	                                    .leases = {UINT64_MAX},
	                                    .delivered = UINT64_MAX,
	                                    .head = 150};

	cr_expect(eq(u64, gone(&view), 0));
	view.delivered = 0;
	cr_expect(eq(u64, gone(&view), 150), "a floor past head: only head can be skipped to");
}
