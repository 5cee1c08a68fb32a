// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/ring.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

ATTACHED_TEST_SUITE(rx);

static int acquire(uint32_t max)
{
	return ibvcap_rx_acquire(a.rx, &batch, max, 0, 0);
}

/* Exactly the rows [sequence, sequence + n), whole. */
static void expect_rows(uint64_t sequence, uint32_t n, uint64_t gap)
{
	cr_assert_eq(batch.n, n, "%u rows", batch.n);
	cr_assert_eq(batch.sequence, sequence, "from %llu", (unsigned long long)batch.sequence);
	cr_assert_eq(batch.gap, gap, "gap %llu", (unsigned long long)batch.gap);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t in_headers;

		cr_assert_eq(attached_number(&batch, i), sequence + i, "row %u", i);
		memcpy(&in_headers, ibvcap_rx_headers(&batch, i), sizeof(in_headers));
		cr_assert_eq(in_headers, sequence + i);
		cr_assert_eq(batch.meta[i].length, SLOT_BYTES);
	}
}

static void expect_counts(uint64_t published, uint64_t delivered, uint64_t skipped, uint64_t lag)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	cr_assert_eq(ibvcap_rx_counts(a.rx, &counts), 0);
	cr_expect_eq(counts.published, published);
	cr_expect_eq(counts.delivered, delivered);
	cr_expect_eq(counts.skipped, skipped);
	cr_expect_eq(counts.lag, lag);
	cr_expect_eq(daemon_load_delivered(a.consumer.page), delivered);
	cr_expect_eq(daemon_load_skipped(a.consumer.page), skipped);
}

Test(rx, packets_of_an_unfinished_block_are_visible_at_once)
{
	cr_assert_eq(acquire(10), 0);
	attached_publish(&a, 5);
	cr_assert_eq(acquire(100), 5);
	expect_rows(0, 5, 0);
	expect_counts(5, 5, 0, 0);
	attached_publish(&a, 2);
	cr_assert_eq(acquire(1), 1);
	expect_rows(5, 1, 0);
	expect_counts(7, 6, 0, 1);
}

Test(rx, a_batch_never_crosses_a_block)
{
	attached_publish(&a, N + 10);
	cr_assert_eq(acquire(UINT32_MAX), N);
	expect_rows(0, N, 0);
	cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
	cr_assert_eq(acquire(UINT32_MAX), 10);
	expect_rows(N, 10, 0);
}

Test(rx, counts_begin_where_the_consumer_attached)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	attached_deinit(&a);
	a = (struct attached){.n_earlier = 3 * N + 7};
	attached_init(&a);
	expect_counts(0, 0, 0, 0);
	attached_publish(&a, 5);
	expect_counts(5, 0, 0, 5);
	cr_assert_eq(acquire(3), 3);
	expect_rows(3 * N + 7, 3, 0);
	expect_counts(5, 3, 0, 2);
	cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
	attached_publish(&a, 20 * N);
	cr_assert_eq(acquire(1), 1);
	cr_expect_gt(batch.gap, 0);
	expect_counts(20 * N + 5, 4, batch.gap, 20 * N + 1 - batch.gap);
	cr_assert_eq(ibvcap_rx_info(a.rx, &info), 0);
	cr_expect_eq(info.attach_sequence, 3 * N + 7);
}

Test(rx, what_was_recycled_is_skipped_counted_and_told)
{
	uint64_t floor, head;

	attached_publish(&a, 10);
	cr_assert_eq(acquire(4), 4);
	cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
	attached_publish(&a, 20 * N);
	floor = consumer_load_floor(a.ring.ring);
	head = 20 * N + 10;
	cr_assert_gt(floor, 1);
	cr_assert_gt(acquire(1), 0);
	expect_rows(floor * N, 1, floor * N - 4);
	expect_counts(head, 5, floor * N - 4, head - floor * N - 1);
	cr_assert_eq(acquire(1), 1);
	expect_rows(floor * N + 1, 1, 0);
}

Test(rx, a_leased_batch_stays_as_it_is_while_the_ring_goes_round)
{
	struct ibvcap_rx_batch held = IBVCAP_INIT(struct ibvcap_rx_batch);

	attached_publish(&a, N);
	cr_assert_eq(acquire(N / 2), N / 2);
	held = batch;
	attached_publish(&a, 50 * N);
	for (uint32_t i = 0; i < held.n; i++)
		cr_assert_eq(attached_number(&held, i), i);
	cr_assert_eq(acquire(N), N / 2, "the rest of a block under lease is still there, too");
	expect_rows(N / 2, N / 2, 0);
	cr_assert_eq(ibvcap_rx_release(a.rx, &held), 0);
	cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
	cr_assert_eq(acquire(1), 1);
	cr_expect_gt(batch.gap, 0);
}

Test(rx, several_batches_of_one_block_share_its_lease)
{
	struct ibvcap_rx_batch first = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_rx_batch second = IBVCAP_INIT(struct ibvcap_rx_batch);

	attached_publish(&a, N);
	cr_assert_eq(acquire(10), 10);
	first = batch;
	cr_assert_eq(acquire(10), 10);
	second = batch;
	cr_assert_eq(first.lease, second.lease);
	cr_assert_eq(daemon_load_lease(a.consumer.page, first.lease), 1);
	cr_assert_eq(ibvcap_rx_release(a.rx, &first), 0);
	cr_assert_eq(daemon_load_lease(a.consumer.page, first.lease), 1);
	cr_assert_eq(ibvcap_rx_release(a.rx, &second), 0);
	cr_assert_eq(daemon_load_lease(a.consumer.page, first.lease), 0);
}

Test(rx, a_batch_is_released_once_and_only_if_it_is_out)
{
	struct ibvcap_rx_batch first = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_rx_batch wrong = IBVCAP_INIT(struct ibvcap_rx_batch);

	attached_publish(&a, 2 * N);
	cr_assert_eq(acquire(10), 10);
	first = batch;
	cr_assert_eq(acquire(10), 10);
	cr_expect_eq(ibvcap_rx_release(a.rx, &first), 0);
	cr_expect_eq(ibvcap_rx_release(a.rx, &first), -EINVAL, "twice, while another of its block is out");
	cr_expect(strstr(ibvcap_error_text(), "acquired and not released"), "%s", ibvcap_error_text());
	wrong = batch;
	wrong.lease = QUOTA;
	cr_expect_eq(ibvcap_rx_release(a.rx, &wrong), -EINVAL);
	wrong.lease = UINT32_MAX;
	cr_expect_eq(ibvcap_rx_release(a.rx, &wrong), -EINVAL);
	wrong = batch;
	wrong.sequence += N;
	cr_expect_eq(ibvcap_rx_release(a.rx, &wrong), -EINVAL);
	cr_expect_eq(ibvcap_rx_release(a.rx, &batch), 0);
	cr_expect_eq(ibvcap_rx_release(a.rx, &batch), -EINVAL);
}

Test(rx, no_more_blocks_are_leased_than_the_quota)
{
	struct ibvcap_rx_batch out[QUOTA];

	attached_publish(&a, 3 * N);
	for (uint32_t i = 0; i < QUOTA; i++) {
		cr_assert_eq(acquire(N), N);
		out[i] = batch;
	}
	cr_assert_eq(acquire(N), -ENOBUFS);
	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, N, 1, -1), -ENOBUFS, "and does not wait for ever");
	attached_publish(&a, 40 * N);
	cr_assert_eq(acquire(N), -ENOBUFS);
	for (uint32_t i = 0; i < QUOTA; i++)
		for (uint32_t row = 0; row < N; row++)
			cr_assert_eq(attached_number(&out[i], row), out[i].sequence + row);
	cr_assert_eq(ibvcap_rx_release(a.rx, &out[1]), 0, "in any order");
	cr_assert_eq(acquire(N), N);
	cr_expect_gt(batch.gap, 0);
	expect_rows(batch.sequence, N, batch.gap);
}

Test(rx, what_is_acquired_counts_as_delivered_whether_it_is_released_or_not)
{
	struct ibvcap_rx_batch first = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_rx_batch second = IBVCAP_INIT(struct ibvcap_rx_batch);

	attached_publish(&a, 2 * N);
	cr_assert_eq(acquire(N), N);
	first = batch;
	cr_assert_eq(acquire(N), N);
	second = batch;
	cr_assert_eq(ibvcap_rx_release(a.rx, &second), 0);
	cr_expect_eq(daemon_load_delivered(a.consumer.page), 2 * N, "the first block is still out");
	cr_assert_eq(ibvcap_rx_release(a.rx, &first), 0);
	cr_expect_eq(daemon_load_delivered(a.consumer.page), 2 * N);
}

static void be_lossless(void)
{
	a.consumer.policy = IBVCAP_POLICY_LOSSLESS;
	a.consumer.deadline_ns = 1;
	daemon_store_policy(a.consumer.state, IBVCAP_POLICY_LOSSLESS);
	a.rx->parts[0]->policy_reported = IBVCAP_POLICY_LOSSLESS;
}

/* Publish a block; false: the ring has no room for one. */
static bool publish_block(void)
{
	struct rx_span span;

	rx_ring_post_span(&a.ring, N, &span);
	rx_ring_publish(&a.ring, span.n);
	return span.n == N;
}

Test(rx, a_lossless_consumer_is_waited_for_and_skips_nothing)
{
	uint64_t published = 0, delivered = 0;

	be_lossless();
	for (int i = 0; i < 200; i++) {
		while (publish_block())
			published += N;
		for (int rows = i % 100; rows > 0; rows -= (int)batch.n) {
			if (acquire((uint32_t)rows) == 0)
				break;
			cr_assert_eq(batch.gap, 0);
			cr_assert_eq(batch.sequence, delivered);
			cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
			delivered += batch.n;
		}
	}
	cr_expect_gt(delivered, 100 * N);
	expect_counts(published, delivered, 0, published - delivered);
}

Test(rx, a_demotion_is_told_with_the_first_gap_it_made)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	be_lossless();
	while (publish_block())
		;
	cr_assert_eq(acquire(10), 10);
	cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
	rx_ring_charge_stalls(&a.ring, 1);
	rx_ring_charge_stalls(&a.ring, 1000);
	for (int i = 0; i < 20; i++)
		cr_assert(publish_block());
	cr_assert_eq(acquire(N), N);
	cr_expect_gt(batch.gap, 0);
	cr_expect_eq(batch.sequence - batch.gap, 10);
	cr_expect_eq(batch.flags, IBVCAP_RX_BATCH_FLAG_DEMOTED);
	cr_assert_eq(acquire(N), N);
	cr_expect_eq(batch.flags, 0, "once");
	ibvcap_rx_info(a.rx, &info);
	cr_expect_eq(info.policy, IBVCAP_POLICY_LOSSY);
}

static struct ibvcap_rx_losses losses;

static void expect_losses(uint64_t packets, uint64_t before, uint64_t before_ns, uint64_t after)
{
	cr_expect_eq(ibvcap_rx_add_losses(a.rx, &batch, &losses), before != 0);
	cr_expect_eq(losses.packets, packets);
	cr_expect_eq(losses.before, before);
	if (before)
		cr_expect_eq(losses.before_ns, before_ns);
	cr_expect_eq(losses.after, after);
}

static void publish_and_acquire(unsigned n)
{
	attached_publish(&a, n);
	cr_assert_eq(acquire(N), (int)n);
}

Test(rx, what_the_card_lost_is_told_once_and_by_the_batch_behind_it)
{
	losses = (struct ibvcap_rx_losses)IBVCAP_INIT(struct ibvcap_rx_losses);
	attached_settle(&a, 7, 1000, 1000);
	publish_and_acquire(10);
	expect_losses(0, 0, 0, 0);
	attached_settle(&a, 9, 2000, 2000);
	expect_losses(0, 0, 0, 2);
	cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
	cr_expect_eq(ibvcap_rx_add_losses(a.rx, &batch, &losses), -EINVAL);
	publish_and_acquire(N - 10);
	expect_losses(2, 2, 2000, 0);
	cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
	attached_settle(&a, 12, 3000, 3000);
	publish_and_acquire(N);
	expect_losses(5, 3, 3000, 0);
	expect_losses(5, 0, 0, 0);
	attached_settle(&a, 13, 4000, 4000); /* the block is full, and the next one has no row */
	expect_losses(5, 0, 0, 1);
}

Test(rx, what_the_card_lost_at_the_end_of_an_epoch_is_told_by_the_next_one)
{
	losses = (struct ibvcap_rx_losses)IBVCAP_INIT(struct ibvcap_rx_losses);
	attached_settle(&a, 7, 1000, 1000);
	publish_and_acquire(N);
	expect_losses(0, 0, 0, 0);
	cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
	publish_and_acquire(1);
	attached_settle(&a, 17, 2000, 2000);
	expect_losses(0, 0, 0, 10);
	a.rx->parts[0]
		->info.epoch++; /* as if this block were of the next one, in which the card had lost 7 when it began */
	expect_losses(10 + 7, 10 + 7, 1000, 10);
	a.rx->parts[0]->info.epoch--; /* a queue that is behind */
	expect_losses(10 + 7, 0, 0, 10);
}

/* Also when it ends, when it was demoted, when a batch is out meanwhile. */
Test(rx, every_skip_is_told_with_its_range_in_the_next_batch)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	uint64_t expected = 0, gaps = 0, delivered = 0;
	int r;

	be_lossless();
	for (unsigned i = 0; i < 300; i++) {
		for (unsigned blocks = i % 17; blocks > 0; blocks--)
			publish_block();
		if (i == 100) {
			rx_ring_charge_stalls(&a.ring, 1);
			rx_ring_charge_stalls(&a.ring, 1000);
		}
		if (i == 299)
			rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
		for (unsigned rows = i % 50; rows > 0 || i == 299; rows--) {
			r = acquire(1);
			if (r <= 0)
				break;
			cr_assert_eq(batch.sequence - batch.gap, expected);
			expected = batch.sequence + 1;
			gaps += batch.gap;
			delivered++;
			cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
		}
	}
	cr_expect_eq(r, -ESHUTDOWN);
	ibvcap_rx_counts(a.rx, &counts);
	cr_expect_gt(gaps, 0);
	cr_expect_eq(counts.skipped, gaps);
	cr_expect_eq(counts.delivered, delivered);
	cr_expect_eq(counts.lag, 0);
	cr_expect_eq(counts.published, gaps + delivered);
}

Test(rx, nothing_is_no_number_of_packets)
{
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 0, 0, 0), -EINVAL);
	cr_expect(strstr(ibvcap_error_text(), "max is 0"), "%s", ibvcap_error_text());
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 1, 0, -2), -EINVAL);
	cr_expect(strstr(ibvcap_error_text(), "timeout_ms is -2"), "%s", ibvcap_error_text());
}

Test(rx, min_is_clamped_to_what_the_block_can_hold)
{
	attached_publish(&a, N - 3);
	cr_assert_eq(acquire(N), N - 3);
	attached_publish(&a, 3);
	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 50, 50, -1), 3, "else this waits for ever");
}

Test(rx, time_out_takes_what_there_is)
{
	attached_publish(&a, 3);
	cr_assert_eq(ibvcap_rx_acquire(a.rx, &batch, 50, 50, 20), 3);
}

Test(rx, recv_copies_one_packet_and_passes_over_errors)
{
	struct rx_span span;
	struct ibvcap_meta meta;
	uint64_t number[2] = {0, UINT64_C(0xabababababababab)};
	size_t length = 0;

	attached_publish(&a, 3);
	rx_ring_head_span(&a.ring, &span);
	span.meta[-3].flags = IBVCAP_PACKET_FLAG_ERROR;
	span.meta[-2].flags = IBVCAP_PACKET_FLAG_SHORT;
	cr_assert_eq(ibvcap_rx_recv(a.rx, number, 8, &length, &meta, 0), 1);
	cr_expect_eq(number[0], 1);
	cr_expect_eq(number[1], UINT64_C(0xabababababababab), "not past the buffer");
	cr_expect_eq(length, SLOT_BYTES);
	cr_expect_eq(meta.flags, IBVCAP_PACKET_FLAG_SHORT);
	cr_assert_eq(ibvcap_rx_recv(a.rx, number, 8, &length, NULL, 0), 1);
	cr_assert_eq(ibvcap_rx_recv(a.rx, number, 8, &length, NULL, 0), 0);
	expect_counts(3, 3, 0, 0);
	for (uint32_t i = 0; i < QUOTA; i++)
		cr_expect_eq(daemon_load_lease(a.consumer.page, i), 0);
}

Test(rx, recv_stays_within_the_row_whatever_meta_says)
{
	uint8_t buffer[4096];
	struct rx_span span;
	size_t length = 0;

	attached_publish(&a, 2);
	rx_ring_head_span(&a.ring, &span);
	span.meta[-2].header_length = 42 + 90;
	span.meta[-2].length = UINT16_MAX;
	span.meta[-1].header_length = 42 + 200;
	cr_assert_eq(ibvcap_rx_recv(a.rx, buffer, sizeof(buffer), &length, NULL, 0), 1);
	cr_expect_eq(length, SLOT_BYTES - 90);
	cr_assert_eq(ibvcap_rx_recv(a.rx, buffer, sizeof(buffer), &length, NULL, 0), 1);
	cr_expect_eq(length, 0);
}

Test(rx, a_block_table_that_lies_is_an_error_and_not_a_crash)
{
	attached_publish(&a, 1);
	for (uint64_t block = 0; block < a.ring.ring->table_entries; block++)
		daemon_store_table(a.ring.ring, block, UINT32_MAX);
	cr_assert_eq(acquire(1), -EPROTO);
	cr_expect_eq(daemon_load_lease(a.consumer.page, 0), 0);
}

Test(rx, geometry_that_changes_later_is_not_looked_at)
{
	a.ring.ring->n_blocks = UINT32_MAX;
	attached_publish(&a, 1);
	a.ring.ring->table_offset = UINT64_MAX / 2;
	a.ring.ring->meta_offset = UINT64_MAX / 2;
	a.ring.ring->block_bytes = UINT64_MAX / 2;
	a.ring.ring->slots_per_block = 1;
	cr_assert_eq(acquire(1), 1);
	expect_rows(0, 1, 0);
}

Test(rx, cursors_that_lie_end_in_no_packets)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	attached_publish(&a, 10);
	cr_assert_eq(acquire(10), 10);
	daemon_publish_head(a.ring.ring, 0);
	cr_expect_eq(acquire(1), 0);
	ibvcap_rx_counts(a.rx, &counts);
	cr_expect_eq(counts.published, counts.delivered + counts.skipped + counts.lag);
	daemon_publish_head(a.ring.ring, 20);
	daemon_store_floor(a.ring.ring, UINT64_MAX);
	cr_assert_eq(ibvcap_rx_release(a.rx, &batch), 0);
	cr_expect_eq(acquire(1), 0);
	ibvcap_rx_counts(a.rx, &counts);
	cr_expect_eq(counts.published, counts.delivered + counts.skipped + counts.lag);
}

Test(rx, info_says_what_the_ring_is)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	daemon_store_clock(a.ring.ring,
	                   &(struct status_clock){IBVCAP_CLOCK_SOURCE_DEVICE, IBVCAP_SYSTEM_CLOCK_SYNCHRONISED, 250,
	                                          IBVCAP_NOT_KNOWN, 120000, 37, 1500, -9, -5, -2});
	cr_assert_eq(ibvcap_rx_info(a.rx, &info), 0);
	cr_expect_str_eq(info.stream, "test");
	cr_expect_eq(info.epoch, EPOCH);
	cr_expect_eq(info.slot_bytes, SLOT_BYTES);
	cr_expect_eq(info.slots_per_block, N);
	cr_expect_eq(info.lease_blocks, QUOTA);
	cr_expect_eq(info.n_queues, 1);
	cr_expect_eq(info.clock_source, IBVCAP_CLOCK_SOURCE_DEVICE);
	cr_expect_eq(info.clock_error_ns, 250);
	cr_expect_eq(info.clock_delay_ns, IBVCAP_NOT_KNOWN);
	cr_expect_eq(info.system_clock, IBVCAP_SYSTEM_CLOCK_SYNCHRONISED);
	cr_expect_eq(info.system_clock_error_ns, 120000);
	cr_expect_eq(info.tai_offset_s, 37);
	cr_expect_eq(info.clock_drift_ppb, 1500);
	cr_expect_eq(info.sensor_offset_min_ns, -9);
	cr_expect_eq(info.sensor_offset_ns, -5);
	cr_expect_eq(info.sensor_offset_max_ns, -2);
}

Test(rx, a_batch_whose_size_is_not_set_is_refused_and_nothing_is_leased)
{
	struct ibvcap_rx_batch unset = {0};

	attached_publish(&a, 1);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &unset, 1, 1, 0), -EINVAL);
	cr_expect(strstr(ibvcap_error_text(), "IBVCAP_INIT(struct ibvcap_rx_batch)"));
	unset.size = SIZE_MAX;
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &unset, 1, 1, 0), -EINVAL);
	cr_expect_eq(acquire(1), 1);
	expect_rows(0, 1, 0);
}

#define expect_own_text(call, error, text)                                                       \
	do {                                                                                     \
		error_set_text("of an older failure");                                           \
		cr_expect_eq(call, error, #call);                                                \
		cr_expect(strstr(ibvcap_error_text(), text), #call ": %s", ibvcap_error_text()); \
	} while (0)

/* NULL and a size that is not set are refused alike. */
Test(rx, each_function_that_refuses_its_arguments_says_why)
{
	struct ibvcap_rx_moment moment = IBVCAP_INIT(struct ibvcap_rx_moment);
	struct ibvcap_rx_losses sum = IBVCAP_INIT(struct ibvcap_rx_losses);
	struct ibvcap_rx_batch foreign = IBVCAP_INIT(struct ibvcap_rx_batch);
	const struct ibvcap_sequence none = {0};
	struct ibvcap_tracker *tracker = NULL;
	struct ibvcap_rx_info unset = {0};

	expect_own_text(ibvcap_rx_acquire(a.rx, NULL, 1, 1, 0), -EINVAL, "struct ibvcap_rx_batch");
	expect_own_text(ibvcap_rx_acquire(a.rx, &batch, 0, 1, 0), -EINVAL, "max is 0");
	expect_own_text(ibvcap_rx_recv(a.rx, NULL, 0, NULL, NULL, -2), -EINVAL, "timeout_ms is -2");
	expect_own_text(ibvcap_rx_release(a.rx, &foreign), -EINVAL, "acquired and not released");
	expect_own_text(ibvcap_rx_add_losses(a.rx, &foreign, &sum), -EINVAL, "acquired and not released");
	expect_own_text(ibvcap_rx_add_losses(a.rx, &foreign, NULL), -EINVAL, "struct ibvcap_rx_losses");
	expect_own_text(ibvcap_rx_track(a.rx, NULL, tracker, NULL), -EINVAL, "struct ibvcap_rx_batch");
	expect_own_text(ibvcap_rx_track(a.rx, &foreign, tracker, NULL), -EINVAL, "acquired and not released");
	expect_own_text(ibvcap_rx_take_moment(a.rx, NULL), -EINVAL, "struct ibvcap_rx_moment");
	expect_own_text(ibvcap_rx_settle_moment(a.rx, NULL), -EINVAL, "struct ibvcap_rx_moment");
	expect_own_text(ibvcap_rx_account_between(&moment, &moment, NULL), -EINVAL, "struct ibvcap_rx_account");
	expect_own_text(ibvcap_moment_add_queue(&moment, NULL), -EINVAL, "struct ibvcap_rx_moment");
	expect_own_text(ibvcap_rx_info(a.rx, &unset), -EINVAL, "IBVCAP_INIT(struct ibvcap_rx_info)");
	expect_own_text(ibvcap_rx_counts(a.rx, NULL), -EINVAL, "struct ibvcap_rx_counts");
	expect_own_text(ibvcap_tracker_new(&none, NULL, &tracker), -EINVAL, "'sequence'");
	cr_assert_eq(setenv("IBVCAP_SOCKET", "/nonexistent/control.sock", true), 0);
	expect_own_text(ibvcap_status(NULL, 0, NULL), -ENOENT, "control socket");
}

Test(rx, each_failure_to_acquire_says_why)
{
	attached_publish(&a, (QUOTA + 1) * N);
	for (unsigned i = 0; i < QUOTA; i++)
		cr_assert_eq(acquire(N), N);
	expect_own_text(acquire(N), -ENOBUFS, "release some");
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	attached_deinit(&a);
	attached_init(&a);
	rx_ring_close(&a.ring, IBVCAP_RING_END_STOPPED);
	expect_own_text(acquire(N), -ESHUTDOWN, "its daemon has ended");
}
