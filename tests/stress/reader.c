// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/reader.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX 3u /* batches; two of one block share a lease */
#define WORDS    (ROW_BYTES / 8)

static bool is_over(const struct reader *reader)
{
	return atomic_load_explicit(reader->end, memory_order_relaxed);
}

static void check_rows(struct reader *reader, const struct ibvcap_rx_batch *batch)
{
	for (uint32_t i = 0; i < batch->n; i++) {
		reader->torn += batch->meta[i].length != ROW_BYTES;
		for (uint32_t word = 0; word < WORDS; word++) {
			uint64_t value;

			memcpy(&value, ibvcap_rx_payload(batch, i) + word * 8, 8);
			reader->torn += value != (batch->sequence + i) * ROW_FACTOR + word;
		}
	}
}

static void dawdle(struct reader *reader)
{
	if (rand_r(&reader->seed) % 8 == 0)
		for (int i = rand_r(&reader->seed) % 50; i > 0; i--)
			sched_yield();
}

static void account(struct reader *reader, const struct ibvcap_rx_batch *batch)
{
	reader->torn += batch->sequence != reader->expected + batch->gap;
	reader->expected = batch->sequence + batch->n;
	reader->delivered += batch->n;
	reader->gaps += batch->gap;
}

/* In any order, each checked as late as can be. */
static void give_back(struct reader *reader, struct ibvcap_rx_batch *held, uint32_t *n_held)
{
	while (*n_held > 0) {
		uint32_t which = (uint32_t)rand_r(&reader->seed) % *n_held;

		check_rows(reader, &held[which]);
		if (ibvcap_rx_release(&reader->handle.rx, &held[which]) < 0)
			abort();
		held[which] = held[--*n_held];
	}
}

/* Whole blocks, from the first packet on. */
static uint32_t take_to_keep(struct reader *reader, struct ibvcap_rx_batch *kept)
{
	uint32_t n_kept = 0;

	while (n_kept < reader->keeps && !is_over(reader)) {
		int r;

		kept[n_kept].size = sizeof(*kept);
		r = ibvcap_rx_acquire(&reader->handle.rx, &kept[n_kept], UINT32_MAX, UINT32_MAX, 10);
		if (r < 0)
			abort();
		if (r > 0)
			account(reader, &kept[n_kept++]);
	}
	return n_kept;
}

static void run_leasing(struct reader *reader)
{
	struct ibvcap_rx_batch kept[IBVCAP_LEASE_SLOTS_MAX];
	struct ibvcap_rx_batch held[HELD_MAX];
	uint32_t n_kept = take_to_keep(reader, kept);
	uint32_t n_held = 0;

	while (!is_over(reader)) {
		uint32_t max = 1 + (uint32_t)rand_r(&reader->seed) % 64;
		int r;

		held[n_held].size = sizeof(*held);
		r = ibvcap_rx_acquire(&reader->handle.rx, &held[n_held], max, 1 + max / 4, rand_r(&reader->seed) % 3);
		if (r < 0 && r != -ENOBUFS)
			abort();
		if (r > 0)
			account(reader, &held[n_held++]);
		if (reader->policy == IBVCAP_POLICY_LOSSY)
			dawdle(reader);
		if (n_held == HELD_MAX || r == -ENOBUFS || rand_r(&reader->seed) % 3 == 0)
			give_back(reader, held, &n_held);
	}
	give_back(reader, held, &n_held);
	give_back(reader, kept, &n_kept);
}

/* A copy has no number but that in its first word; each is of a later packet than the last. */
static void check_copy(struct reader *reader, const uint64_t *row, size_t length)
{
	uint64_t sequence = row[0] / ROW_FACTOR;

	reader->torn += length != ROW_BYTES || sequence < reader->expected;
	for (uint32_t word = 0; word < WORDS; word++)
		reader->torn += row[word] != sequence * ROW_FACTOR + word;
	reader->expected = sequence + 1;
	reader->delivered++;
}

static void run_tapping(struct reader *reader)
{
	uint64_t row[WORDS];
	size_t length;

	while (!is_over(reader)) {
		int r = ibvcap_rx_recv(&reader->handle.rx, row, sizeof(row), &length, NULL, rand_r(&reader->seed) % 3);

		if (r < 0)
			abort();
		if (r > 0)
			check_copy(reader, row, length);
	}
}

void reader_run(struct reader *reader)
{
	reader->expected = reader->handle.queue.next;
	if (reader->policy == IBVCAP_POLICY_TAP)
		run_tapping(reader);
	else
		run_leasing(reader);
}

bool reader_is_good(const struct reader *reader)
{
	static const char *const names[] = {"lossy", "lossless", "tap"};
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	bool good;

	ibvcap_rx_counts(&reader->handle.rx, &counts);
	printf("%-8s: published %llu = delivered %llu + skipped %llu + lag %llu, torn %llu\n", names[reader->policy],
	       (unsigned long long)counts.published, (unsigned long long)reader->delivered,
	       (unsigned long long)counts.skipped, (unsigned long long)counts.lag, (unsigned long long)reader->torn);
	good = reader->torn == 0 && reader->delivered > 0 && counts.delivered == reader->delivered;
	good &= counts.published == counts.delivered + counts.skipped + counts.lag;
	if (reader->policy != IBVCAP_POLICY_TAP) /* it has no batches to tell it in */
		good &= counts.skipped == reader->gaps;
	if (reader->policy == IBVCAP_POLICY_LOSSLESS)
		good &= counts.skipped == 0;
	return good;
}
