// SPDX-License-Identifier: Apache-2.0
/* What a handle of one queue knows of losses before its next packet, by the settled records of the ring. */
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static struct attached attached;
static int fds[PROTOCOL_FD_N], client_socket;
static struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);

static void end(void)
{
	attached_deinit(&attached);
}

TestSuite(rx_settled, .fini = end, .timeout = 30);

static void attach(void)
{
	const struct ibvcap_rx_options options = {.size = sizeof(options), .reattach_ms = IBVCAP_NO_REATTACH};

	cr_assert(eq(int, attached_open(&attached.rx, client_socket, fds, EPOCH, NULL, &options), 0), "%s",
	          ibvcap_error_text());
}

/* All packets before head were published before the record, and the card had lost so many. */
static void settle(uint64_t at_ns, uint64_t head, uint64_t lost)
{
	const struct ring_settled record = {.at_ns = at_ns,
	                                    .head = head,
	                                    .before = {.no_buffer = lost, .marks = 10 * lost},
	                                    .after = {.no_buffer = lost, .marks = 10 * lost},
	                                    .no_buffer_most = lost + 1};

	daemon_store_settled(&attached.ring.ring->settled, &record);
}

static struct ibvcap_rx_moment moment_of_rx(void)
{
	struct ibvcap_rx_moment moment = IBVCAP_INIT(struct ibvcap_rx_moment);

	cr_assert(eq(int, ibvcap_rx_take_moment(attached.rx, &moment), 0));
	return moment;
}

static void expect_before(uint64_t lost)
{
	const struct ibvcap_rx_moment moment = moment_of_rx();

	cr_expect(eq(u64, moment.before.least, lost));
	cr_expect(eq(u64, moment.before.marks, 10 * lost));
	cr_expect(eq(u64, moment.before.most, UINT64_MAX), "the records before say no more than that");
}

static void take(uint32_t n)
{
	cr_assert(eq(int, ibvcap_rx_acquire(attached.rx, &batch, n, n, 0), (int)n));
	cr_assert(eq(int, ibvcap_rx_release(attached.rx, &batch), 0));
}

Test(rx_settled, a_handle_begins_with_the_record_that_was_there_although_a_newer_one_is_ahead)
{
	attached_prepare(&attached, fds, &client_socket);
	settle(100, 0, 3);
	attach();
	settle(200, 5, 4);
	expect_before(3);
}

/* A block keeps the record of the time when its first packet came. */
Test(rx_settled, a_handle_that_begins_in_the_past_begins_with_the_record_of_its_block)
{
	const struct ring_losses of_blocks = {.no_buffer = 6, .marks = 60};

	attached = (struct attached){.n_earlier = N + 5, .start = {.where = IBVCAP_START_OLDEST}};
	attached_prepare(&attached, fds, &client_socket);
	for (uint32_t i = 0; i < attached.ring.n_blocks; i++)
		daemon_store_losses(&attached.ring.blocks[i].before, &of_blocks);
	settle(100, N + 1, 9);
	attach();
	expect_before(6);
	take(N);
	expect_before(6);
	take(1);
	expect_before(9);
}

/* No packet of the block has come: it may have the record of packets that are no longer in the ring. */
Test(rx_settled, a_handle_that_begins_at_the_end_of_a_block_takes_no_record_of_a_block)
{
	const struct ring_losses of_blocks = {.no_buffer = 6, .marks = 60};

	attached = (struct attached){.n_earlier = N};
	attached_prepare(&attached, fds, &client_socket);
	for (uint32_t i = 0; i < attached.ring.n_blocks; i++)
		daemon_store_losses(&attached.ring.blocks[i].before, &of_blocks);
	attach();
	expect_before(0);
}

Test(rx_settled, a_record_counts_when_the_reader_has_passed_its_head)
{
	attached_prepare(&attached, fds, &client_socket);
	attach();
	expect_before(0);
	attached_publish(&attached, 10);
	settle(100, 5, 3);
	expect_before(0);
	take(4);
	expect_before(0);
	take(1);
	expect_before(3);
	settle(200, 10, 7);
	take(4);
	settle(300, 11, 8); /* in place of one that the reader has seen, and not yet passed */
	expect_before(3);
	take(1);
	expect_before(7);
	attached_publish(&attached, 1);
	take(1);
	expect_before(8);
}

Test(rx_settled, a_record_without_a_time_is_none)
{
	attached_prepare(&attached, fds, &client_socket);
	settle(0, 0, 3);
	attach();
	expect_before(0);
}

Test(rx_settled, a_moment_while_a_batch_is_out_is_that_of_the_last_packet_that_was_not)
{
	attached_prepare(&attached, fds, &client_socket);
	attach();
	attached_publish(&attached, 4);
	cr_assert(eq(int, ibvcap_rx_acquire(attached.rx, &batch, 4, 4, 0), 4));
	settle(100, 4, 3);
	expect_before(0);
	cr_assert(eq(int, ibvcap_rx_release(attached.rx, &batch), 0));
	expect_before(3);
}

/* The reading is newer than the record, and no packet came between them. */
Test(rx_settled, a_reading_of_the_card_settles_what_its_last_record_has_counted)
{
	struct ibvcap_rx_moment moment;

	attached_prepare(&attached, fds, &client_socket);
	attach();
	settle(1, 0, 3);
	moment = moment_of_rx();
	cr_expect(eq(int, ibvcap_rx_settle_moment(attached.rx, &moment), 0));
	daemon_store_reading(attached.ring.ring, 1, moment.monotonic_ns);
	cr_expect(eq(int, ibvcap_rx_settle_moment(attached.rx, &moment), 0), "a packet has come since the record");
	daemon_store_reading(attached.ring.ring, 0, moment.monotonic_ns - 1);
	cr_expect(eq(int, ibvcap_rx_settle_moment(attached.rx, &moment), 0));
	daemon_store_reading(attached.ring.ring, 0, moment.monotonic_ns);
	cr_expect(eq(int, ibvcap_rx_settle_moment(attached.rx, &moment), 1));
	cr_expect(eq(u64, moment.after.least, 3));
	cr_expect(eq(u64, moment.after.most, 4));
	cr_expect(zero(u32, moment.state));
}

/* CLOCK_MONOTONIC of another time namespace: no moment of this one compares with it. */
Test(rx_settled, a_record_of_the_future_settles_nothing)
{
	struct ibvcap_rx_moment moment;

	attached_prepare(&attached, fds, &client_socket);
	attach();
	moment = moment_of_rx();
	settle(moment.monotonic_ns + UINT64_C(100000000000), 0, 3);
	cr_expect(eq(int, ibvcap_rx_settle_moment(attached.rx, &moment), 0));
	settle(RING_SETTLED_ENDED, 0, 3);
	cr_expect(eq(int, ibvcap_rx_settle_moment(attached.rx, &moment), 1));
}
