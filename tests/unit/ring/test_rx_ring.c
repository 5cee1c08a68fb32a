// SPDX-License-Identifier: Apache-2.0
#include "daemon/ring/rx_ring.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/consumers.h"
#include "tests/support/small_ring.h"

#include <ibvcap/ibvcap.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define N              64u
#define HISTORY_BLOCKS 2u
#define SPARE_BLOCKS   4u

static struct rx_ring_options options_of_test(void)
{
	struct rx_ring_options options = small_ring();

	options.epoch = 42;
	options.history_blocks = HISTORY_BLOCKS;
	options.posted_slots = 128;
	options.spare_blocks = SPARE_BLOCKS;
	return options;
}

static void init(struct rx_ring *ring, const struct rx_ring_options *options)
{
	struct failure failure = {0};

	cr_assert(eq(int, rx_ring_init(ring, options, &failure), 0), "%s", failure.text);
}

static void init_small(struct rx_ring *ring)
{
	const struct rx_ring_options options = options_of_test();

	init(ring, &options);
}

static uint32_t post(struct rx_ring *ring, uint32_t n)
{
	uint32_t posted = 0;

	while (posted < n) {
		struct rx_span span;

		rx_ring_post_span(ring, n - posted, &span);
		if (span.n == 0)
			break;
		posted += span.n;
	}
	return posted;
}

/* As a worker whose device fills every slot at once. */
static void run_blocks(struct rx_ring *ring, uint32_t blocks)
{
	for (uint32_t i = 0; i < blocks; i++) {
		cr_assert(eq(u32, post(ring, N), N));
		rx_ring_publish(ring, N);
	}
}

static uint32_t physical_of(const struct rx_ring *ring, uint64_t number)
{
	return consumer_load_table_at(ring_table(ring->ring), ring->table_mask, number);
}

Test(rx_ring, the_shared_description_is_complete)
{
	struct rx_ring ring;

	init_small(&ring);
	struct ibvcap_ring *shared = ring.ring;

	cr_expect(segment_is_ready(&shared->segment));
	cr_expect(eq(u64, shared->segment.magic, IBVCAP_RING_MAGIC));
	cr_expect(eq(u64, shared->segment.epoch, 42));
	cr_expect(eq(u64, shared->segment.bytes, ring.ring_shm.bytes));
	cr_expect(eq(u32, shared->n_blocks, 2 + 128 / N + 1 + 4));
	cr_expect(eq(u64, shared->block_bytes, 8192), "64 rows of 100 bytes, rounded up to 4 KiB");
	cr_expect(le(u64, (uint64_t)shared->n_blocks * shared->block_bytes, shared->payload_segment_bytes));
	cr_expect(le(u64, shared->meta_offset + (uint64_t)shared->n_blocks * N * sizeof(struct ibvcap_meta),
	             shared->segment.bytes));
	cr_expect(eq(int, strcmp(shared->stream, "test"), 0));
	rx_ring_deinit(&ring);
}

Test(rx_ring, rows_lie_densely_in_their_block_and_never_cross_it)
{
	struct rx_ring ring;
	struct rx_span first, second, third;

	init_small(&ring);
	rx_ring_post_span(&ring, 40, &first);
	rx_ring_post_span(&ring, 40, &second);
	rx_ring_post_span(&ring, 40, &third);
	cr_expect(eq(u32, first.n, 40));
	cr_expect(eq(u32, second.n, N - 40));
	cr_expect(eq(u32, third.n, 40));
	cr_expect(eq(sz, (size_t)(second.payload - first.payload), 40 * 100));
	cr_expect(eq(ptr, second.headers, first.headers + 40 * 64));
	cr_expect(eq(u64, third.sequence, N));
	cr_expect(eq(ptr, third.payload, (uint8_t *)ring.payload.address + physical_of(&ring, 1) * ring.block_bytes));
	rx_ring_deinit(&ring);
}

Test(rx_ring, what_the_device_did_not_take_is_posted_again)
{
	struct rx_ring ring;
	struct rx_span first, again;

	init_small(&ring);
	rx_ring_post_span(&ring, N, &first);
	rx_ring_unpost(&ring, 24);
	rx_ring_post_span(&ring, N, &again);
	cr_expect(eq(u64, again.sequence, 40));
	cr_expect(eq(u32, again.n, 24));
	rx_ring_deinit(&ring);
}

Test(rx_ring, a_rewind_posts_the_same_slots_from_head_on)
{
	struct rx_ring ring;
	struct rx_span head, again;

	init_small(&ring);
	post(&ring, 128);
	rx_ring_publish(&ring, 10);
	rx_ring_head_span(&ring, &head);
	rx_ring_rewind(&ring);
	rx_ring_post_span(&ring, N, &again);
	cr_expect(eq(u64, again.sequence, 10));
	cr_expect(eq(u32, again.slot, head.slot));
	cr_expect(eq(ptr, again.payload, head.payload));
	rx_ring_deinit(&ring);
}

Test(rx_ring, history_is_kept_and_the_floor_follows)
{
	struct rx_ring ring;

	init_small(&ring);
	run_blocks(&ring, 100);
	uint64_t floor = consumer_load_floor(ring.ring);

	cr_expect(eq(u64, consumer_load_head(ring.ring), 100 * N));
	cr_expect(ge(u64, 100 - floor, HISTORY_BLOCKS), "complete blocks that can still be leased");
	for (uint64_t a = floor; a < 100; a++)
		for (uint64_t b = a + 1; b < 100; b++)
			cr_expect(ne(u32, physical_of(&ring, a), physical_of(&ring, b)));
	rx_ring_deinit(&ring);
}

Test(rx_ring, a_leased_block_is_not_given_to_the_device)
{
	struct rx_ring ring;
	struct ring_consumer consumer;

	init_small(&ring);
	cr_assert(eq(int, test_consumer_init(&consumer, 4), 0));
	cr_assert(eq(int, rx_ring_add_consumer(&ring, &consumer), 0));
	run_blocks(&ring, 3);
	uint32_t leased = physical_of(&ring, 1);

	consumer_store_lease(consumer.page, 2, 1);
	for (int i = 0; i < 500; i++) {
		struct rx_span span;

		rx_ring_post_span(&ring, N, &span);
		cr_assert(ne(u32, span.slot / N, leased));
		rx_ring_publish(&ring, span.n);
	}
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_SPARES_USED]), 1));
	consumer_clear_lease(consumer.page, 2);
	run_blocks(&ring, 1);
	cr_expect(eq(u32, ring.n_held, 0), "a released block is free again");
	cr_expect(eq(u32, ring.n_free, SPARE_BLOCKS));
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
}

Test(rx_ring, leases_up_to_the_quota_never_starve_the_device)
{
	struct rx_ring ring;
	struct ring_consumer consumer;

	init_small(&ring);
	cr_assert(eq(int, test_consumer_init(&consumer, 4), 0));
	cr_assert(eq(int, rx_ring_add_consumer(&ring, &consumer), 0));
	for (uint32_t round = 0; round < 1000; round++) {
		run_blocks(&ring, 1);
		uint64_t newest = consumer_load_head(ring.ring) / N - 1;
		uint32_t slot = (uint32_t)rand() % 8;

		if (slot < 4)
			consumer_store_lease(consumer.page, slot, newest);
	}
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
}

Test(rx_ring, a_dead_consumers_leases_end_with_it)
{
	struct rx_ring ring;
	struct ring_consumer consumer;

	init_small(&ring);
	cr_assert(eq(int, test_consumer_init(&consumer, 4), 0));
	cr_assert(eq(int, rx_ring_add_consumer(&ring, &consumer), 0));
	for (uint32_t slot = 0; slot < 4; slot++) {
		run_blocks(&ring, 1);
		consumer_store_lease(consumer.page, slot, slot);
	}
	run_blocks(&ring, 20);
	cr_expect(eq(u32, ring.n_held, 4));
	rx_ring_remove_consumer(&ring, &consumer);
	run_blocks(&ring, 1);
	cr_expect(eq(u32, ring.n_held, 0));
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
}

Test(rx_ring, a_lease_on_a_block_that_never_was_is_a_lie_and_reported_once)
{
	struct rx_ring ring;
	struct ring_consumer liar, honest;

	init_small(&ring);
	cr_assert(eq(int, test_consumer_init(&liar, 4), 0));
	cr_assert(eq(int, test_consumer_init(&honest, 4), 0));
	rx_ring_add_consumer(&ring, &liar);
	rx_ring_add_consumer(&ring, &honest);
	run_blocks(&ring, 2);
	consumer_store_lease(honest.page, 0, 1);
	atomic_store(&liar.page->leases[0], UINT64_MAX);
	run_blocks(&ring, 10);
	cr_expect(eq(ptr, rx_ring_next_evicted(&ring), &liar));
	cr_expect(eq(ptr, rx_ring_next_evicted(&ring), NULL));
	run_blocks(&ring, 10);
	cr_expect(eq(ptr, rx_ring_next_evicted(&ring), NULL));
	cr_expect(eq(u32, ring.n_consumers, 1));
	test_consumer_deinit(&liar);
	test_consumer_deinit(&honest);
	rx_ring_deinit(&ring);
}

/* ---- lossless ------------------------------------------------------------------------------------ */

#define DEADLINE_NS 1000u

static void add_lossless(struct rx_ring *ring, struct ring_consumer *consumer)
{
	cr_assert(eq(int, test_consumer_init(consumer, 4), 0));
	consumer->policy = IBVCAP_POLICY_LOSSLESS;
	consumer->deadline_ns = DEADLINE_NS;
	daemon_store_policy(consumer->state, IBVCAP_POLICY_LOSSLESS);
	cr_assert(eq(int, rx_ring_add_consumer(ring, consumer), 0));
}

/* Publish until nothing can be posted any more. Blocks it took. */
static uint32_t run_until_pinned(struct rx_ring *ring)
{
	uint32_t n = 0;

	for (; n < 1000 && post(ring, N) == N; n++)
		rx_ring_publish(ring, N);
	cr_assert(ring->stalled);
	return n;
}

Test(rx_ring, what_a_lossless_consumer_has_not_acquired_is_kept_and_the_queue_starves)
{
	struct rx_ring ring;
	struct ring_consumer consumer;

	init_small(&ring);
	add_lossless(&ring, &consumer);
	cr_expect(eq(u32, run_until_pinned(&ring), ring.live_blocks_max));
	cr_expect(eq(u64, consumer_load_floor(ring.ring), 0));
	cr_expect(eq(u32, ring.n_free, SPARE_BLOCKS), "backlog takes no spares");
	consumer_store_delivered(consumer.page, N - 1);
	cr_expect(eq(u32, post(&ring, 1), 0), "a row of the block is not acquired");
	consumer_store_delivered(consumer.page, 2 * N);
	cr_expect(eq(u32, run_until_pinned(&ring), 2));
	cr_expect(eq(u64, consumer_load_floor(ring.ring), 2));
	rx_ring_remove_consumer(&ring, &consumer);
	run_blocks(&ring, 100);
	cr_expect(not(ring.stalled), "nobody is left to wait for");
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
}

Test(rx_ring, a_lossless_consumer_that_keeps_its_quota_for_ever_does_not_stop_the_queue)
{
	struct rx_ring ring;
	struct ring_consumer consumer;
	uint32_t leased[4];

	init_small(&ring);
	add_lossless(&ring, &consumer);
	for (uint32_t i = 0; i < 4; i++) {
		run_blocks(&ring, 1);
		consumer_store_lease(consumer.page, i, i);
		leased[i] = physical_of(&ring, i);
		consumer_store_delivered(consumer.page, ring.head);
	}
	for (uint32_t i = 0; i < 50; i++) {
		struct rx_span span;

		rx_ring_post_span(&ring, N, &span);
		cr_assert(eq(u32, span.n, N), "what it holds has a spare");
		for (uint32_t slot = 0; slot < 4; slot++)
			cr_assert(ne(u32, span.slot / N, leased[slot]));
		rx_ring_publish(&ring, N);
		consumer_store_delivered(consumer.page, ring.head);
	}
	cr_expect(not(ring.stalled));
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
}

Test(rx_ring, what_a_lossless_consumer_skipped_it_does_not_pin)
{
	struct rx_ring ring;
	struct ring_consumer consumer;

	init_small(&ring);
	run_blocks(&ring, 1);
	add_lossless(&ring, &consumer);
	cr_assert(eq(u64, consumer.attach_sequence, N));
	run_until_pinned(&ring);
	cr_expect(eq(u64, ring.floor, 1), "it begins there");
	consumer_store_skipped(consumer.page, N);
	consumer_store_delivered(consumer.page, N - 1);
	run_until_pinned(&ring);
	cr_expect(eq(u64, ring.floor, 2));
	consumer_store_delivered(consumer.page, N);
	run_until_pinned(&ring);
	cr_expect(eq(u64, ring.floor, 3));
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
}

static uint64_t fill_max(const struct rx_ring *ring)
{
	return counter_get(&ring->ring->counters[IBVCAP_RX_COUNTER_FILL_MAX]);
}

Test(rx_ring, the_fill_of_the_slowest_consumer_has_a_high_water_mark)
{
	struct rx_ring ring;
	struct ring_consumer slow, quick;

	init_small(&ring);
	run_blocks(&ring, 100);
	cr_expect(eq(u64, fill_max(&ring), 0), "nobody reads");
	cr_assert(eq(int, test_consumer_init(&slow, 4), 0));
	cr_assert(eq(int, test_consumer_init(&quick, 4), 0));
	cr_assert(eq(int, rx_ring_add_consumer(&ring, &slow), 0));
	cr_assert(eq(int, rx_ring_add_consumer(&ring, &quick), 0));
	run_blocks(&ring, 3);
	consumer_store_delivered(quick.page, 3 * N);
	consumer_store_delivered(slow.page, N / 2);
	cr_assert(eq(u32, post(&ring, 1), 1));
	cr_expect(eq(u64, fill_max(&ring), 2 * N + N / 2));
	consumer_store_delivered(slow.page, 2 * N);
	consumer_store_skipped(slow.page, N);
	run_blocks(&ring, 1);
	cr_expect(eq(u64, fill_max(&ring), 2 * N + N / 2), "it never falls");
	run_blocks(&ring, 100);
	cr_expect(gt(u64, fill_max(&ring), HISTORY_BLOCKS * N));
	cr_expect(le(u64, fill_max(&ring), (uint64_t)ring.live_blocks_max * N), "what was recycled is not in the ring");
	test_consumer_deinit(&slow);
	test_consumer_deinit(&quick);
	rx_ring_deinit(&ring);
}

Test(rx_ring, a_page_that_lies_does_not_fill_the_ring)
{
	struct rx_ring ring;
	struct ring_consumer liar;

	init_small(&ring);
	cr_assert(eq(int, test_consumer_init(&liar, 4), 0));
	cr_assert(eq(int, rx_ring_add_consumer(&ring, &liar), 0));
	consumer_store_delivered(liar.page, UINT64_MAX);
	consumer_store_skipped(liar.page, UINT64_MAX);
	run_blocks(&ring, 100);
	cr_expect(eq(u64, fill_max(&ring), 0));
	test_consumer_deinit(&liar);
	rx_ring_deinit(&ring);
}

Test(rx_ring, after_its_deadline_a_lossless_consumer_is_demoted_and_keeps_its_leases)
{
	struct rx_ring ring;
	struct ring_consumer consumer, quick;

	init_small(&ring);
	add_lossless(&ring, &consumer);
	add_lossless(&ring, &quick);
	consumer_store_lease(consumer.page, 0, 0);
	run_until_pinned(&ring);
	consumer_store_delivered(quick.page, ring.head);
	uint32_t leased = physical_of(&ring, 0);

	rx_ring_charge_stalls(&ring, 50);
	rx_ring_charge_stalls(&ring, 50 + DEADLINE_NS - 1);
	cr_expect(eq(u32, consumer_load_policy(consumer.state), IBVCAP_POLICY_LOSSLESS));
	cr_expect(eq(ptr, rx_ring_next_demoted(&ring), NULL));
	rx_ring_charge_stalls(&ring, 50 + DEADLINE_NS);
	cr_expect(eq(u32, consumer_load_policy(consumer.state), IBVCAP_POLICY_LOSSY));
	cr_expect(eq(u32, consumer_load_policy(quick.state), IBVCAP_POLICY_LOSSLESS), "it did not wait for that one");
	cr_expect(eq(ptr, rx_ring_next_demoted(&ring), &consumer));
	cr_expect(eq(ptr, rx_ring_next_demoted(&ring), NULL));
	for (int i = 0; i < 50; i++) {
		struct rx_span span;

		rx_ring_post_span(&ring, N, &span);
		cr_assert(eq(u32, span.n, N));
		cr_assert(ne(u32, span.slot / N, leased), "backlog is dropped, a lease is not");
		rx_ring_publish(&ring, N);
		consumer_store_delivered(quick.page, ring.head);
	}
	test_consumer_deinit(&consumer);
	test_consumer_deinit(&quick);
	rx_ring_deinit(&ring);
}

/*
 * Waiting for a quarter of the deadline each, and then without for so long. Times it could be done before the demotion.
 */
static uint32_t count_stalls(uint64_t rest_ns, bool catches_up)
{
	struct rx_ring ring;
	struct ring_consumer consumer;
	uint32_t n = 0;

	init_small(&ring);
	add_lossless(&ring, &consumer);
	for (uint64_t now_ns = 1; n < 50; n++, now_ns += rest_ns) {
		run_until_pinned(&ring);
		rx_ring_charge_stalls(&ring, now_ns);
		now_ns += DEADLINE_NS / 4;
		rx_ring_charge_stalls(&ring, now_ns);
		if (consumer.policy == IBVCAP_POLICY_LOSSY)
			break;
		consumer_store_delivered(consumer.page, catches_up ? ring.head : (ring.floor + 1) * N);
		run_blocks(&ring, 1);
		rx_ring_charge_stalls(&ring, now_ns);
		cr_assert(not(ring.charging));
	}
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
	return n;
}

Test(rx_ring, the_deadline_is_for_all_waiting_and_repaid_by_a_tenth_of_the_time_without)
{
	for (int catches_up = 0; catches_up < 2; catches_up++) {
		cr_expect(eq(u32, count_stalls(0, catches_up), 3), "the fourth quarter of the deadline");
		cr_expect(eq(u32, count_stalls(10 * DEADLINE_NS / 8, catches_up), 6), "half is repaid in between");
		cr_expect(eq(u32, count_stalls(10 * DEADLINE_NS / 4, catches_up), 50), "all is");
	}
}

Test(rx_ring, what_passes_between_a_look_and_the_next_is_charged_to_who_pinned_at_the_first)
{
	struct rx_ring ring;
	struct ring_consumer consumer;

	init_small(&ring);
	add_lossless(&ring, &consumer);
	run_until_pinned(&ring);
	rx_ring_charge_stalls(&ring, 100);
	consumer_store_delivered(consumer.page, ring.head);
	run_blocks(&ring, 1);
	cr_assert(not(ring.stalled));
	cr_assert(ring.charging, "else a pin that ends just before each look were free");
	rx_ring_charge_stalls(&ring, 150);
	cr_expect(eq(u64, consumer.budget->owed_ns, RX_RING_REPAY * 50));
	cr_expect(not(ring.charging));
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
}

Test(rx_ring, who_leaves_and_comes_again_owes_what_it_did)
{
	struct rx_ring ring;
	struct ring_consumer consumer, again;
	uint64_t now_ns = 1;

	init_small(&ring);
	add_lossless(&ring, &consumer);
	run_until_pinned(&ring);
	rx_ring_charge_stalls(&ring, now_ns);
	now_ns += DEADLINE_NS - 100;
	rx_ring_charge_stalls(&ring, now_ns);
	rx_ring_remove_consumer(&ring, &consumer);
	cr_expect(not(consumer.budget->stalls), "it has left");
	run_blocks(&ring, 1);

	struct stall_budget budget = *consumer.budget;

	add_lossless(&ring, &again);
	*again.budget = budget;
	run_until_pinned(&ring);
	now_ns += 1000;
	rx_ring_charge_stalls(&ring, now_ns);
	rx_ring_charge_stalls(&ring, now_ns + 199);
	cr_expect(eq(u32, again.policy, IBVCAP_POLICY_LOSSLESS), "100, and 100 are repaid");
	rx_ring_charge_stalls(&ring, now_ns + 200);
	cr_expect(eq(u32, again.policy, IBVCAP_POLICY_LOSSY));
	cr_expect(not(again.budget->stalls), "from now on it repays");
	test_consumer_deinit(&again);
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
}

Test(rx_ring, two_consumers_with_one_payer_are_charged_once)
{
	struct rx_ring ring;
	struct ring_consumer first, second;
	struct stall_budget *own;

	init_small(&ring);
	add_lossless(&ring, &first);
	add_lossless(&ring, &second);
	own = second.budget;
	second.budget = first.budget;
	run_until_pinned(&ring);
	rx_ring_charge_stalls(&ring, 100);
	rx_ring_charge_stalls(&ring, 150);
	cr_expect(eq(u64, first.budget->owed_ns, RX_RING_REPAY * 50));
	consumer_store_delivered(second.page, ring.head);
	rx_ring_charge_stalls(&ring, 160);
	rx_ring_charge_stalls(&ring, 170);
	cr_expect(eq(u64, first.budget->owed_ns, RX_RING_REPAY * 70));
	rx_ring_remove_consumer(&ring, &second);
	rx_ring_charge_stalls(&ring, 190);
	cr_expect(eq(u64, first.budget->owed_ns, RX_RING_REPAY * 90), "the first one still pins");
	rx_ring_remove_consumer(&ring, &first);
	cr_expect(not(first.budget->stalls), "nobody does");
	second.budget = own;
	test_consumer_deinit(&first);
	test_consumer_deinit(&second);
	rx_ring_deinit(&ring);
}

Test(rx_ring, counts_that_go_back_or_past_head_are_a_lie)
{
	static const uint64_t lies[][2] = {
		/* delivered, skipped */
		{UINT64_MAX, 0}, {N, 0}, {0, UINT64_MAX}, {2 * N, UINT64_MAX - N}, {UINT64_MAX, 3 * N + 1},
	};
	struct rx_ring ring;
	struct ring_consumer consumer;

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		init_small(&ring);
		add_lossless(&ring, &consumer);
		run_until_pinned(&ring);
		consumer_store_delivered(consumer.page, 2 * N);
		run_until_pinned(&ring);
		consumer_store_delivered(consumer.page, lies[i][0]);
		consumer_store_skipped(consumer.page, lies[i][1]);
		cr_expect(eq(u32, post(&ring, N), N), "it pins nothing any more");
		cr_expect(eq(ptr, rx_ring_next_evicted(&ring), &consumer));
		cr_expect(eq(u32, consumer.bad, IBVCAP_DISCONNECT_BAD_CURSOR));
		test_consumer_deinit(&consumer);
		rx_ring_deinit(&ring);
	}
}

Test(rx_ring, consumers_start_at_newest_or_oldest)
{
	struct rx_ring ring;
	struct ring_consumer newest, oldest;

	init_small(&ring);
	run_blocks(&ring, 50);
	cr_assert(eq(int, test_consumer_init(&newest, 1), 0));
	cr_assert(eq(int, test_consumer_init(&oldest, 1), 0));
	rx_ring_add_consumer(&ring, &newest);
	oldest.start.where = IBVCAP_START_OLDEST;
	rx_ring_add_consumer(&ring, &oldest);
	cr_expect(eq(u64, newest.state->attach_sequence, 50 * N));
	cr_expect(eq(u64, oldest.state->attach_sequence, consumer_load_floor(ring.ring) * N));
	test_consumer_deinit(&newest);
	test_consumer_deinit(&oldest);
	rx_ring_deinit(&ring);
}

/* Where a consumer begins that asks for value of where. */
static uint64_t begin_at(struct rx_ring *ring, uint32_t where, uint64_t value)
{
	struct ring_consumer consumer;

	cr_assert(eq(int, test_consumer_init(&consumer, 1), 0));
	consumer.start = (struct rx_start_position){where, value};
	cr_assert(eq(int, rx_ring_add_consumer(ring, &consumer), 0));
	cr_expect(eq(u64, consumer.state->attach_sequence, consumer.attach_sequence));
	cr_expect(eq(u64, consumer.state->attach_head, ring->head));
	rx_ring_remove_consumer(ring, &consumer);
	test_consumer_deinit(&consumer);
	return consumer.attach_sequence;
}

Test(rx_ring, packets_back_are_given_as_far_as_there_are_any)
{
	struct rx_ring ring;

	init_small(&ring);
	cr_expect(eq(u64, begin_at(&ring, IBVCAP_START_PACKETS_BACK, 7), 0), "nothing was published yet");
	run_blocks(&ring, 50);
	post(&ring, 10);
	rx_ring_publish(&ring, 10);
	cr_expect(eq(u64, begin_at(&ring, IBVCAP_START_PACKETS_BACK, 0), ring.head));
	cr_expect(eq(u64, begin_at(&ring, IBVCAP_START_PACKETS_BACK, 75), ring.head - 75));
	cr_expect(eq(u64, begin_at(&ring, IBVCAP_START_PACKETS_BACK, UINT64_MAX), ring.floor * N));
	rx_ring_deinit(&ring);
}

/* Row s came at 1000 + s / 3 * 10 ns: three at a time. */
static void publish_timed(struct rx_ring *ring, uint64_t n)
{
	while (n > 0) {
		struct rx_span span;

		rx_ring_post_span(ring, n < N ? (uint32_t)n : N, &span);
		cr_assert(gt(u32, span.n, 0));
		for (uint32_t i = 0; i < span.n; i++)
			span.meta[i].timestamp_ns = 1000 + (span.sequence + i) / 3 * 10;
		rx_ring_publish(ring, span.n);
		n -= span.n;
	}
}

Test(rx_ring, a_time_is_the_first_packet_that_is_not_older)
{
	struct rx_ring ring;

	init_small(&ring);
	cr_expect(eq(u64, begin_at(&ring, IBVCAP_START_NS_BACK, 0), 0), "nothing was published yet");
	publish_timed(&ring, 50 * N + 10);
	uint64_t oldest = ring.floor * N;

	for (uint64_t sequence = oldest; sequence < ring.head; sequence++) {
		uint64_t first = sequence / 3 * 3;

		cr_expect(eq(u64, begin_at(&ring, IBVCAP_START_NS_BACK, 1000 + sequence / 3 * 10),
		             first < oldest ? oldest : first));
		cr_expect(eq(u64, begin_at(&ring, IBVCAP_START_NS_BACK, 1001 + sequence / 3 * 10),
		             first + 3 < ring.head ? first + 3 : ring.head));
	}
	cr_expect(eq(u64, begin_at(&ring, IBVCAP_START_NS_BACK, 0), oldest));
	cr_expect(eq(u64, begin_at(&ring, IBVCAP_START_NS_BACK, UINT64_MAX), ring.head));
	rx_ring_deinit(&ring);
}

static uint32_t word_of(const struct ring_consumer *consumer)
{
	return client_load_wake_word(&consumer->state->link);
}

static bool has_rung(const struct rx_ring *ring)
{
	struct pollfd poller = {.fd = ring->doorbell, .events = POLLIN};
	eventfd_t rings;

	return poll(&poller, 1, 0) == 1 && eventfd_read(ring->doorbell, &rings) == 0;
}

Test(rx_ring, a_sleeper_is_woken_once_a_request_and_not_by_the_worker)
{
	struct rx_ring ring;
	struct ring_consumer consumer;

	init_small(&ring);
	cr_assert(eq(int, test_consumer_init(&consumer, 1), 0));
	rx_ring_add_consumer(&ring, &consumer);
	client_request_wake(&consumer.page->wake, 10, false);
	post(&ring, N);
	rx_ring_publish(&ring, 9);
	cr_expect(eq(u32, rx_ring_wake(&ring), 0));
	cr_expect(not(has_rung(&ring)));
	rx_ring_publish(&ring, 1);
	cr_expect(eq(u32, rx_ring_wake(&ring), 1));
	cr_expect(has_rung(&ring));
	cr_expect(eq(u32, word_of(&consumer), 0), "the notifier's business");
	cr_expect(eq(u32, rx_ring_wake(&ring), 0));
	client_request_wake(&consumer.page->wake, 11, false);
	rx_ring_publish(&ring, 1);
	cr_expect(eq(u32, rx_ring_wake(&ring), 1));
	client_wake(&consumer.state->link, &consumer.page->wake, -1);
	cr_expect(eq(u32, word_of(&consumer), 1));
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
}

Test(rx_ring, several_sleepers_are_one_ring_of_the_doorbell)
{
	struct rx_ring ring;
	struct ring_consumer consumers[3];

	init_small(&ring);
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert(eq(int, test_consumer_init(&consumers[i], 1), 0));
		rx_ring_add_consumer(&ring, &consumers[i]);
		client_request_wake(&consumers[i].page->wake, 1 + i / 2, i % 2);
	}
	post(&ring, N);
	rx_ring_publish(&ring, 2);
	cr_expect(eq(u32, rx_ring_wake(&ring), 1));
	cr_expect(has_rung(&ring));
	cr_expect(eq(u32, rx_ring_wake(&ring), 0));
	for (uint32_t i = 0; i < 3; i++)
		test_consumer_deinit(&consumers[i]);
	rx_ring_deinit(&ring);
}

static void punch(struct ring_consumer *consumer)
{
	cr_assert(eq(int, fallocate(consumer->page_shm.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0));
}

/* Each read of a page with a hole is a page fault: its client may not cause a second one. */
Test(rx_ring, who_punches_its_page_is_put_out_at_the_next_look)
{
	struct rx_ring ring;
	struct ring_consumer waiting, leasing;

	init_small(&ring);
	cr_assert(eq(int, test_consumer_init(&waiting, 1), 0));
	cr_assert(eq(int, test_consumer_init(&leasing, 1), 0));
	rx_ring_add_consumer(&ring, &waiting);
	punch(&waiting);
	cr_expect(eq(u32, rx_ring_wake(&ring), 0));
	cr_expect(eq(ptr, rx_ring_next_evicted(&ring), NULL), "nothing came: nobody looked");
	run_blocks(&ring, 1);
	cr_expect(eq(u32, rx_ring_wake(&ring), 0));
	cr_expect(eq(ptr, rx_ring_next_evicted(&ring), &waiting));
	cr_expect(eq(u32, waiting.bad, IBVCAP_DISCONNECT_PAGE_LOST));
	rx_ring_add_consumer(&ring, &leasing);
	punch(&leasing);
	run_blocks(&ring, 10);
	cr_expect(eq(ptr, rx_ring_next_evicted(&ring), &leasing));
	cr_expect(eq(u32, leasing.bad, IBVCAP_DISCONNECT_PAGE_LOST));
	cr_expect(eq(u32, ring.n_consumers, 0));
	test_consumer_deinit(&waiting);
	test_consumer_deinit(&leasing);
	rx_ring_deinit(&ring);
}

Test(rx_ring, more_consumers_than_it_has_room_for_are_refused)
{
	struct rx_ring ring;
	struct ring_consumer consumer; /* stands for all of them, which would take two descriptors each */

	init_small(&ring);
	cr_assert(eq(int, test_consumer_init(&consumer, 1), 0));
	for (uint32_t i = 0; i <= RX_RING_CONSUMERS_MAX; i++)
		cr_expect(eq(int, rx_ring_add_consumer(&ring, &consumer), i < RX_RING_CONSUMERS_MAX ? 0 : -EAGAIN));
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
}

Test(rx_ring, impossible_geometry_is_refused_with_a_reason)
{
	struct rx_ring_options options = options_of_test();
	struct failure failure = {0};
	struct rx_ring ring;

	options.slots_per_block = 100;
	cr_expect(eq(int, rx_ring_init(&ring, &options, &failure), -EINVAL));
	cr_expect(strstr(failure.text, "slots_per_block 100") != NULL);
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	options = options_of_test();
	options.history_blocks = UINT32_MAX / N;
	cr_expect(eq(int, rx_ring_init(&ring, &options, &failure), -EINVAL));
}

Test(rx_ring, too_few_hugepages_say_how_many_and_which_key_to_lower)
{
	struct rx_ring_options options = options_of_test();
	struct failure failure = {0};
	struct rx_ring ring;

	options.page_bytes = 2u << 20;
	options.history_blocks = 60u << 20; /* more than any machine reserves: 480 GiB */
	options.history_blocks = options.history_blocks / N;
	options.slot_bytes = 65000;
	cr_expect(eq(int, rx_ring_init(&ring, &options, &failure), -ENOMEM));
	cr_expect(eq(int, failure.exit_code, EX_TEMPFAIL));
	cr_expect(strstr(failure.text, " hugepages of 2048 kB") && strstr(failure.text, ": lower history_blocks"), "%s",
	          failure.text);
	cr_expect(eq(ptr, strstr(failure.text, "echo "), NULL), "a command that would take all memory");
}
