// SPDX-License-Identifier: Apache-2.0
/*
 * A member of a group: queues that come, queues that another member had before, and which of their first batches say
 * that packets are missing. The daemon is played by the test.
 */
#include "lib/ibvcap/ring.h"
#include "tests/unit/ibvcap/several_queues.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define NEXT (EPOCH + 1)

TestSuite(rx_set_group, .init = set_up_queues, .fini = tear_down_queues, .timeout = 30);

/* ---- joining ---------------------------------------------------------------------------------------- */

Test(rx_set_group, a_member_without_a_queue_knows_the_stream_and_waits)
{
	struct ibvcap_rx_info info;
	struct ibvcap_sequence sequence;

	join_with((struct ibvcap_rx_options){.start = IBVCAP_START_PACKETS_BACK, .back = 7}, 2);
	cr_expect(eq(str, last_request.attach.group, (char *)"work"));
	cr_expect(ne(u64, last_request.attach.member, 0));
	cr_expect(eq(u32, last_request.attach.start, IBVCAP_START_PACKETS_BACK));
	info = info_of_rx();
	cr_expect(eq(str, info.stream, (char *)"test"));
	cr_expect(eq(u64, info.epoch, EPOCH));
	cr_expect(eq(u32, info.n_queues, 2));
	cr_expect(eq(u32, info.n_attached, 0));
	cr_expect(eq(int, take(N), 0));
	cr_expect(eq(int, ibvcap_rx_sequence(rx, &sequence), -EAGAIN));
	cr_expect(not(is_readable(ibvcap_rx_fd(rx), 0)));
}

Test(rx_set_group, a_refusal_to_join_is_passed_on)
{
	struct ibvcap_rx_options options = {.size = sizeof(options), .group = "work"};
	unsigned before = count_fds();

	begin_open(&options);
	refuse(accept_request(&last_request), -EACCES);
	cr_expect(eq(int, end_open(NULL), -EACCES));
	cr_expect(eq(ptr, rx, NULL));
	cr_expect(eq(uint, count_fds(), before));
}

Test(rx_set_group, a_queue_before_the_word_of_the_group_is_a_fault_of_the_daemon)
{
	struct ibvcap_rx_options options = {.size = sizeof(options), .group = "work"};

	begin_open(&options);
	asking = accept_request(&last_request);
	prepare(&queues[0], 0, 1, EPOCH);
	answer(asking, &queues[0]);
	cr_expect(lt(int, end_open(NULL), 0));
}

Test(rx_set_group, the_member_asks_for_one_queue_after_the_other_until_it_has_all)
{
	uint64_t member;
	int fd;

	join(2);
	member = last_request.attach.member;
	fd = ibvcap_rx_fd(rx);
	prepare(&queues[1], 1, 2, EPOCH);
	answer(asking, &queues[1]);
	cr_expect(is_readable(fd, 1000), "the descriptor says that a queue came");
	cr_assert(eq(int, take(N), 0));
	cr_expect(not(is_readable(fd, 0)));
	expect_next_request(2);
	cr_expect(eq(u64, last_request.attach.member, member));
	cr_expect(eq(str, last_request.attach.group, (char *)"work"));
	cr_expect(eq(u32, last_request.attach.start, IBVCAP_START_OLDEST));
	cr_expect(eq(u32, info_of_rx().n_attached, 1));
	attached_publish(&queues[1], 2);
	notify(&queues[1]);
	cr_expect(is_readable(fd, 1000));
	expect_rows(1, 2, 0);
	give(&queues[0], 0, 2, EPOCH);
	cr_expect(eq(u32, info_of_rx().n_attached, 2));
	cr_expect(eq(int, take(N), 0));
	cr_expect(not(is_asked(50)), "it has all");
	attached_publish(&queues[0], 3);
	attached_publish(&queues[1], 1);
	expect_rows(0, 3, 0);
	expect_rows(1, 1, 0);
	cr_expect(eq(u64, counts_of_rx().delivered, 6));
	cr_expect(eq(u64, counts_of_rx().epochs, 0));
}

Test(rx_set_group, packets_that_a_queue_brings_are_delivered_by_the_call_that_gets_the_queue)
{
	for (uint32_t i = 0; i < 2; i++) {
		if (i == 0)
			join(2);
		else
			expect_next_request(2);
		/* The member has looked for a queue just now, the second time: it is found when there is no packet. */
		cr_assert(eq(int, take(N), 0));
		prepare(&queues[i], i, 2, EPOCH);
		queues[i].n_earlier = 3;
		answer(asking, &queues[i]);
		expect_rows(i, 3, 0);
		cr_assert(eq(int, take(N), 0));
	}
}

Test(rx_set_group, a_queue_that_comes_while_packets_come_without_a_pause_is_taken)
{
	bool has_come = false;

	join(2);
	give(&queues[0], 0, 2, EPOCH);
	expect_next_request(2);
	prepare(&queues[1], 1, 2, EPOCH);
	answer(asking, &queues[1]);
	attached_publish(&queues[1], 1);
	for (int i = 0; i < 2000 && !has_come; i++) {
		attached_publish(&queues[0], 1);
		cr_assert(eq(int, take(1), 1));
		has_come = batch.queue == 1;
		cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
		usleep(1000);
	}
	cr_expect(has_come);
}

/* ---- what the first batch of a queue says ----------------------------------------------------------------- */

Test(rx_set_group, a_queue_of_the_first_epoch_begins_without_a_gap)
{
	join(2);
	give(&queues[0], 0, 2, EPOCH);
	expect_next_request(2);
	give(&queues[1], 1, 2, EPOCH);
	attached_publish(&queues[0], 1);
	attached_publish(&queues[1], 1);
	expect_rows(0, 1, 0);
	expect_rows(1, 1, 0);
	cr_expect(eq(u64, counts_of_rx().epochs, 0));
}

Test(rx_set_group, a_queue_that_another_member_had_says_so_and_what_was_abandoned_counts)
{
	join(2);
	prepare(&queues[0], 0, 2, EPOCH);
	answer_taken_over(asking, &queues[0], 12);
	cr_assert(eq(int, take(N), 0));
	attached_publish(&queues[0], 2);
	expect_rows(0, 2, IBVCAP_RX_BATCH_FLAG_TAKEN_OVER);
	attached_publish(&queues[0], 1);
	expect_rows(0, 1, 0);
	cr_expect(eq(u64, counts_of_rx().abandoned, 12));
}

/* The daemon of the two queues ends, and the member joins the next one. */
static void go_on_in_next_epoch(void)
{
	rx_ring_close(&queues[0].ring, IBVCAP_RING_END_STOPPED);
	cr_assert(eq(int, take(N), 0));
	cr_expect(has_hung_up(&queues[0]), "the next daemon shares the queues out anew");
	while (!is_asked(20))
		cr_assert(eq(int, take(N), 0));
	asking = accept_request(&last_request);
	answer_joined(asking, NEXT, 2);
	cr_assert(eq(int, take(N), 0));
}

Test(rx_set_group, each_queue_of_the_next_epoch_begins_with_an_unknown_gap)
{
	join(1);
	give(&queues[0], 0, 1, EPOCH);
	attached_publish(&queues[0], 2);
	expect_rows(0, 2, 0);
	go_on_in_next_epoch();
	give(&next_queues[1], 1, 2, NEXT);
	expect_next_request(2);
	attached_publish(&next_queues[1], 1);
	expect_rows(1, 1, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN);
	give(&next_queues[0], 0, 2, NEXT);
	attached_publish(&next_queues[0], 1);
	expect_rows(0, 1, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN);
	cr_expect(eq(u64, counts_of_rx().epochs, 1), "one epoch, however many queues");
	cr_expect(eq(u64, counts_of_rx().delivered, 4));
	cr_expect(eq(u64, info_of_rx().epoch, NEXT));
	cr_expect(eq(u32, info_of_rx().n_queues, 2));
}

Test(rx_set_group, a_queue_of_the_next_epoch_that_a_member_had_there_goes_on_where_that_one_stopped)
{
	join(1);
	give(&queues[0], 0, 1, EPOCH);
	go_on_in_next_epoch();
	prepare(&next_queues[0], 0, 2, NEXT);
	answer_taken_over(asking, &next_queues[0], 0);
	cr_assert(eq(int, take(N), 0));
	attached_publish(&next_queues[0], 1);
	expect_rows(0, 1, IBVCAP_RX_BATCH_FLAG_TAKEN_OVER);
	cr_expect(eq(u64, counts_of_rx().epochs, 1));
}

/* ---- ends ------------------------------------------------------------------------------------------- */

Test(rx_set_group, a_failed_queue_is_given_up_also_if_it_is_the_only_one)
{
	join(1);
	give(&queues[0], 0, 1, EPOCH);
	attached_publish(&queues[0], 2);
	rx_ring_close(&queues[0].ring, IBVCAP_RING_END_FAILED);
	expect_rows(0, 2, 0);
	cr_expect(eq(int, take(N), 0));
	cr_expect(has_hung_up(&queues[0]));
	cr_expect(eq(u32, info_of_rx().failed_queues, 1 << 0));
	cr_expect(eq(u64, counts_of_rx().failures, 1));
	asking = accept_request(&last_request);
	answer_joined(asking, NEXT, 1);
	cr_expect(eq(int, take(N), 0));
	give(&next_queues[0], 0, 1, NEXT);
	cr_expect(eq(u32, info_of_rx().failed_queues, 0), "in this epoch none has");
	cr_expect(eq(u64, counts_of_rx().failures, 1));
}

Test(rx_set_group, batches_are_released_before_the_member_leaves_the_epoch)
{
	join(1);
	give(&queues[0], 0, 1, EPOCH);
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(N), 5));
	rx_ring_close(&queues[0].ring, IBVCAP_RING_END_STOPPED);
	cr_expect(eq(int, take(N), -ENOBUFS));
	cr_expect(not(has_hung_up(&queues[0])));
	cr_expect(eq(int, ibvcap_rx_release(rx, &batch), 0));
	go_on_in_next_epoch();
}

Test(rx_set_group, a_member_that_wants_no_other_daemon_ends_with_this_one)
{
	join_with((struct ibvcap_rx_options){.reattach_ms = IBVCAP_NO_REATTACH}, 1);
	give(&queues[0], 0, 1, EPOCH);
	attached_publish(&queues[0], 2);
	rx_ring_close(&queues[0].ring, IBVCAP_RING_END_STOPPED);
	expect_rows(0, 2, 0);
	cr_expect(eq(int, take(N), -ESHUTDOWN));
}

Test(rx_set_group, a_refusal_of_another_queue_is_no_error_while_the_member_has_one)
{
	join(2);
	give(&queues[0], 0, 2, EPOCH);
	refuse(accept_request(&last_request), -EACCES);
	cr_expect(eq(int, take(N), 0));
	attached_publish(&queues[0], 1);
	expect_rows(0, 1, 0);
	cr_expect(eq(int, take(N), 0));
	recall(&queues[0]);
	cr_expect(eq(int, take(N), -EACCES), "it has none now, and gets none");
}

Test(rx_set_group, a_member_without_a_queue_is_told_that_the_stream_is_gone)
{
	join(2);
	refuse(asking, -ESRCH);
	cr_expect(eq(int, take(N), -ENODEV));
}

/* While the member has a queue the daemon is there, so the search for the next queue has no end. */
Test(rx_set_group, a_daemon_that_answers_late_is_waited_for_while_the_member_has_a_queue)
{
	join_with((struct ibvcap_rx_options){.reattach_ms = 50}, 2);
	give(&queues[0], 0, 2, EPOCH);
	asking = accept_request(&last_request);
	for (int i = 0; i < 30; i++) {
		cr_assert(eq(int, take(N), 0));
		usleep(5000);
	}
	answer_joined(asking, EPOCH, 2); /* too late for this connection */
	while (!is_asked(5))
		cr_assert(eq(int, take(N), 0));
	close(asking);
	expect_next_request(2);
	give(&queues[1], 1, 2, EPOCH);
	attached_publish(&queues[1], 1);
	expect_rows(1, 1, 0);
}
