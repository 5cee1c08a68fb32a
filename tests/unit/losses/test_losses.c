// SPDX-License-Identifier: Apache-2.0
/* The losses of a stream, over the notes of several workers. */
#include "daemon/losses/losses.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define SLOTS 128u

#define LATER_NS 10000000u

static struct losses losses;
static enum losses_change change; /* of the last update */
static const struct ledger_entry *const newest = &losses.entry.of_stream;
static struct losses_counts counts[3];

static void set_up(uint32_t n, bool counts_drops, bool joins)
{
	losses_init(&losses, n, SLOTS, counts_drops, joins, 0);
	memset(counts, 0, sizeof(counts));
	for (uint32_t i = 0; i < n; i++)
		counts[i].decided_ns = UINT64_MAX;
}

/* The worker has that many rows, and notes what the level says. Returns by how much no_buffer grows. */
static uint64_t note(uint32_t i, const struct losses_reading *reading, enum losses_level level, uint64_t rows)
{
	struct losses_queue *queue = &losses.queues[i];
	uint64_t before = losses.no_buffer;

	counts[i].accounted = counts[i].head = rows;
	counts[i].is_empty = counts[i].took_all = false;
	counts[i].now_ns = reading->at_ns;
	if (queue->note.reading.at_ns != reading->at_ns)
		losses_queue_read(queue, reading, &counts[i]);
	counts[i].is_empty = counts[i].took_all = true;
	counts[i].now_ns += LATER_NS;
	if (level == LOSSES_SETTLED)
		losses_queue_look(queue, &counts[i]);
	else if (level == LOSSES_ENDED)
		losses_queue_end(queue, &counts[i]);
	change = losses_update(&losses);
	return losses.no_buffer - before;
}

Test(losses, the_last_of_the_workers_finds_out_what_is_lost)
{
	const struct losses_reading reading = {.matched = 100, .at_ns = 7};

	set_up(2, false, false);
	cr_expect(eq(u64, note(0, &reading, LOSSES_OPEN, 10), 0));
	cr_expect(eq(u64, note(0, &reading, LOSSES_SETTLED, 40), 0), "the other one has not even read it");
	cr_expect(eq(u64, note(1, &reading, LOSSES_OPEN, 20), 0), "a queue of packets may yet come");
	cr_expect(eq(u64, note(1, &reading, LOSSES_SETTLED, 50), 10));
	cr_expect(eq(u64, losses.no_buffer, 10));
	cr_expect(eq(u64, losses.matched, 100));
}

Test(losses, under_lasting_overload_each_queue_that_is_not_settled_may_yet_have_its_slots)
{
	const struct losses_reading reading = {.matched = 1000, .at_ns = 7};

	set_up(2, false, false);
	note(0, &reading, LOSSES_OPEN, 300);
	cr_expect(eq(u64, note(1, &reading, LOSSES_OPEN, 300), 1000 - 600 - 2 * SLOTS));
	cr_expect(eq(u64, note(0, &reading, LOSSES_SETTLED, 300), SLOTS));
	cr_expect(eq(u64, losses.no_buffer, 1000 - 600 - SLOTS));
}

Test(losses, packets_that_come_after_the_reading_hide_losses_until_the_next_one_and_are_no_loss)
{
	const struct losses_reading first = {.matched = 100, .at_ns = 7}, next = {.matched = 110, .at_ns = 8};

	set_up(2, false, false);
	note(0, &first, LOSSES_SETTLED, 60);
	cr_expect(eq(u64, note(1, &first, LOSSES_SETTLED, 45), 0));
	note(0, &next, LOSSES_SETTLED, 60);
	cr_expect(eq(u64, note(1, &next, LOSSES_SETTLED, 45), 5));
}

Test(losses, a_worker_that_has_ended_holds_nobody_up)
{
	const struct losses_reading reading = {.matched = 100, .at_ns = 7};

	set_up(3, false, false);
	note(2, &(struct losses_reading){.at_ns = 3}, LOSSES_ENDED, 30);
	note(0, &reading, LOSSES_SETTLED, 20);
	cr_expect(eq(u64, note(1, &reading, LOSSES_SETTLED, 10), 40));
}

Test(losses, what_the_device_counts_as_dropped_is_the_limit_until_all_have_ended)
{
	const struct losses_reading reading = {.matched = 100, .at_ns = 7};

	set_up(2, true, false);
	counts[1].dropped = 5;
	note(0, &reading, LOSSES_SETTLED, 40);
	cr_expect(eq(u64, note(1, &reading, LOSSES_SETTLED, 40), 5));
	note(0, &reading, LOSSES_ENDED, 40);
	cr_expect(eq(u64, note(1, &reading, LOSSES_ENDED, 45), 10), "and what no worker has got is lost, too");
}

/* Another queue may hold fragments from before the reading, or have them in its device still. */
Test(losses, the_drops_of_several_queues_that_hold_fragments_are_no_limit)
{
	const struct losses_reading first = {.matched = 90, .at_ns = 7}, next = {.matched = 100, .at_ns = 2 * LATER_NS};

	for (int joins = 0; joins < 2; joins++) {
		set_up(2, true, joins);
		for (uint32_t i = 0; i < 2; i++)
			note(i, &first, LOSSES_SETTLED, 45);
		for (uint32_t i = 0; i < 2; i++)
			note(i, &next, LOSSES_SETTLED, 48);
		cr_expect(ne(int, change, LOSSES_SAME));
		cr_expect(eq(u64, newest->after.no_buffer, 0));
		cr_expect(eq(u64, newest->no_buffer_most, joins ? 10 : 0));
	}
}

Test(losses, packets_that_the_backend_splits_are_matched_once_for_each_row)
{
	const struct losses_reading reading = {.matched = 10, .at_ns = 7};

	set_up(2, false, false);
	counts[0].split = 6;
	note(0, &reading, LOSSES_SETTLED, 12);
	cr_expect(eq(u64, note(1, &reading, LOSSES_SETTLED, 3), 1));
	cr_expect(eq(u64, losses.matched, 16));
}

Test(losses, a_reading_is_settled_when_all_of_its_packets_are_accounted_for)
{
	const struct losses_reading first = {.matched = 40, .at_ns = 7}, next = {.matched = 100, .at_ns = 8};

	set_up(1, false, false);
	note(0, &first, LOSSES_SETTLED, 40);
	cr_expect(losses_are_settled(&losses, 40, 40));
	cr_expect(not(losses_are_settled(&losses, 100, 100)), "no worker has noted it");
	note(0, &next, LOSSES_OPEN, 40);
	cr_expect(not(losses_are_settled(&losses, 100, 40)), "60 packets may yet come");
	cr_expect(losses_are_settled(&losses, 100, 100));
}

/* ---- the ledger ------------------------------------------------------------------------------------ */

static void expect_entry(enum losses_change expected, uint64_t matched, uint64_t at_ns, uint64_t rows)
{
	const struct losses_reading reading = {.matched = matched, .at_ns = at_ns, .utc_ns = at_ns};

	note(0, &reading, LOSSES_SETTLED, rows);
	cr_assert(eq(int, change, expected));
}

Test(losses, an_entry_is_renewed_until_something_is_lost)
{
	set_up(1, false, false);
	expect_entry(LOSSES_APPENDED, 10, LATER_NS, 10);
	expect_entry(LOSSES_RENEWED, 20, 3 * LATER_NS, 20);
	cr_expect(eq(u64, losses.entry.queues[0].head, 10));
	cr_expect(eq(u64, newest->until_ns, 3 * LATER_NS));
	counts[0].marks++;
	expect_entry(LOSSES_APPENDED, 35, 5 * LATER_NS, 30);
	cr_expect(eq(u64, newest->before.no_buffer, 0), "it may have been lost behind the head");
	cr_expect(eq(u64, newest->after.no_buffer, 5));
	expect_entry(LOSSES_APPENDED, 35, 7 * LATER_NS, 30);
	cr_expect(eq(u64, newest->before.no_buffer, 5));
	cr_expect(eq(u64, newest->read_utc_ns, 5 * LATER_NS));
	expect_entry(LOSSES_RENEWED, 35, 9 * LATER_NS, 30);
}

Test(losses, a_stream_at_rest_needs_no_worker)
{
	const struct losses_reading later = {.matched = 10, .at_ns = 9 * LATER_NS},
				    latest = {.matched = 11, .at_ns = 10 * LATER_NS};

	set_up(1, false, false);
	expect_entry(LOSSES_APPENDED, 10, LATER_NS, 10);
	cr_expect(not(losses_are_at_rest(&losses, 10, 10, 0)), "packets came since the last note");
	expect_entry(LOSSES_RENEWED, 10, 3 * LATER_NS, 10);
	cr_expect(losses_are_at_rest(&losses, 10, 10, 0));
	cr_expect(not(losses_are_at_rest(&losses, 11, 10, 0)));
	cr_expect(not(losses_are_at_rest(&losses, 10, 10, 1)), "the interface went down");
	cr_expect(eq(int, losses_renew_by(&losses, &later), LOSSES_RENEWED));
	cr_expect(eq(u64, newest->until_ns, later.at_ns));
	cr_expect(eq(int, losses_renew_by(&losses, &latest), LOSSES_SAME));
}

Test(losses, an_outage_lies_before_the_next_row_when_a_reading_after_it_is_settled)
{
	struct losses_reading reading = {.matched = 10};

	set_up(1, false, false);
	expect_entry(LOSSES_APPENDED, 10, LATER_NS, 10);
	counts[0].outages = 2;
	for (uint64_t i = 3; i <= 5; i += 2) {
		reading.at_ns = i * LATER_NS;
		cr_assert(eq(int, losses_renew_by(&losses, &reading), LOSSES_RENEWED),
		          "as the control thread does before it mails");
		expect_entry(LOSSES_APPENDED, 10, reading.at_ns, 10);
	}
	cr_expect(eq(u64, newest->before.outages, 2));
	cr_expect(eq(u64, newest->after.outages, 2));
	cr_expect(losses_are_at_rest(&losses, 10, 10, 2));
}

Test(losses, the_last_loss_lies_between_two_readings)
{
	const struct losses_reading first = {.matched = 10, .at_ns = 7, .utc_ns = 70},
				    next = {.matched = 300, .at_ns = 8, .utc_ns = 80, .before_utc_ns = 70};

	set_up(1, false, false);
	note(0, &first, LOSSES_SETTLED, 10);
	cr_expect(eq(u64, losses.last.packets, 0));
	note(0, &next, LOSSES_OPEN, 10);
	note(0, &next, LOSSES_SETTLED, 10);
	cr_expect(eq(u64, losses.last.packets, 290), "one reading showed it in two parts");
	cr_expect(eq(u64, losses.last.from_utc_ns, 70));
	cr_expect(eq(u64, losses.last.to_utc_ns, 80));
}

/* ---- a lossless consumer ----------------------------------------------------------------------------- */

Test(losses, losses_while_a_lossless_consumer_stops_any_queue_are_told_apart)
{
	const struct losses_reading first = {.matched = 10, .at_ns = 7, .utc_ns = 70},
				    next = {.matched = 20, .at_ns = 8, .utc_ns = 80, .before_utc_ns = 70};

	set_up(2, false, false);
	note(0, &first, LOSSES_SETTLED, 4);
	cr_expect(eq(u64, note(1, &first, LOSSES_SETTLED, 5), 1));
	cr_expect(eq(u64, losses.no_buffer_lossless, 0));
	losses.queues[0].stalled_utc_ns = 75;
	note(1, &next, LOSSES_SETTLED, 5);
	cr_expect(eq(u64, note(0, &next, LOSSES_SETTLED, 4), 10));
	cr_expect(eq(u64, losses.no_buffer_lossless, 10));
}

Test(losses, losses_while_the_daemon_stood_still_are_told_apart)
{
	const struct losses_reading first = {.matched = 10, .at_ns = 7, .utc_ns = 70},
				    next = {.matched = 20, .at_ns = 8, .utc_ns = 80, .before_utc_ns = 70},
				    last = {.matched = 25, .at_ns = 9, .utc_ns = 90, .before_utc_ns = 80};

	set_up(1, false, false);
	note(0, &first, LOSSES_SETTLED, 10);
	losses.standstill_utc_ns = 80;
	cr_expect(eq(u64, note(0, &next, LOSSES_SETTLED, 10), 10));
	cr_expect(eq(u64, losses.no_buffer_standstill, 10));
	cr_expect(eq(u64, note(0, &last, LOSSES_SETTLED, 10), 5));
	cr_expect(eq(u64, losses.no_buffer_standstill, 10), "that loss is of a reading in time");
}
