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
	uint64_t counters[CONSUMER_COUNTER_N] = {0};

	status_count_consumer(published, delivered, skipped, counters);
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
