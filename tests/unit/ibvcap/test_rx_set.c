// SPDX-License-Identifier: Apache-2.0
/* A handle of all queues of a stream: opening, turns, waiting, sums and closing. The daemon is played by the test. */
#include "lib/base/time.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/ring.h"
#include "lib/losses/ledger.h"
#include "tests/unit/ibvcap/several_queues.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

TestSuite(rx_set, .init = set_up_queues, .fini = tear_down_queues, .timeout = 30);

static const struct ibvcap_rx_options all_queues = {.size = sizeof(all_queues), .queue = IBVCAP_QUEUE_ALL};

/* ---- opening ---------------------------------------------------------------------------------------- */

Test(rx_set, every_queue_is_asked_for_with_the_callers_options)
{
	struct ibvcap_rx_options options = all_queues;
	union protocol_message request;

	options.start = IBVCAP_START_PACKETS_BACK;
	options.back = 5;
	options.lease_blocks = 2;
	begin_open(&options);
	for (uint32_t i = 0; i < 3; i++) {
		int fd = accept_request(&request);

		cr_expect(eq(u32, request.attach.queue, i));
		cr_expect(eq(u32, request.attach.start, IBVCAP_START_PACKETS_BACK));
		cr_expect(eq(u64, request.attach.start_value, 5));
		cr_expect(eq(u32, request.attach.lease_blocks, 2));
		queues[i] = (struct attached){.queue = i, .n_queues = 3};
		answer(fd, &queues[i]);
	}
	cr_assert(eq(int, end_open(NULL), 0));
}

Test(rx_set, the_info_is_that_of_the_first_queue_and_the_sum_of_all)
{
	struct ibvcap_rx_info info;

	open_all_queues(queues, 3, NULL);
	info = info_of_rx();
	cr_expect(eq(str, info.stream, (char *)"test"));
	cr_expect(eq(u64, info.epoch, EPOCH));
	cr_expect(eq(u32, info.queue, IBVCAP_QUEUE_ALL));
	cr_expect(eq(u32, info.n_queues, 3));
	cr_expect(eq(u32, info.n_attached, 3));
	cr_expect(eq(u32, info.slot_bytes, SLOT_BYTES));
	cr_expect(eq(u32, info.lease_blocks, QUOTA));
	cr_expect(eq(u32, info.disconnected, 0));
	cr_expect(eq(u32, info.failed_queues, 0));
	daemon_store_clock(queues[0].ring.ring,
	                   &(struct status_clock){IBVCAP_CLOCK_SOURCE_DEVICE, .clock_error_ns = 700});
	daemon_store_clock(queues[2].ring.ring,
	                   &(struct status_clock){IBVCAP_CLOCK_SOURCE_SOFTWARE, .clock_error_ns = 900});
	info = info_of_rx();
	cr_expect(eq(u64, info.clock_error_ns, 700));
	close(queues[1].daemon_socket);
	queues[1].daemon_socket = dup(0);
	cr_expect(eq(u32, info_of_rx().disconnected, 1), "one of them is");
}

Test(rx_set, a_moment_is_settled_when_each_queue_is_and_has_the_outage_that_came_after_it)
{
	const struct ledger_entry last = {.until_ns = LEDGER_ENDED};
	struct ibvcap_rx_moment moment = IBVCAP_INIT(struct ibvcap_rx_moment);

	open_all_queues(queues, 2, NULL);
	cr_assert(eq(int, ibvcap_rx_take_moment(rx, &moment), 0));
	cr_expect(eq(u64, moment.outage_from_ns, 0));
	for (unsigned i = 0; i < 2; i++) {
		daemon_store_outage(queues[i].ring.ring, true, 4711);
		daemon_store_outage(queues[i].ring.ring, false, 4712);
	}
	ledger_append(&queues[0].ring.ring->ledger, &last);
	cr_expect(eq(int, ibvcap_rx_settle_moment(rx, &moment), 0), "the other queue is not");
	ledger_append(&queues[1].ring.ring->ledger, &last);
	cr_expect(eq(int, ibvcap_rx_settle_moment(rx, &moment), 1));
	cr_expect(eq(u64, moment.outage_from_ns, 4711));
	cr_expect(eq(u64, moment.outage_until_ns, 4712));
	cr_expect(gt(u64, moment.after.outages, moment.before.outages));
}

Test(rx_set, a_moment_of_an_epoch_that_has_ended_is_settled_by_its_last_entry)
{
	const struct ledger_entry last = {.until_ns = LEDGER_ENDED, .after = {.no_buffer = 5}, .no_buffer_most = 7};
	struct ibvcap_rx_moment moment = IBVCAP_INIT(struct ibvcap_rx_moment), too_late;

	open_all_queues(queues, 2, NULL);
	cr_assert(eq(int, ibvcap_rx_take_moment(rx, &moment), 0));
	for (unsigned i = 0; i < 2; i++) {
		ledger_append(&queues[i].ring.ring->ledger, &last);
		rx_ring_close(&queues[i].ring, IBVCAP_RING_END_STOPPED);
	}
	cr_assert(eq(int, take(N), 0));
	too_late = moment;
	too_late.epoch--;
	cr_expect(eq(int, ibvcap_rx_settle_moment(rx, &moment), 1));
	cr_expect(zero(u32, moment.state & RX_MOMENT_UNSETTLED));
	cr_expect(eq(u64, moment.after.most, 7));
	cr_expect(eq(int, ibvcap_rx_settle_moment(rx, &too_late), 1));
	cr_expect(ne(u32, too_late.state & RX_MOMENT_UNSETTLED, 0), "of the epoch before nothing is known");
}

Test(rx_set, the_packets_of_the_past_are_summed_over_the_queues)
{
	union protocol_message request;

	begin_open(&all_queues);
	for (uint32_t i = 0; i < 3; i++) {
		int fd = accept_request(&request);

		queues[i] = (struct attached){.queue = i, .n_queues = 3, .n_earlier = 10 * (i + 1)};
		answer(fd, &queues[i]);
	}
	cr_assert(eq(int, end_open(NULL), 0));
	cr_expect(eq(u64, info_of_rx().attach_back, 60));
}

Test(rx_set, a_queue_that_has_failed_is_left_out_and_named)
{
	union protocol_message request;

	begin_open(&all_queues);
	refuse(accept_request(&request), -EIO);
	answer_requests(queues, 3, EPOCH, 1);
	refuse(accept_request(&request), -EIO);
	cr_assert(eq(int, end_open(NULL), 0));
	cr_expect(eq(u32, info_of_rx().failed_queues, 1 << 0 | 1 << 2));
	cr_expect(eq(u32, info_of_rx().n_attached, 1));
	cr_expect(eq(u64, counts_of_rx().failures, 2));
	attached_publish(&queues[1], 4);
	expect_rows(1, 4, 0);
}

Test(rx_set, a_stream_whose_queues_have_all_failed_is_an_error_that_says_so)
{
	union protocol_message request;
	const char *error_text;

	begin_open(&all_queues);
	refuse(accept_request(&request), -EIO);
	refuse(accept_request(&request), -EIO);
	refuse(accept_request(&request), -EINVAL); /* there is no queue 2 */
	cr_expect(eq(int, end_open(&error_text), -EIO));
	cr_expect(strstr(error_text, "all of its queues have failed") != NULL, "%s", error_text);
	cr_expect(eq(ptr, rx, NULL));
}

Test(rx_set, a_request_that_is_refused_as_wrong_is_not_said_to_be_a_failed_queue)
{
	union protocol_message request;

	begin_open(&all_queues);
	refuse(accept_request(&request), -EINVAL);
	cr_expect(eq(int, end_open(NULL), -EINVAL));
}

Test(rx_set, an_error_at_a_later_queue_closes_the_earlier_ones)
{
	union protocol_message request;
	unsigned before = count_fds();

	begin_open(&all_queues);
	answer_requests(queues, 2, EPOCH, 1);
	refuse(accept_request(&request), -EAGAIN);
	cr_expect(eq(int, end_open(NULL), -EAGAIN));
	cr_expect(eq(ptr, rx, NULL));
	cr_expect(has_hung_up(&queues[0]));
	end_queue(&queues[0]);
	cr_expect(eq(uint, count_fds(), before), "nothing stays open");
}

Test(rx_set, closing_ends_every_connection_and_leaves_nothing_open)
{
	unsigned before = count_fds();

	open_all_queues(queues, 3, NULL);
	ibvcap_rx_close(rx);
	rx = NULL;
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect(has_hung_up(&queues[i]));
		end_queue(&queues[i]);
	}
	cr_expect(eq(uint, count_fds(), before));
}

/* ---- turns ------------------------------------------------------------------------------------------ */

Test(rx_set, the_queues_take_turns_and_one_without_packets_is_passed_over)
{
	static const uint32_t wanted[] = {0, 1, 3, 0, 1, 3, 0, 1, 3, 1, 1};

	open_all_queues(queues, 4, NULL);
	attached_publish(&queues[0], 3);
	attached_publish(&queues[1], 5);
	attached_publish(&queues[3], 3);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		cr_assert(eq(int, take(1), 1));
		cr_expect(eq(u32, batch.queue, wanted[i]), "turn %zu", i);
		cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
	}
	cr_expect(eq(int, take(1), 0));
	attached_publish(&queues[2], 1);
	attached_publish(&queues[1], 1);
	expect_rows(2, 1, 0);
	expect_rows(1, 1, 0);
}

Test(rx_set, batches_of_several_queues_are_released_in_any_order_and_once)
{
	struct ibvcap_rx_batch held[3];

	open_all_queues(queues, 3, NULL);
	for (uint32_t i = 0; i < 3; i++) {
		queues[i].numbers_ahead = 1000 * i;
		attached_publish(&queues[i], 5);
	}
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert(eq(int, take(N), 5));
		held[i] = batch;
	}
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect(eq(u64, attached_number(&held[i], 4), 1000 * i + 4));
		cr_expect(eq(u64, atomic_load(&queues[i].consumer.page->leases[0]), 1), "block 0 is leased");
	}
	cr_expect(eq(int, ibvcap_rx_release(rx, &held[1]), 0));
	cr_expect(eq(u64, atomic_load(&queues[0].consumer.page->leases[0]), 1));
	cr_expect(eq(u64, atomic_load(&queues[1].consumer.page->leases[0]), 0));
	cr_expect(eq(u64, atomic_load(&queues[2].consumer.page->leases[0]), 1));
	cr_expect(eq(int, ibvcap_rx_release(rx, &held[1]), -EINVAL), "twice");
	cr_expect(eq(int, ibvcap_rx_release(rx, &held[2]), 0));
	cr_expect(eq(int, ibvcap_rx_release(rx, &held[0]), 0));
}

Test(rx_set, a_batch_of_no_queue_is_refused)
{
	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[0], 1);
	cr_assert(eq(int, take(1), 1));
	for (uint32_t index = 1; index <= 64; index++) {
		struct ibvcap_rx_batch wrong = batch;

		wrong.lease |= index << 8;
		cr_expect(eq(int, ibvcap_rx_release(rx, &wrong), -EINVAL), "part %u", index);
	}
	cr_expect(eq(int, ibvcap_rx_release(rx, &batch), 0));
}

Test(rx_set, a_batch_of_an_older_program_is_released_by_the_fields_that_it_has)
{
	/* Up to lease, and then other memory of the program. */
	struct {
		uint8_t bytes[offsetof(struct ibvcap_rx_batch, lease) + sizeof(uint32_t)];
		uint8_t others[sizeof(struct ibvcap_rx_batch)];
	} old = {.others = {1}};

	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[1], 2);
	cr_assert(eq(int, take(2), 2));
	memcpy(&old, &batch, sizeof(old.bytes));
	memcpy(&old, &(size_t){sizeof(old.bytes)}, sizeof(size_t));
	cr_expect(eq(int, ibvcap_rx_release(rx, (struct ibvcap_rx_batch *)&old), 0));
	cr_expect(eq(u64, atomic_load(&queues[1].consumer.page->released), 2));
}

Test(rx_set, a_queue_without_a_free_lease_stops_no_other)
{
	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[0], 4 * N);
	for (uint32_t i = 0; i < QUOTA; i++)
		cr_assert(eq(int, take(N), N));
	cr_expect(eq(int, take(N), -ENOBUFS), "nothing to wait for: only a release helps");
	attached_publish(&queues[1], 2);
	expect_rows(1, 2, 0);
	cr_expect(eq(int, take(N), -ENOBUFS));
}

/* ---- waiting ---------------------------------------------------------------------------------------- */

static uint64_t wish(uint32_t queue, bool *by_socket)
{
	*by_socket = daemon_load_wake_socket(&queues[queue].consumer.page->wake);
	return daemon_load_wake_request(&queues[queue].consumer.page->wake);
}

Test(rx_set, an_idle_handle_asks_every_queue_to_wake_its_descriptor)
{
	bool by_socket;

	open_all_queues(queues, 3, NULL);
	attached_publish(&queues[1], 7);
	expect_rows(1, 7, 0);
	cr_assert(eq(int, take(N), 0));
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect(eq(u64, wish(i, &by_socket), i == 1 ? 8 : 1));
		cr_expect(by_socket);
	}
	cr_expect(not(is_readable(ibvcap_rx_fd(rx), 0)));
	attached_publish(&queues[2], 1);
	notify(&queues[2]);
	cr_expect(is_readable(ibvcap_rx_fd(rx), 1000));
	expect_rows(2, 1, 0);
	cr_expect(eq(u64, wish(2, &by_socket), 0), "the wish is fulfilled");
	cr_expect(not(is_readable(ibvcap_rx_fd(rx), 0)));
}

static uint64_t elapsed_ms(uint64_t since_ns)
{
	return (time_monotonic_ns() - since_ns) / 1000000;
}

Test(rx_set, a_wait_lasts_as_long_as_it_may)
{
	uint64_t begin;

	open_all_queues(queues, 2, NULL);
	batch = (struct ibvcap_rx_batch)IBVCAP_INIT(struct ibvcap_rx_batch);
	begin = time_monotonic_ns();
	cr_expect(eq(int, ibvcap_rx_acquire(rx, &batch, N, 1, 250), 0));
	cr_expect(ge(u64, elapsed_ms(begin), 250));
	cr_expect(lt(u64, elapsed_ms(begin), 5000));
	begin = time_monotonic_ns();
	cr_expect(eq(int, ibvcap_rx_acquire(rx, &batch, N, 1, 0), 0));
	cr_expect(lt(u64, elapsed_ms(begin), 200));
}

Test(rx_set, fewer_rows_than_wanted_are_given_when_the_time_is_over)
{
	uint64_t begin;

	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[1], 3);
	batch = (struct ibvcap_rx_batch)IBVCAP_INIT(struct ibvcap_rx_batch);
	begin = time_monotonic_ns();
	cr_expect(eq(int, ibvcap_rx_acquire(rx, &batch, N, 5, 150), 3));
	cr_expect(ge(u64, elapsed_ms(begin), 150));
	cr_expect(eq(u32, batch.queue, 1));
	ibvcap_rx_release(rx, &batch);
	attached_publish(&queues[1], 2);
	cr_expect(eq(int, ibvcap_rx_acquire(rx, &batch, N, 5, 0), 2), "and at once without a time");
	ibvcap_rx_release(rx, &batch);
	attached_publish(&queues[0], 5);
	attached_publish(&queues[1], 1);
	begin = time_monotonic_ns();
	cr_expect(eq(int, ibvcap_rx_acquire(rx, &batch, N, 5, 20000), 5), "one queue has as many as wanted");
	cr_expect(lt(u64, elapsed_ms(begin), 10000));
}

Test(rx_set, fewer_rows_than_wanted_are_given_at_once_if_there_will_be_no_more)
{
	open_all_queues(queues, 2, NULL);
	attached_publish(&queues[1], 3);
	rx_ring_close(&queues[1].ring, IBVCAP_RING_END_STOPPED);
	batch = (struct ibvcap_rx_batch)IBVCAP_INIT(struct ibvcap_rx_batch);
	cr_expect(eq(int, ibvcap_rx_acquire(rx, &batch, N, 5, -1), 3));
	cr_expect(eq(u32, batch.queue, 1));
}

static void *publish_later(void *queue)
{
	struct attached *of = queue;

	while (daemon_load_wake_request(&of->consumer.page->wake) == 0)
		usleep(1000);
	usleep(20000);
	attached_publish(of, 1);
	usleep(20000);
	attached_publish(of, 2);
	notify(of);
	return NULL;
}

Test(rx_set, a_wait_for_rows_sleeps_until_one_queue_has_as_many)
{
	pthread_t worker;

	open_all_queues(queues, 2, NULL);
	batch = (struct ibvcap_rx_batch)IBVCAP_INIT(struct ibvcap_rx_batch);
	cr_assert(eq(int, pthread_create(&worker, NULL, publish_later, &queues[1]), 0));
	cr_expect(eq(int, ibvcap_rx_acquire(rx, &batch, N, 3, 20000), 3));
	pthread_join(worker, NULL);
	cr_expect(eq(u32, batch.queue, 1));
}

static void *publish_now_and_then(void *queue)
{
	for (uint32_t i = 0; i < 10000; i++) {
		for (volatile uint32_t pause = 0; pause < (i * 37) % 4000; pause++)
			;
		attached_publish(queue, 1);
		notify(queue);
	}
	return NULL;
}

/* Packets come before the wait, while it spins, and while it sleeps. */
Test(rx_set, a_wait_without_an_end_does_not_end_without_rows)
{
	pthread_t worker;
	uint64_t n = 0;

	open_all_queues(queues, 2, NULL);
	cr_assert(eq(int, pthread_create(&worker, NULL, publish_now_and_then, &queues[1]), 0));
	while (n < 10000) {
		int r;

		batch = (struct ibvcap_rx_batch)IBVCAP_INIT(struct ibvcap_rx_batch);
		r = ibvcap_rx_acquire(rx, &batch, N, 1, -1);
		cr_assert(gt(int, r, 0));
		n += batch.gap + (uint32_t)r;
		cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
	}
	pthread_join(worker, NULL);
}

/* ---- sums ------------------------------------------------------------------------------------------- */

Test(rx_set, published_is_delivered_and_skipped_and_lag_in_each_queue_and_in_sum)
{
	struct ibvcap_rx_counts counts;
	uint64_t skipped;

	open_all_queues(queues, 3, NULL);
	attached_publish(&queues[0], 100 * N); /* recycles most of them */
	attached_publish(&queues[1], 9);
	attached_publish(&queues[2], 4);
	cr_assert(eq(int, take(6), 6));
	skipped = batch.gap;
	cr_expect(gt(u64, skipped, 0));
	ibvcap_rx_release(rx, &batch);
	cr_assert(eq(int, take(6), 6));
	ibvcap_rx_release(rx, &batch);
	counts = counts_of_rx();
	cr_expect(eq(u64, counts.published, 100 * N + 9 + 4));
	cr_expect(eq(u64, counts.delivered, 12));
	cr_expect(eq(u64, counts.skipped, skipped));
	cr_expect(eq(u64, counts.lag, 100 * N - skipped - 6 + 3 + 4));
	cr_expect(eq(u64, counts.epochs, 0));
	cr_expect(eq(u64, counts.failures, 0));
	cr_expect(eq(u64, counts.abandoned, 0));
}
