// SPDX-License-Identifier: Apache-2.0
/* A handle of all queues when some of them fail, end, are removed, or go on in the next epoch. */
#include "lib/ibvcap/ring.h"
#include "tests/unit/ibvcap/several_queues.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <unistd.h>

#define NEXT (EPOCH + 1)

TestSuite(rx_set_ends, .init = set_up_queues, .fini = tear_down_queues, .timeout = 30);

static void end_rings(uint32_t n, enum ibvcap_ring_end end)
{
	for (uint32_t i = 0; i < n; i++)
		rx_ring_close(&queues[i].ring, end);
}

/* ---- the next epoch --------------------------------------------------------------------------------- */

Test(rx_set_ends, each_queue_begins_the_next_epoch_with_an_unknown_gap_and_the_epoch_counts_once)
{
	struct ibvcap_rx_counts counts;

	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[0], 5);
	attached_publish(&queues[1], 6);
	end_rings(2, IBVCAP_RING_END_STOPPED);
	expect_rows(0, 5, 0);
	expect_rows(1, 6, 0);
	cr_assert(eq(int, take(N), 0));
	cr_expect(eq(u32, info_of_rx().disconnected, 1));
	cr_expect(eq(u32, info_of_rx().n_attached, 2), "it keeps them");
	answer_requests(next_queues, 2, NEXT, 2);
	attached_publish(&next_queues[0], 3);
	attached_publish(&next_queues[1], 4);
	expect_rows(0, 3, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN);
	expect_rows(1, 4, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN);
	attached_publish(&next_queues[0], 1);
	expect_rows(0, 1, 0);
	counts = counts_of_rx();
	cr_expect(eq(u64, counts.published, 19));
	cr_expect(eq(u64, counts.delivered, 19));
	cr_expect(eq(u64, counts.epochs, 1));
	cr_expect(eq(u64, info_of_rx().epoch, NEXT));
	cr_expect(eq(u32, info_of_rx().disconnected, 0));
}

Test(rx_set_ends, queues_that_are_new_in_the_next_epoch_are_read_and_begin_with_an_unknown_gap)
{
	open_all_queues(queues, 2, NULL);
	end_rings(2, IBVCAP_RING_END_STOPPED);
	cr_assert(eq(int, take(N), 0));
	answer_requests(next_queues, 4, NEXT, 2);
	cr_assert(eq(int, take(N), 0));
	answer_requests(next_queues, 4, NEXT, 2);
	for (uint32_t i = 0; i < 4; i++)
		attached_publish(&next_queues[i], i + 1);
	for (uint32_t i = 0; i < 4; i++)
		expect_rows(i, i + 1, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN);
	cr_assert(eq(int, take(N), 0));
	cr_expect(not(is_asked(0)), "it has all");
	cr_expect(eq(u32, info_of_rx().n_queues, 4));
	cr_expect(eq(u32, info_of_rx().n_attached, 4));
	cr_expect(eq(u64, counts_of_rx().delivered, 1 + 2 + 3 + 4));
}

Test(rx_set_ends, a_queue_that_the_next_epoch_lacks_is_left)
{
	union protocol_message request;

	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[1], 2);
	end_rings(2, IBVCAP_RING_END_STOPPED);
	expect_rows(1, 2, 0);
	cr_assert(eq(int, take(N), 0));
	answer_requests(next_queues, 1, NEXT, 1);
	refuse(accept_request(&request), -EINVAL);
	cr_assert(eq(int, take(N), 0));
	attached_publish(&next_queues[0], 3);
	expect_rows(0, 3, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN);
	cr_expect(eq(u32, info_of_rx().n_queues, 1));
	cr_expect(eq(u32, info_of_rx().n_attached, 1));
	cr_expect(eq(u64, counts_of_rx().delivered, 5), "its packets still count");
	cr_expect(eq(u64, counts_of_rx().epochs, 1));
}

Test(rx_set_ends, the_first_queue_is_not_left_when_the_daemon_refuses_it)
{
	union protocol_message request;

	open_all_queues(queues, 2, NULL);
	end_rings(2, IBVCAP_RING_END_STOPPED);
	cr_assert(eq(int, take(N), 0));
	refuse(accept_request(&request), -EINVAL);
	cr_expect(eq(int, take(N), -EINVAL));
}

Test(rx_set_ends, a_stream_that_had_one_queue_is_read_by_all_that_the_next_epoch_has)
{
	open_all_queues(queues, 1, NULL);
	attached_publish(&queues[0], 2);
	end_rings(1, IBVCAP_RING_END_STOPPED);
	expect_rows(0, 2, 0);
	cr_assert(eq(int, take(N), 0));
	answer_requests(next_queues, 3, NEXT, 1);
	cr_assert(eq(int, take(N), 0));
	cr_assert(eq(int, take(N), 0));
	answer_requests(next_queues, 3, NEXT, 2);
	attached_publish(&next_queues[2], 3);
	expect_rows(2, 3, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN);
	cr_expect(eq(u32, info_of_rx().n_attached, 3));
}

Test(rx_set_ends, the_descriptor_says_each_step_into_the_next_epoch)
{
	int fd;

	open_all_queues(queues, 2, NULL);
	fd = ibvcap_rx_fd(rx);
	cr_assert(eq(int, take(N), 0));
	cr_expect(not(is_readable(fd, 0)));
	end_rings(2, IBVCAP_RING_END_STOPPED);
	close(queues[0].daemon_wake);
	queues[0].daemon_wake = dup(0);
	cr_expect(is_readable(fd, 1000));
	cr_assert(eq(int, take(N), 0));
	answer_requests(next_queues, 3, NEXT, 2);
	cr_expect(is_readable(fd, 1000), "the answers");
	cr_assert(eq(int, take(N), 0));
	cr_expect(not(is_readable(fd, 0)));
	answer_requests(next_queues, 3, NEXT, 1);
	cr_expect(is_readable(fd, 1000), "the answer for the new queue");
	cr_assert(eq(int, take(N), 0));
	cr_expect(eq(int, ibvcap_rx_fd(rx), fd));
	attached_publish(&next_queues[2], 1);
	notify(&next_queues[2]);
	cr_expect(is_readable(fd, 1000), "a packet of the new queue");
}

Test(rx_set_ends, batches_of_the_old_epoch_are_released_before_the_next_one_begins)
{
	struct ibvcap_rx_batch held;

	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(N), 5));
	held = batch;
	end_rings(2, IBVCAP_RING_END_STOPPED);
	cr_expect(eq(int, take(N), -ENOBUFS));
	answer_requests(next_queues, 2, NEXT, 1);
	cr_expect(eq(u32, next_queues[1].queue, 1), "the queue without batches goes on");
	attached_publish(&next_queues[1], 1);
	expect_rows(1, 1, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN);
	cr_expect(eq(int, ibvcap_rx_release(rx, &held), 0));
	cr_expect(eq(int, take(N), 0));
	answer_requests(next_queues, 2, NEXT, 1);
	attached_publish(&next_queues[0], 2);
	expect_rows(0, 2, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN);
}

Test(rx_set_ends, without_a_next_daemon_the_end_is_an_error)
{
	struct ibvcap_rx_options options = {.size = sizeof(options), .reattach_ms = IBVCAP_NO_REATTACH};

	open_all_queues(queues, 2, &options);
	attached_publish(&queues[1], 1);
	end_rings(2, IBVCAP_RING_END_STOPPED);
	expect_rows(1, 1, 0);
	cr_expect(eq(int, take(N), -ESHUTDOWN));
}

/* ---- a failed queue --------------------------------------------------------------------------------- */

Test(rx_set_ends, a_queue_that_fails_is_given_up_after_its_packets_and_the_others_go_on)
{
	struct ibvcap_rx_counts counts;

	open_all_queues(queues, 3, NULL);
	attached_publish(&queues[1], 5);
	attached_publish(&queues[2], 1);
	rx_ring_close(&queues[1].ring, IBVCAP_RING_END_FAILED);
	expect_rows(1, 5, 0);
	expect_rows(2, 1, 0);
	cr_expect(eq(u32, info_of_rx().failed_queues, 1 << 1));
	cr_expect(eq(int, take(N), 0));
	cr_expect(has_hung_up(&queues[1]));
	cr_expect(not(has_hung_up(&queues[0])));
	cr_expect(not(has_hung_up(&queues[2])));
	cr_expect(eq(u32, info_of_rx().failed_queues, 1 << 1));
	cr_expect(eq(u32, info_of_rx().n_attached, 2));
	counts = counts_of_rx();
	cr_expect(eq(u64, counts.failures, 1));
	cr_expect(eq(u64, counts.delivered, 6));
	attached_publish(&queues[2], 2);
	expect_rows(2, 2, 0);
	cr_expect(not(is_asked(0)), "not before the next epoch");
}

Test(rx_set_ends, a_failed_queue_is_not_given_up_while_the_caller_has_its_batches)
{
	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(N), 5));
	rx_ring_close(&queues[0].ring, IBVCAP_RING_END_FAILED);
	attached_publish(&queues[1], 1);
	struct ibvcap_rx_batch held = batch;

	expect_rows(1, 1, 0);
	cr_expect(eq(int, take(N), 0));
	cr_expect(not(has_hung_up(&queues[0])));
	cr_expect(eq(u64, attached_number(&held, 4), 4));
	cr_expect(eq(int, ibvcap_rx_release(rx, &held), 0));
	cr_expect(eq(int, take(N), 0));
	cr_expect(has_hung_up(&queues[0]));
	cr_expect(eq(u64, counts_of_rx().failures, 1));
}

Test(rx_set_ends, a_failed_queue_is_back_in_the_next_epoch_with_an_unknown_gap)
{
	open_all_queues(queues, 3, NULL);
	rx_ring_close(&queues[1].ring, IBVCAP_RING_END_FAILED);
	cr_expect(eq(int, take(N), 0));
	end_rings(1, IBVCAP_RING_END_STOPPED);
	rx_ring_close(&queues[2].ring, IBVCAP_RING_END_STOPPED);
	cr_expect(eq(int, take(N), 0));
	answer_requests(next_queues, 3, NEXT, 2);
	cr_expect(eq(int, take(N), 0));
	cr_expect(eq(u32, info_of_rx().failed_queues, 0), "it is another device's queue now");
	answer_requests(next_queues, 3, NEXT, 1);
	attached_publish(&next_queues[1], 2);
	expect_rows(1, 2, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN);
	cr_expect(eq(u64, counts_of_rx().failures, 1), "it did fail once");
	cr_expect(eq(u32, info_of_rx().failed_queues, 0));
}

Test(rx_set_ends, the_last_queue_is_not_given_up_when_it_fails)
{
	open_all_queues(queues, 2, NULL);
	end_rings(2, IBVCAP_RING_END_FAILED);
	cr_expect(eq(int, take(N), 0));
	cr_expect(eq(u32, info_of_rx().failed_queues, 1 << 0 | 1 << 1));
	cr_expect(eq(u64, counts_of_rx().failures, 2));
	cr_expect(is_asked(1000), "it waits for the next daemon");
	answer_requests(next_queues, 2, NEXT, 1);
	cr_expect(eq(int, take(N), 0));
	answer_requests(next_queues, 2, NEXT, 1);
	attached_publish(&next_queues[0], 1);
	attached_publish(&next_queues[1], 1);
	cr_assert(eq(int, take(N), 1));
	cr_expect(eq(u32, batch.flags, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN));
	ibvcap_rx_release(rx, &batch);
	cr_assert(eq(int, take(N), 1));
	cr_expect(eq(u32, batch.flags, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN));
}

/* ---- removal and disconnection ------------------------------------------------------------------------- */

static void remove_queue(uint32_t i)
{
	daemon_disconnect(&queues[i].consumer.state->link, IBVCAP_DISCONNECT_REMOVED);
	rx_ring_close(&queues[i].ring, IBVCAP_RING_END_STOPPED);
}

Test(rx_set_ends, a_stream_is_removed_when_all_its_queues_are_and_their_packets_delivered)
{
	open_all_queues(queues, 2, NULL);
	remove_queue(0);
	cr_expect(eq(int, take(N), 0));
	attached_publish(&queues[1], 3);
	expect_rows(1, 3, 0);
	attached_publish(&queues[1], 4);
	remove_queue(1);
	expect_rows(1, 4, 0);
	cr_expect(eq(int, take(N), -ENODEV));
	cr_expect(eq(int, take(N), -ENODEV));
}

Test(rx_set_ends, a_queue_that_was_removed_is_no_end_while_a_batch_of_another_is_out)
{
	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(N), 5));
	rx_ring_close(&queues[0].ring, IBVCAP_RING_END_STOPPED);
	remove_queue(1);
	cr_expect(eq(int, take(N), -ENOBUFS));
}

Test(rx_set_ends, a_handle_that_the_daemon_disconnects_in_one_queue_is_told)
{
	open_all_queues(queues, 2, NULL);
	daemon_disconnect(&queues[1].consumer.state->link, IBVCAP_DISCONNECT_RIGHTS);
	cr_expect(eq(int, take(N), -ECONNABORTED));
}

/* ---- taps ------------------------------------------------------------------------------------------- */

Test(rx_set_ends, a_tap_copies_from_all_queues_and_has_no_descriptor)
{
	struct ibvcap_rx_options options = {.size = sizeof(options), .policy = IBVCAP_POLICY_TAP};
	uint8_t row[SLOT_BYTES];
	size_t length;

	open_all_queues(queues, 2, &options);
	cr_expect(eq(int, ibvcap_rx_fd(rx), -EOPNOTSUPP));
	cr_expect(eq(int, take(N), -EOPNOTSUPP));
	attached_publish(&queues[0], 2);
	attached_publish(&queues[1], 2);
	for (int i = 0; i < 4; i++)
		cr_expect(eq(int, ibvcap_rx_recv(rx, row, sizeof(row), &length, NULL, 0), 1));
	cr_expect(eq(int, ibvcap_rx_recv(rx, row, sizeof(row), &length, NULL, 20), 0));
	cr_expect(eq(u64, counts_of_rx().delivered, 4));
	cr_expect(eq(uint, info_of_rx().policy, IBVCAP_POLICY_TAP));
}
