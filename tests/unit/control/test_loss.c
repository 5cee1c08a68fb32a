// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/status.h"
#include "daemon/ring/rx_ring.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/small_ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define N 64u

static struct rx_ring ring;
static struct loss_memory memory;

static void set_up(void)
{
	struct rx_ring_options options = small_ring();

	options.slot_bytes = 8;
	options.slots_per_block = options.posted_slots = N;
	options.spare_blocks = options.lease_blocks_max = 1;
	cr_assert(eq(int, rx_ring_init(&ring, &options, NULL), 0));
}

static void tear_down(void)
{
	rx_ring_deinit(&ring);
}

TestSuite(loss, .init = set_up, .fini = tear_down);

static void publish(uint32_t n)
{
	while (n > 0) {
		struct rx_span span;

		rx_ring_post_span(&ring, n < N ? n : N, &span);
		cr_assert(gt(u32, span.n, 0));
		rx_ring_publish(&ring, span.n);
		n -= span.n;
	}
}

/* A reading of the device. */
static void note(uint64_t no_buffer, uint64_t at_ns)
{
	counter_set(&ring.ring->counters[IBVCAP_RX_COUNTER_NO_BUFFER], no_buffer);
	rx_ring_note_losses(&ring, no_buffer, at_ns);
}

static void expect(uint64_t packets, uint64_t from_ns, uint64_t to_ns)
{
	const struct loss *loss = loss_find_last(&memory, ring.ring, 1000);

	cr_expect(eq(u64, loss->packets, packets));
	cr_expect(eq(u64, loss->from_ns, from_ns));
	cr_expect(eq(u64, loss->to_ns, to_ns));
}

Test(loss, without_any_there_is_none)
{
	expect(0, 0, 0);
	publish(3 * N);
	note(0, 10);
	expect(0, 0, 0);
}

Test(loss, one_is_placed_between_the_readings_around_it)
{
	note(0, 10);
	publish(N / 2);
	note(5, 20);
	publish(N);
	note(5, 30);
	publish(N);
	expect(5, 10, 20);
	note(12, 40);
	publish(2 * N);
	expect(7, 30, 40);
}

Test(loss, what_is_in_no_record_yet_was_lost_since_the_last)
{
	note(0, 10);
	publish(N);
	counter_set(&ring.ring->counters[IBVCAP_RX_COUNTER_NO_BUFFER], 3);
	expect(3, 10, 1000);
}

Test(loss, one_that_the_ring_has_gone_round_since_is_forgotten)
{
	note(0, 10);
	publish(N / 2);
	note(5, 20);
	publish(20 * N);
	expect(0, 0, 0);
}

Test(loss, what_was_found_is_remembered_until_more_is_lost)
{
	note(0, 10);
	publish(N / 2);
	note(5, 20);
	expect(5, 10, 20);
	publish(20 * N);
	expect(5, 10, 20);
	note(6, 30);
	expect(1, 20, 30);
	daemon_update_block(&ring.blocks[ring.physical[(ring.head - 1) / N & ring.table_mask]], 0, 0);
	expect(1, 20, 30); /* the records are not looked at again */
}
