// SPDX-License-Identifier: Apache-2.0
/*
 * What the card lost, followed over the queues of a stream and over epochs. Each queue's ring shows the loss of the
 * whole stream.
 */
#include "tests/unit/ibvcap/several_queues.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>

#define NEXT (EPOCH + 1)

TestSuite(rx_losses, .init = set_up_queues, .fini = tear_down_queues, .timeout = 30);

static struct ibvcap_rx_losses losses = IBVCAP_INIT(struct ibvcap_rx_losses);

static void note(struct attached *of, uint32_t n_queues, uint64_t no_buffer, uint64_t at_ns)
{
	for (uint32_t i = 0; i < n_queues; i++)
		attached_settle(&of[i], no_buffer, at_ns, at_ns);
}

/* The next batch, a whole block, is of that queue and tells of these. */
static void expect_told(struct attached *of, uint64_t before, uint64_t after)
{
	attached_publish(of, N);
	cr_assert(eq(int, take(N), N));
	cr_assert(eq(u32, batch.queue, of->queue));
	cr_expect(eq(int, ibvcap_rx_add_losses(rx, &batch, &losses), before != 0));
	cr_expect(eq(u64, losses.before, before));
	cr_expect(eq(u64, losses.after, after));
	cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
}

Test(rx_losses, a_loss_of_the_stream_counts_once_although_each_queue_shows_it)
{
	open_all_queues(queues, 2, NULL);
	note(queues, 2, 4, 1000);
	expect_told(&queues[0], 0, 0);
	note(queues, 2, 10, 2000);
	expect_told(&queues[1], 6, 0);
	cr_expect(eq(u64, losses.before_ns, 2000));
	cr_expect(eq(u64, losses.since_ns, 1000));
	note(queues, 2, 10, 2500);
	expect_told(&queues[0], 0, 0);
	cr_expect(eq(u64, losses.packets, 6));
	note(queues, 2, 11, 3000);
	expect_told(&queues[0], 1, 0);
	cr_expect(eq(u64, losses.since_ns, 2500));
	expect_told(&queues[1], 0, 0);
	cr_expect(eq(u64, losses.packets, 7));
}

Test(rx_losses, what_the_ledger_has_forgotten_before_the_first_batch_is_no_loss_of_the_reader)
{
	const uint32_t n_forgotten = 44;

	open_all_queues(queues, 1, NULL);
	attached_publish(&queues[0], N);
	for (uint64_t i = 1; i <= IBVCAP_LEDGER_ENTRIES + n_forgotten; i++)
		note(queues, 1, i, i);
	cr_assert(eq(int, take(N), N));
	cr_expect(eq(int, ibvcap_rx_add_losses(rx, &batch, &losses), 0));
	cr_expect(eq(u64, losses.packets, 0));
	cr_expect(eq(u64, losses.after, IBVCAP_LEDGER_ENTRIES - 1));
	cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
}

Test(rx_losses, what_was_lost_after_the_last_batch_of_an_epoch_is_told_by_the_next_epoch)
{
	open_all_queues(queues, 2, NULL);
	note(queues, 2, 4, 1000);
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(N), 5));
	cr_assert(eq(int, ibvcap_rx_add_losses(rx, &batch, &losses), 0));
	note(queues, 2, 9, 2000);
	cr_assert(eq(int, ibvcap_rx_add_losses(rx, &batch, &losses), 0));
	cr_expect(eq(u64, losses.after, 5));
	cr_expect(eq(u64, losses.after_ns, 2000));
	cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
	for (uint32_t i = 0; i < 2; i++)
		rx_ring_close(&queues[i].ring, IBVCAP_RING_END_STOPPED);
	cr_assert(eq(int, take(N), 0));
	answer_requests(next_queues, 2, NEXT, 2);
	note(next_queues, 2, 3, 5000); /* from 0 on in this epoch */
	expect_told(&next_queues[0], 5 + 3, 0);
	cr_expect(eq(u64, losses.packets, 8));
	cr_expect(eq(u64, losses.before_ns, 5000));
	note(next_queues, 2, 4, 6000);
	expect_told(&next_queues[1], 1, 0);
}

Test(rx_losses, a_loss_of_the_last_epoch_has_the_time_at_which_it_was_read)
{
	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(N), 5));
	note(queues, 2, 9, 2000);
	cr_assert(eq(int, ibvcap_rx_add_losses(rx, &batch, &losses), 0));
	cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
	for (uint32_t i = 0; i < 2; i++)
		rx_ring_close(&queues[i].ring, IBVCAP_RING_END_STOPPED);
	cr_assert(eq(int, take(N), 0));
	answer_requests(next_queues, 2, NEXT, 2);
	expect_told(&next_queues[0], 9, 0);
	cr_expect(eq(u64, losses.before_ns, 2000));
}

Test(rx_losses, a_queue_that_is_still_in_the_last_epoch_changes_nothing)
{
	struct ibvcap_rx_batch old;

	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(N), 5));
	old = batch;
	cr_assert(eq(int, ibvcap_rx_add_losses(rx, &old, &losses), 0));
	for (uint32_t i = 0; i < 2; i++)
		rx_ring_close(&queues[i].ring, IBVCAP_RING_END_STOPPED);
	cr_assert(eq(int, take(N), -ENOBUFS));
	answer_requests(next_queues, 2, NEXT, 1);
	note(&next_queues[1], 1, 3, 5000);
	expect_told(&next_queues[1], 3, 0);
	cr_expect(eq(int, ibvcap_rx_add_losses(rx, &old, &losses), 0));
	cr_expect(eq(u64, losses.before, 0));
	cr_expect(eq(u64, losses.packets, 3));
	cr_expect(eq(int, ibvcap_rx_release(rx, &old), 0));
}

/* A queue's block may be older than what another queue has told. */
Test(rx_losses, what_is_known_does_not_go_back_with_a_queue_that_is_behind)
{
	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[1], N); /* closed before the loss */
	note(queues, 2, 5, 1000);
	attached_publish(&queues[0], 2);
	cr_assert(eq(int, take(N), 2));
	note(queues, 1, 8, 2000);
	cr_assert(ge(int, ibvcap_rx_add_losses(rx, &batch, &losses), 0));
	cr_expect(eq(u64, losses.after, 3));
	cr_expect(eq(u64, losses.after_ns, 2000));
	cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
	cr_assert(eq(int, take(N), N));
	cr_assert(eq(u32, batch.queue, 1));
	cr_assert(eq(int, ibvcap_rx_add_losses(rx, &batch, &losses), 0));
	cr_expect(eq(u64, losses.after, 3));
	cr_expect(eq(u64, losses.after_ns, 2000));
	cr_expect(eq(u64, losses.packets, 0));
	cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
}

Test(rx_losses, a_batch_that_the_caller_does_not_hold_and_a_struct_without_a_size_are_refused)
{
	struct ibvcap_rx_losses without_size = {0};
	struct ibvcap_rx_batch wrong;

	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[1], 1);
	cr_assert(eq(int, take(N), 1));
	cr_expect(eq(int, ibvcap_rx_add_losses(rx, &batch, &without_size), -EINVAL));
	wrong = batch;
	wrong.lease += 1;
	cr_expect(eq(int, ibvcap_rx_add_losses(rx, &wrong, &losses), -EINVAL), "a lease that is free");
	wrong.lease = batch.lease + QUOTA;
	cr_expect(eq(int, ibvcap_rx_add_losses(rx, &wrong, &losses), -EINVAL), "no lease of the consumer");
	wrong.lease = batch.lease | 3 << 8;
	cr_expect(eq(int, ibvcap_rx_add_losses(rx, &wrong, &losses), -EINVAL), "no queue of the handle");
	cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
	cr_expect(eq(int, ibvcap_rx_add_losses(rx, &batch, &losses), -EINVAL));
}
