// SPDX-License-Identifier: Apache-2.0
/* A member of a group whose queues are recalled for another member, in time or not. The test plays the daemon. */
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx/rx.h"
#include "tests/unit/ibvcap/several_queues.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(rx_set_recall, .init = set_up_queues, .fini = tear_down_queues, .timeout = 30);

Test(rx_set_recall, a_recalled_queue_is_given_up_at_once_and_what_was_not_acquired_is_not_the_members)
{
	struct ibvcap_rx_counts counts;

	join(2);
	give(&queues[0], 0, 2, EPOCH);
	expect_next_request(2);
	attached_publish(&queues[0], 10);
	cr_assert(eq(int, take(4), 4));
	cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
	cr_expect(eq(u64, counts_of_rx().lag, 6));
	recall(&queues[0]);
	cr_expect(eq(int, take(N), 0));
	cr_expect(has_hung_up(&queues[0]));
	counts = counts_of_rx();
	cr_expect(eq(u64, counts.published, 4));
	cr_expect(eq(u64, counts.delivered, 4));
	cr_expect(eq(u64, counts.lag, 0));
	cr_expect(eq(u32, info_of_rx().n_attached, 0));
	give(&queues[1], 1, 2, EPOCH);
	attached_publish(&queues[1], 1);
	expect_rows(1, 1, 0);
}

Test(rx_set_recall, a_recalled_queue_goes_when_its_last_batch_is_released)
{
	struct ibvcap_rx_batch first, second;
	int fd;

	join(2);
	fd = ibvcap_rx_fd(rx);
	give(&queues[0], 0, 2, EPOCH);
	expect_next_request(2);
	attached_publish(&queues[0], 20);
	cr_assert(eq(int, take(5), 5));
	first = batch;
	cr_assert(eq(int, take(5), 5));
	second = batch;
	recall(&queues[0]);
	cr_expect(is_readable(fd, 1000), "the descriptor says that it is recalled");
	cr_expect(eq(int, take(5), 0), "no more of it");
	cr_expect(not(is_readable(fd, 0)), "what is known is read");
	cr_expect(eq(int, ibvcap_rx_release(rx, &first), 0));
	cr_expect(not(has_hung_up(&queues[0])));
	cr_expect(eq(u64, attached_number(&second, 4), 9));
	cr_expect(eq(int, ibvcap_rx_release(rx, &second), 0));
	cr_expect(has_hung_up(&queues[0]));
	cr_expect(eq(int, ibvcap_rx_release(rx, &second), -EINVAL));
	cr_expect(eq(u64, counts_of_rx().published, 10));
}

Test(rx_set_recall, a_queue_that_was_not_given_up_in_time_is_lost_and_the_others_go_on)
{
	struct ibvcap_rx_batch held;

	join(2);
	give(&queues[0], 0, 2, EPOCH);
	expect_next_request(2);
	give(&queues[1], 1, 2, EPOCH);
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(N), 5));
	held = batch;
	daemon_disconnect(&queues[0].consumer.state->link, IBVCAP_DISCONNECT_RECALLED);
	attached_publish(&queues[1], 2);
	expect_rows(1, 2, 0);
	cr_expect(eq(int, ibvcap_rx_release(rx, &held), -ECONNABORTED), "the rows may have changed");
	cr_expect(has_hung_up(&queues[0]));
	cr_expect(eq(int, take(N), 0));
}

Test(rx_set_recall, a_row_that_is_copied_from_a_queue_that_is_taken_away_is_passed_over)
{
	uint8_t row[SLOT_BYTES];
	size_t length;

	join(2);
	give(&queues[0], 0, 2, EPOCH);
	attached_publish(&queues[0], 5);
	cr_expect(eq(int, ibvcap_rx_recv(rx, row, sizeof(row), &length, NULL, 0), 1));
	daemon_disconnect(&queues[0].consumer.state->link, IBVCAP_DISCONNECT_RECALLED);
	cr_expect(eq(int, ibvcap_rx_recv(rx, row, sizeof(row), &length, NULL, 0), 0));
}

Test(rx_set_recall, a_release_says_whether_the_queue_was_recalled)
{
	join(2);
	give(&queues[0], 0, 2, EPOCH);
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(N), 5));
	cr_expect(not(rx_member_note_release(rx, &batch)));
	recall(&queues[0]);
	cr_expect(rx_member_note_release(rx, &batch));
	cr_expect(not(has_hung_up(&queues[0])), "the batch is out");
}

/* A child that does not call exec has copies of the descriptors of a queue, which keep these in the epoll set. */
Test(rx_set_recall, a_queue_that_is_given_up_does_not_make_the_descriptor_readable_although_a_child_has_it)
{
	pid_t child;

	join(2);
	give(&queues[0], 0, 2, EPOCH);
	expect_next_request(2);
	cr_assert(eq(int, take(N), 0));
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	daemon_disconnect(&queues[0].consumer.state->link, IBVCAP_DISCONNECT_RECALLED);
	cr_expect(eq(int, take(N), 0));
	cr_expect(has_hung_up(&queues[0]));
	cr_expect(not(is_readable(ibvcap_rx_fd(rx), 0)), "its socket");
	cr_assert(eq(int, (int)write(queues[0].daemon_wake, "", 1), 1));
	cr_expect(not(is_readable(ibvcap_rx_fd(rx), 0)), "its wake socket");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

Test(rx_set_recall, a_member_that_is_disconnected_for_another_reason_is_told)
{
	join(2);
	give(&queues[0], 0, 2, EPOCH);
	daemon_disconnect(&queues[0].consumer.state->link, IBVCAP_DISCONNECT_RIGHTS);
	cr_expect(eq(int, take(N), -ECONNABORTED));
}

Test(rx_set_recall, a_queue_may_come_back_while_its_old_batches_are_out)
{
	struct ibvcap_rx_batch old;

	join(2);
	give(&queues[0], 0, 2, EPOCH);
	expect_next_request(2);
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(N), 5));
	old = batch;
	recall(&queues[0]);
	cr_expect(eq(int, take(N), 0));
	give(&next_queues[0], 0, 2, EPOCH);
	attached_publish(&next_queues[0], 3);
	cr_assert(eq(int, take(N), 3));
	cr_expect(ne(u32, batch.lease, old.lease));
	cr_expect(eq(int, ibvcap_rx_release(rx, &old), 0));
	cr_expect(has_hung_up(&queues[0]));
	cr_expect(not(has_hung_up(&next_queues[0])));
	cr_expect(eq(int, ibvcap_rx_release(rx, &batch), 0));
	attached_publish(&next_queues[0], 1);
	expect_rows(0, 1, 0);
}

Test(rx_set_recall, the_description_of_the_numbers_is_that_of_any_queue_that_the_member_has)
{
	struct ibvcap_sequence sequence = {0};

	join(2);
	cr_expect(eq(int, ibvcap_rx_sequence(rx, &sequence), -EAGAIN), "it has none");
	give(&queues[0], 0, 2, EPOCH);
	cr_expect(eq(int, ibvcap_rx_sequence(rx, &sequence), 0));
	expect_next_request(2);
	give(&queues[1], 1, 2, EPOCH);
	recall(&queues[0]);
	cr_expect(eq(int, take(N), 0));
	cr_expect(eq(u32, info_of_rx().n_attached, 1));
	cr_expect(eq(int, ibvcap_rx_sequence(rx, &sequence), 0));
}
