// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/submitter.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATTERN UINT64_C(0x9e3779b97f4a7c15)

/* Of each payload; the rest is words that follow from it. */
struct stamp {
	uint32_t id;
	uint32_t bytes;
	uint64_t sequence;
};

static uint32_t random_below(struct submitter *submitter, uint32_t n)
{
	return (uint32_t)rand_r(&submitter->seed) % n;
}

static uint64_t word(const struct stamp *stamp, uint32_t i)
{
	return (stamp->sequence * 31 + i) * PATTERN + stamp->id;
}

void submitter_init(struct submitter *submitter, uint32_t id, _Atomic bool *end)
{
	struct sender *sender = &submitter->sender.sender;

	submitter->id = id;
	submitter->end = end;
	submitter->seed = id + 1;
	submitter->tx = (struct ibvcap_tx){
		.waiter = {.ops = &tx_waiter_ops,
	                   .link = &sender->state->link,
	                   .wake = &sender->page->wake,
	                   .control = -1, /* poll() passes over it: a daemon that is there */
	                   .socket = submitter->sender.socket},
		.kick = sender->kick.eventfd,
		.arena = {.address = sender->arena.address, .fd = -1},
		.state = sender->state,
		.page = sender->page,
		.info = {.n_slots = sender->n_slots, .slot_bytes = sender->slot_bytes, .n_destinations = 1},
		.descriptors = (struct ibvcap_tx_descriptor *)(void *)(sender->page + 1),
		.statuses = sender->statuses,
	};
}

/* ---- submitting ----------------------------------------------------------------------------------- */

static void write_row(struct submitter *submitter, uint8_t *row, struct ibvcap_tx_descriptor *packet, uint64_t sequence)
{
	const struct stamp stamp = {
		submitter->id,
		sizeof(stamp) + 8 * random_below(submitter, (SUBMITTER_BYTES - sizeof(stamp)) / 8 + 1),
		sequence,
	};

	memcpy(row, &stamp, sizeof(stamp));
	for (uint32_t at = sizeof(stamp); at < stamp.bytes; at += 8)
		memcpy(row + at, &(uint64_t){word(&stamp, at)}, 8);
	packet->length = (uint16_t)stamp.bytes;
	if (random_below(submitter, 100) == 0) {
		packet->destination = 1;
		submitter->bad++;
	}
}

static void require(bool condition, const char *what, int r)
{
	if (condition)
		return;
	fprintf(stderr, "send_stress: %s: %s\n", what, strerror(-r));
	abort();
}

static void ask_results(struct submitter *submitter)
{
	int32_t statuses[16];
	uint64_t sequence;
	int n;

	while ((n = ibvcap_tx_results(&submitter->tx, statuses, 16, &sequence)) > 0) {
		submitter->passed_over = sequence - submitter->results;
		submitter->results += (uint64_t)n;
		for (int i = 0; i < n; i++)
			submitter->results_errored += statuses[i] == -EINVAL;
	}
}

/* A kick or a wake-up that is lost shows here: nobody else would tell the worker, or us. */
static void flush(struct submitter *submitter)
{
	int timeout_ms = random_below(submitter, 2) ? 30000 : 0;
	struct pollfd poller = {.fd = ibvcap_tx_fd(&submitter->tx), .events = POLLIN};
	int r;

	while ((r = ibvcap_tx_flush(&submitter->tx, timeout_ms)) == -ETIMEDOUT && timeout_ms == 0)
		require(poll(&poller, 1, 30000) > 0, "poll", -ETIMEDOUT);
	require(r == 0, "flush", r);
}

void submitter_run(struct submitter *submitter)
{
	const struct timespec nap = {.tv_nsec = 100000};
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);
	int r;

	while (!atomic_load_explicit(submitter->end, memory_order_relaxed)) {
		uint32_t max = 1 + random_below(submitter, 40);

		r = ibvcap_tx_reserve(&submitter->tx, &slots, max, random_below(submitter, 20), 100);
		require(r >= 0 || r == -EINTR, "reserve", r);
		if (r <= 0)
			continue;
		uint32_t n = 1 + random_below(submitter, slots.n);

		for (uint32_t i = 0; i < n; i++)
			write_row(submitter, slots.payload + (size_t)i * slots.stride, &slots.packets[i],
			          slots.sequence + i);
		r = ibvcap_tx_submit(&submitter->tx, n);
		require(r == 0, "submit", r);
		if (random_below(submitter, 8) == 0)
			ask_results(submitter);
		if (random_below(submitter, 50) == 0)
			nanosleep(&nap, NULL);
		if (random_below(submitter, 4) == 0)
			flush(submitter);
	}
	flush(submitter);
	ask_results(submitter);
}

/* ---- the wire's, and the verdict ------------------------------------------------------------------ */

static bool is_whole(const struct stamp *stamp, const uint8_t *payload)
{
	for (uint32_t at = sizeof(*stamp); at < stamp->bytes; at += 8) {
		const uint64_t wanted = word(stamp, at);

		if (memcmp(payload + at, &wanted, sizeof(wanted)) != 0)
			return false;
	}
	return true;
}

bool submitter_check(struct submitter *submitters, uint32_t n, const uint8_t *payload, uint32_t bytes)
{
	struct stamp stamp;

	if (bytes < sizeof(stamp))
		return false;
	memcpy(&stamp, payload, sizeof(stamp));
	if (stamp.id >= n || stamp.bytes != bytes)
		return false;
	submitters[stamp.id].frames++;
	if (!is_whole(&stamp, payload) || stamp.sequence < submitters[stamp.id].next)
		submitters[stamp.id].wrong++;
	submitters[stamp.id].next = stamp.sequence + 1;
	return true;
}

bool submitter_is_good(const struct submitter *submitter, bool queue_fails, bool sees_wire)
{
	struct ibvcap_tx_counts counts = IBVCAP_INIT(struct ibvcap_tx_counts);
	bool good;

	ibvcap_tx_counts(&submitter->tx, &counts);
	printf("sender %u: submitted %llu = completed %llu + errored %llu + flushed %llu + pending %llu; frames %llu, "
	       "wrong %llu\n",
	       submitter->id, (unsigned long long)counts.submitted, (unsigned long long)counts.completed,
	       (unsigned long long)counts.errored, (unsigned long long)counts.flushed,
	       (unsigned long long)counts.pending, (unsigned long long)submitter->frames,
	       (unsigned long long)submitter->wrong);
	good = counts.pending == 0 && submitter->wrong == 0;
	good &= submitter->results + submitter->passed_over == counts.submitted;
	good &= submitter->results_errored <= submitter->bad;
	if (sees_wire) /* what failed with the queue may have been on the wire before */
		good &= submitter->frames >= counts.completed && submitter->frames <= counts.completed + counts.flushed;
	if (!queue_fails)
		good &= counts.errored == submitter->bad && counts.flushed == 0;
	return good;
}
