// SPDX-License-Identifier: Apache-2.0
/*
 * What hostile consumers may write into their pages, one lossy and one lossless, while the ring goes round and an
 * honest consumer holds leases. Input: steps of one byte, some with more behind it. Whatever they write, the rows under
 * the honest one's lease stay as they are, and the queue never starves but for a lossless consumer within its deadline.
 */
#include "daemon/ring/rx_ring.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/consumers.h"
#include "tests/fuzz/require.h"
#include "tests/support/small_ring.h"

#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N          64u
#define QUEUE      64u
#define QUOTA      2u
#define PAGE_WORDS (4096 / sizeof(uint64_t))

enum { HONEST, LOSSY, LOSSLESS, CONSUMERS };

struct scene {
	struct rx_ring ring;
	struct ring_consumer consumers[CONSUMERS];
	bool out[CONSUMERS]; /* put out */
	uint64_t now_ns;
	bool leases; /* the honest one holds a block: */
	uint64_t block;
	uint32_t physical;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void set_up(struct scene *s)
{
	struct rx_ring_options options = small_ring();

	options.slot_bytes = 8;
	options.slots_per_block = N;
	options.history_blocks = 3;
	options.posted_slots = QUEUE;
	options.spare_blocks = CONSUMERS * QUOTA;
	options.lease_blocks_max = QUOTA;
	*s = (struct scene){.now_ns = 1};
	require(rx_ring_init(&s->ring, &options, NULL) == 0, "a ring");
	for (int i = 0; i < CONSUMERS; i++) {
		require(test_consumer_init(&s->consumers[i], QUOTA) == 0, "a consumer");
		s->consumers[i].policy = i == LOSSLESS ? IBVCAP_POLICY_LOSSLESS : IBVCAP_POLICY_LOSSY;
		s->consumers[i].deadline_ns = 1000;
		require(rx_ring_add_consumer(&s->ring, &s->consumers[i]) == 0, "a place");
	}
}

static void take_down(struct scene *s)
{
	for (int i = 0; i < CONSUMERS; i++)
		test_consumer_deinit(&s->consumers[i]);
	rx_ring_deinit(&s->ring);
}

static uint64_t *row(const struct scene *s, uint32_t physical, uint32_t i)
{
	return (uint64_t *)((uint8_t *)s->ring.payload.address + physical * s->ring.block_bytes) + i;
}

static void put_out_who_lies(struct scene *s)
{
	struct ring_consumer *bad;

	while ((bad = rx_ring_next_evicted(&s->ring)) != NULL) {
		require(bad != &s->consumers[HONEST], "an honest consumer is not put out");
		s->out[bad - s->consumers] = true;
	}
	while (rx_ring_next_demoted(&s->ring))
		;
}

/* As the worker does: the queue is kept full; then so many rows arrive. */
static void arrive(struct scene *s, uint32_t n)
{
	struct rx_span span;

	do
		rx_ring_post_span(&s->ring, QUEUE - (uint32_t)(s->ring.posted - s->ring.head), &span);
	while (span.n > 0 && s->ring.posted - s->ring.head < QUEUE);
	put_out_who_lies(s);
	while (n > 0) {
		rx_ring_head_span(&s->ring, &span);
		if (span.n == 0)
			break;
		span.n = span.n < n ? span.n : n;
		for (uint32_t i = 0; i < span.n; i++)
			((uint64_t *)(void *)span.payload)[i] = span.sequence + i;
		rx_ring_publish(&s->ring, span.n);
		n -= span.n;
	}
	rx_ring_wake(&s->ring);
}

static void lease_or_release(struct scene *s)
{
	struct ibvcap_consumer_page *page = s->consumers[HONEST].page;

	if (s->leases) {
		consumer_clear_lease(page, 0);
		s->leases = false;
	} else if (s->ring.head >= N) {
		s->block = s->ring.head / N - 1;
		consumer_store_lease(page, 0, s->block);
		s->physical = consumer_load_table_at(ring_table(s->ring.ring), s->ring.table_mask, s->block);
		s->leases = consumer_load_floor(s->ring.ring) <= s->block;
		if (!s->leases)
			consumer_clear_lease(page, 0);
	}
}

static void check(const struct scene *s)
{
	require(s->ring.head <= s->ring.posted, "head is not past what was posted");
	require(s->ring.n_free + s->ring.n_held <= s->ring.n_blocks, "blocks are not more than there are");
	for (uint32_t i = 0; i < N && s->leases; i++)
		require(*row(s, s->physical, i) == s->block * N + i, "rows under lease stay as they are");
}

/* Long enough for any deadline: then nobody keeps the queue waiting. */
static void check_that_it_goes_on(struct scene *s)
{
	uint64_t head;

	for (int i = 0; i < 100; i++) {
		s->now_ns += 1000;
		rx_ring_charge_stalls(&s->ring, s->now_ns);
		put_out_who_lies(s);
		arrive(s, 8);
	}
	head = s->ring.head;
	arrive(s, QUEUE);
	require(s->ring.head > head, "the queue does not starve");
	check(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scene s;

	set_up(&s);
	while (size >= 2) {
		struct ring_consumer *hostile = &s.consumers[data[0] & 0x80 ? LOSSLESS : LOSSY];
		uint8_t step = data[0] % 8, argument = data[1];
		uint64_t value = 0;

		data += 2;
		size -= 2;
		if (step < 4) {
			size_t bytes = size < sizeof(value) ? size : sizeof(value);

			memcpy(&value, data, bytes);
			data += bytes;
			size -= bytes;
			/* Where something is: the first words. A lie relative to what is true now, else as it is. */
			((uint64_t *)(void *)hostile->page)[argument % (sizeof(*hostile->page) / 8)] =
				step < 2 ? value : s.ring.head / (step == 2 ? N : 1) + (value % 16) - 8;
		} else if (step == 4) {
			memset(hostile->page, 0, sizeof(*hostile->page));
		} else if (step == 5) {
			lease_or_release(&s);
		} else if (step == 6) {
			s.now_ns += argument;
			rx_ring_charge_stalls(&s.ring, s.now_ns);
		} else {
			arrive(&s, argument);
		}
		put_out_who_lies(&s);
		check(&s);
	}
	check_that_it_goes_on(&s);
	take_down(&s);
	return 0;
}
