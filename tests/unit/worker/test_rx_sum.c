// SPDX-License-Identifier: Apache-2.0
/* The sum of a stream over the notes of several workers. */
#include "daemon/worker/rx_sum.h"

#include "daemon/backend/backend.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define SLOTS 128u

static struct backend_queue queues[3];
static struct ibvcap_ring rings[3];
static struct rx_sum sum;

static void set_up(uint32_t n, bool counts_drops)
{
	rx_sum_init(&sum, n, counts_drops);
	for (uint32_t i = 0; i < n; i++)
		sum.parts[i] = (struct rx_sum_part){.ring = &rings[i], .queue = &queues[i], .queue_slots = SLOTS};
}

static uint64_t note(uint32_t queue, const struct rx_reading *reading, enum rx_sum_note what, uint64_t rows)
{
	rx_sum_note(&sum, queue, reading, what, rows, 0);
	return rx_sum_settle(&sum, reading);
}

Test(rx_sum, the_last_of_the_workers_finds_out_what_is_lost)
{
	const struct rx_reading reading = {.matched = 100, .at_ns = 7};

	set_up(2, false);
	cr_expect(eq(u64, note(0, &reading, RX_SUM_OPEN, 10), 0));
	cr_expect(eq(u64, note(0, &reading, RX_SUM_SETTLED, 40), 0), "the other one has not even read it");
	cr_expect(eq(u64, note(1, &reading, RX_SUM_OPEN, 20), 0), "a queue of packets may yet come");
	cr_expect(eq(u64, note(1, &reading, RX_SUM_SETTLED, 50), 10));
	cr_expect(eq(u64, sum.no_buffer, 10));
	cr_expect(eq(u64, sum.matched, 100));
}

Test(rx_sum, under_lasting_overload_each_queue_that_is_not_settled_may_yet_have_its_slots)
{
	const struct rx_reading reading = {.matched = 1000, .at_ns = 7};

	set_up(2, false);
	note(0, &reading, RX_SUM_OPEN, 300);
	cr_expect(eq(u64, note(1, &reading, RX_SUM_OPEN, 300), 1000 - 600 - 2 * SLOTS));
	cr_expect(eq(u64, note(0, &reading, RX_SUM_SETTLED, 300), SLOTS));
	cr_expect(eq(u64, sum.no_buffer, 1000 - 600 - SLOTS));
}

Test(rx_sum, packets_that_come_after_the_reading_hide_losses_until_the_next_one_and_are_no_loss)
{
	const struct rx_reading first = {.matched = 100, .at_ns = 7}, next = {.matched = 110, .at_ns = 8};

	set_up(2, false);
	note(0, &first, RX_SUM_SETTLED, 60);
	cr_expect(eq(u64, note(1, &first, RX_SUM_SETTLED, 45), 0));
	note(0, &next, RX_SUM_SETTLED, 60);
	cr_expect(eq(u64, note(1, &next, RX_SUM_SETTLED, 45), 5));
}

Test(rx_sum, a_worker_that_has_ended_holds_nobody_up)
{
	const struct rx_reading reading = {.matched = 100, .at_ns = 7};

	set_up(3, false);
	note(2, &(struct rx_reading){.at_ns = 3}, RX_SUM_ENDED, 30);
	note(0, &reading, RX_SUM_SETTLED, 20);
	cr_expect(eq(u64, note(1, &reading, RX_SUM_SETTLED, 10), 40));
}

Test(rx_sum, what_the_device_counts_as_dropped_is_the_limit_until_all_have_ended)
{
	const struct rx_reading reading = {.matched = 100, .at_ns = 7};

	set_up(2, true);
	queues[1].n_dropped[BACKEND_DROP_RING_FULL] = 5;
	note(0, &reading, RX_SUM_SETTLED, 40);
	cr_expect(eq(u64, note(1, &reading, RX_SUM_SETTLED, 40), 5));
	note(0, &reading, RX_SUM_ENDED, 40);
	cr_expect(eq(u64, note(1, &reading, RX_SUM_ENDED, 45), 10), "and what no worker has got is lost, too");
}

/* Another queue may hold fragments from before the reading, or have them in its device still. */
Test(rx_sum, the_drops_of_several_queues_that_join_fragments_are_no_limit)
{
	const struct rx_reading reading = {.matched = 100, .at_ns = 7};
	uint64_t least, most;

	set_up(2, true);
	for (uint32_t i = 0; i < 2; i++) {
		rx_sum_note_before(&sum, i, &reading, 45);
		note(i, &reading, RX_SUM_SETTLED, 48);
	}
	rx_sum_bound(&sum, &reading, &least, &most);
	cr_expect(eq(u64, least, 0));
	cr_expect(eq(u64, most, 0));
	sum.joins = true;
	rx_sum_bound(&sum, &reading, &least, &most);
	cr_expect(eq(u64, least, 0));
	cr_expect(eq(u64, most, 10));
}

Test(rx_sum, packets_that_the_backend_splits_are_matched_once_for_each_row)
{
	const struct rx_reading reading = {.matched = 10, .at_ns = 7};

	set_up(2, false);
	queues[0].n_split = 6;
	note(0, &reading, RX_SUM_SETTLED, 12);
	cr_expect(eq(u64, note(1, &reading, RX_SUM_SETTLED, 3), 1));
	cr_expect(eq(u64, sum.matched, 16));
}

Test(rx_sum, rows_of_a_split_packet_stand_for_no_other_packet)
{
	const struct rx_reading first = {.matched = 40, .at_ns = 7}, next = {.matched = 100, .at_ns = 8};

	set_up(1, false);
	rings[0].counters[IBVCAP_RX_COUNTER_PUBLISHED] = 130;
	queues[0].n_split = 90;
	note(0, &first, RX_SUM_SETTLED, 130);
	cr_expect(rx_sum_is_settled(&sum, 40));
	cr_expect(rx_sum_is_at_rest(&sum, 40), "a worker may sleep though a packet was split");
	cr_expect(not(rx_sum_is_settled(&sum, 100)), "no worker has noted it");
	note(0, &next, RX_SUM_OPEN, 130);
	cr_expect(not(rx_sum_is_settled(&sum, 100)), "60 packets may yet come");
	rings[0].counters[IBVCAP_RX_COUNTER_PUBLISHED] = 190;
	cr_expect(rx_sum_is_settled(&sum, 100));
	cr_expect(rx_sum_is_at_rest(&sum, 100));
}

Test(rx_sum, losses_while_a_lossless_consumer_stops_any_queue_are_told_apart)
{
	const struct rx_reading first = {.matched = 10, .at_ns = 7, .utc_ns = 70},
				next = {.matched = 20, .at_ns = 8, .utc_ns = 80, .before_utc_ns = 70};

	set_up(2, false);
	note(0, &first, RX_SUM_SETTLED, 4);
	cr_expect(eq(u64, note(1, &first, RX_SUM_SETTLED, 5), 1));
	cr_expect(eq(u64, sum.no_buffer_lossless, 0));
	sum.parts[0].stalled_utc_ns = 75;
	note(1, &next, RX_SUM_SETTLED, 5);
	cr_expect(eq(u64, note(0, &next, RX_SUM_SETTLED, 4), 10));
	cr_expect(eq(u64, sum.no_buffer_lossless, 10));
}
