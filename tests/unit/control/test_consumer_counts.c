// SPDX-License-Identifier: Apache-2.0
/* A consumer's numbers add up whatever its page says. */
#include "daemon/control/status.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static void expect(uint64_t attach, uint64_t head, struct consumer_cursors cursors, uint64_t delivered, uint64_t skipped,
		   uint64_t lag)
{
	uint64_t counters[CONSUMER_CTR_N] = { 0 };

	status_count_consumer(attach, head, &cursors, counters);
	cr_expect(eq(u64, counters[CONSUMER_CTR_PUBLISHED], head - attach));
	cr_expect(eq(u64, counters[CONSUMER_CTR_DELIVERED], delivered));
	cr_expect(eq(u64, counters[CONSUMER_CTR_SKIPPED], skipped));
	cr_expect(eq(u64, counters[CONSUMER_CTR_LAG], lag));
	cr_expect(eq(u64, counters[CONSUMER_CTR_PUBLISHED],
		     counters[CONSUMER_CTR_DELIVERED] + counters[CONSUMER_CTR_SKIPPED] + counters[CONSUMER_CTR_LAG]));
}

Test(consumer_counts, an_honest_page_is_reported_as_it_is)
{
	expect(100, 100, (struct consumer_cursors){ 100, 0 }, 0, 0, 0);
	expect(100, 250, (struct consumer_cursors){ 200, 30 }, 70, 30, 50);
	expect(0, UINT64_MAX, (struct consumer_cursors){ UINT64_MAX - 1, 1 }, UINT64_MAX - 2, 1, 1);
}

Test(consumer_counts, a_punched_page_counts_as_nothing_acquired)
{
	expect(100, 250, (struct consumer_cursors){ 0, 0 }, 0, 0, 150);
}

Test(consumer_counts, cursors_that_lie_are_clamped_and_the_sum_holds)
{
	expect(100, 250, (struct consumer_cursors){ UINT64_MAX, 0 }, 150, 0, 0);
	expect(100, 250, (struct consumer_cursors){ 200, UINT64_MAX }, 0, 100, 50);
	expect(100, 250, (struct consumer_cursors){ UINT64_MAX, UINT64_MAX }, 0, 150, 0);
	expect(100, 250, (struct consumer_cursors){ 0, UINT64_MAX }, 0, 0, 150);
}
