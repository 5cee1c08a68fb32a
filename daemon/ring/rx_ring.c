// SPDX-License-Identifier: Apache-2.0
/*
 * Publishing rows, recycling blocks, and the consumers of a receive ring: the worker's part of it. A block is recycled
 * only when no consumer has a lease on it; lib/ibvcap/ring.h describes the handshake with consumers.
 */
#include "daemon/base/probes.h"
#include "daemon/ring/backpressure.h"

#include "lib/base/min.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- publishing ---------------------------------------------------------------------------------- */

static void rx_ring_span_at(const struct rx_ring *ring, uint64_t sequence, struct rx_span *span)
{
	uint64_t number = sequence / ring->slots_per_block;
	uint32_t row = (uint32_t)(sequence % ring->slots_per_block);
	uint32_t physical = ring->physical[number & ring->table_mask];

	span->sequence = sequence;
	span->slot = physical * ring->slots_per_block + row;
	span->payload =
		(uint8_t *)ring->payload.address + physical * ring->block_bytes + (size_t)row * ring->row_stride;
	span->headers = (uint8_t *)ring->headers.address + (size_t)span->slot * ring->header_stride;
	span->meta = ring->meta + span->slot;
}

void rx_ring_head_span(const struct rx_ring *ring, struct rx_span *span)
{
	uint64_t rows_with_device = ring->posted - ring->head;

	rx_ring_span_at(ring, ring->head, span);
	span->n = u32_min(ring->slots_per_block - (uint32_t)(ring->head % ring->slots_per_block),
	                  rows_with_device > UINT32_MAX ? UINT32_MAX : (uint32_t)rows_with_device);
}

void rx_ring_publish(struct rx_ring *ring, uint32_t n)
{
	ring->head += n;
	daemon_publish_head(ring->ring, ring->head);
}

/* ---- recycling: see the handshake in lib/ibvcap/ring.h ------------------------------------------- */

/* The held blocks are in the order of their numbers, because they were retired in that order. NULL: not held. */
static struct rx_ring_held *rx_ring_find_held(const struct rx_ring *ring, uint64_t number)
{
	uint32_t low = 0, high = ring->n_held;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ring->held[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ring->n_held && ring->held[low].number == number ? &ring->held[low] : NULL;
}

/*
 * Step 2 of the handshake: read every lease slot of every consumer once, and decide from that which held blocks are
 * leased. A slot that names a block which never had memory breaks the rules.
 */
static void rx_ring_mark_leased(struct rx_ring *ring)
{
	for (uint32_t i = 0; i < ring->n_held; i++)
		ring->held[i].leased = false;
	for (uint32_t i = 0; i < ring->n_consumers; i++) {
		struct ring_consumer *consumer = ring->consumers[i];

		if (!daemon_is_page_whole(consumer->page))
			rx_ring_evict(ring, consumer, IBVCAP_DISCONNECT_PAGE_LOST);
		for (uint32_t slot = 0; slot < consumer->lease_blocks; slot++) {
			uint64_t lease = daemon_load_lease(consumer->page, slot);
			struct rx_ring_held *held;

			if (lease > ring->next_block)
				rx_ring_evict(ring, consumer, IBVCAP_DISCONNECT_BAD_CURSOR);
			if (lease == 0 || lease > ring->floor) /* no lease, or one on a block not due for reuse */
				continue;
			held = rx_ring_find_held(ring, lease - 1);
			if (held)
				held->leased = true;
		}
	}
}

static void rx_ring_release_unleased(struct rx_ring *ring)
{
	uint32_t kept = 0;

	rx_ring_mark_leased(ring);
	for (uint32_t i = 0; i < ring->n_held; i++) {
		if (ring->held[i].leased)
			ring->held[kept++] = ring->held[i];
		else
			ring->free_blocks[ring->n_free++] = ring->held[i].physical;
	}
	ring->n_held = kept;
}

/* ---- the high-water mark of the backlog ----------------------------------------------------------- */

/* Published rows that the consumer has neither acquired nor skipped. Never more than all, whatever its page says. */
static uint64_t consumer_backlog(const struct ring_consumer *consumer, uint64_t head)
{
	uint64_t behind = head - consumer->attach_sequence;
	uint64_t delivered = daemon_load_delivered(consumer->page);
	uint64_t skipped = daemon_load_skipped(consumer->page);

	behind -= delivered < behind ? delivered : behind;
	return behind - (skipped < behind ? skipped : behind);
}

/* Called once for each block. Recycled blocks fill the ring no longer, even if a consumer never read them. */
static void rx_ring_note_fill(struct rx_ring *ring)
{
	uint64_t readable = ring->head - ring->floor * ring->slots_per_block;
	uint64_t most = counter_get(&ring->ring->counters[IBVCAP_RX_COUNTER_FILL_MAX]);

	for (uint32_t i = 0; i < ring->n_consumers && readable > most; i++) {
		uint64_t behind = consumer_backlog(ring->consumers[i], ring->head);

		behind = behind < readable ? behind : readable;
		if (behind > most)
			most = behind;
	}
	counter_set(&ring->ring->counters[IBVCAP_RX_COUNTER_FILL_MAX], most);
}

/* ---- memory for the next block ------------------------------------------------------------------- */

/* Take the oldest block number out of the window. Its memory becomes free unless a consumer has a lease on it. */
static void rx_ring_retire_oldest(struct rx_ring *ring)
{
	uint64_t number = ring->floor++;

	daemon_store_floor(ring->ring, ring->floor);
	ring->held[ring->n_held++] =
		(struct rx_ring_held){.number = number, .physical = ring->physical[number & ring->table_mask]};
	rx_ring_release_unleased(ring);
	if (ring->n_held && ring->held[ring->n_held - 1].number == number) {
		counter_add(&ring->ring->counters[IBVCAP_RX_COUNTER_SPARES_USED], 1);
		PROBE_LEASE_ASIDE(ring->ring->stream, number, ring->n_held);
	}
}

/*
 * Get memory for the next block number. There is none while a lossless consumer stalls the queue. Otherwise there
 * always is: n_blocks is live_blocks_max plus the spares, the window is shorter than live_blocks_max after the oldest
 * block was retired, and consumers lease no more blocks than there are spares, because lease quotas are granted from
 * that pool. If this were wrong, the queue would run out of slots, which is counted, and no published row would be
 * overwritten.
 */
static bool rx_ring_open_block(struct rx_ring *ring)
{
	bool full = ring->next_block - ring->floor == ring->live_blocks_max;

	rx_ring_note_fill(ring);
	ring->stalled = full && backpressure_holds(ring, ring->floor);
	if (ring->stalled)
		return false;
	if (full)
		rx_ring_retire_oldest(ring);
	else if (ring->n_free == 0)
		rx_ring_release_unleased(ring);
	if (ring->n_free == 0)
		return false;
	uint32_t physical = ring->free_blocks[--ring->n_free];

	ring->physical[ring->next_block & ring->table_mask] = physical;
	daemon_store_table(ring->ring, ring->next_block, physical);
	ring->next_block++;
	return true;
}

void rx_ring_post_span(struct rx_ring *ring, uint32_t max, struct rx_span *span)
{
	span->n = 0;
	if (ring->posted / ring->slots_per_block == ring->next_block && !rx_ring_open_block(ring))
		return;
	rx_ring_span_at(ring, ring->posted, span);
	span->n = u32_min(max, ring->slots_per_block - (uint32_t)(ring->posted % ring->slots_per_block));
	ring->posted += span->n;
}

void rx_ring_unpost(struct rx_ring *ring, uint32_t n)
{
	ring->posted -= n;
}

void rx_ring_rewind(struct rx_ring *ring)
{
	ring->posted = ring->head;
}

/* ---- consumers ----------------------------------------------------------------------------------- */

uint64_t rx_ring_find_start(const struct rx_ring *ring, const struct rx_start_position *start)
{
	const struct rx_start_view view = {
		.table = ring_table(ring->ring),
		.table_mask = ring->table_mask,
		.meta = ring->meta,
		.n_blocks = ring->n_blocks,
		.slots_per_block = ring->slots_per_block,
		.floor = consumer_load_floor(ring->ring),
		.head = consumer_load_head(ring->ring),
	};

	return rx_start_find(&view, start);
}

int rx_ring_add_consumer(struct rx_ring *ring, struct ring_consumer *consumer)
{
	if (ring->n_consumers == RX_RING_CONSUMERS_MAX)
		return -EAGAIN;
	consumer->attach_sequence = rx_ring_find_start(ring, &consumer->start);
	consumer->state->attach_sequence = consumer->attach_sequence;
	consumer->state->attach_head = ring->head;
	consumer->cursor = consumer->attach_sequence;
	segment_set_ready(&consumer->page->segment);
	segment_set_ready(&consumer->state->segment);
	ring->consumers[ring->n_consumers++] = consumer;
	return 0;
}

void rx_ring_remove_consumer(struct rx_ring *ring, struct ring_consumer *consumer)
{
	for (uint32_t i = 0; i < ring->n_consumers; i++) {
		if (ring->consumers[i] != consumer)
			continue;
		ring->consumers[i] = ring->consumers[--ring->n_consumers];
		backpressure_release(ring, consumer);
		return;
	}
}

struct ring_consumer *rx_ring_next_evicted(struct rx_ring *ring)
{
	for (uint32_t i = 0; ring->n_bad && i < ring->n_consumers; i++) {
		struct ring_consumer *consumer = ring->consumers[i];

		if (!consumer->bad)
			continue;
		rx_ring_remove_consumer(ring, consumer);
		ring->n_bad--;
		return consumer;
	}
	ring->n_bad = 0; /* some of the consumers counted may have left */
	return NULL;
}

/* ---- wake-up ------------------------------------------------------------------------------------- */

/*
 * A wake-up must not wait for the client. It goes to a socket and not to a pipe: a client whose read() faults on a page
 * that nobody provides (userfaultfd, FUSE) would hold the pipe's lock meanwhile, and stop the writer. A full socket is
 * readable as it is; when the reader has gone, control learns that from the control socket.
 *
 * If a client puts thousands of threads to sleep on its word, this wakes one of them; the client pays for waking the
 * others. But a client can also fill the kernel's hash bucket of that word with sleepers on other words (futex_waitv),
 * and the kernel walks all of them: so the time that the call takes has no small bound.
 */
void client_wake(struct ibvcap_client_link *link, const struct ibvcap_wake_request *wake, int socket)
{
	if (daemon_load_wake_socket(wake)) {
		(void)send(socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		return;
	}
	daemon_bump_wake_word(link);
	syscall(SYS_futex, &link->wake_word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static bool consumer_wants_wake(struct rx_ring *ring, struct ring_consumer *consumer)
{
	uint64_t wake_at = daemon_load_wake_request(&consumer->page->wake);

	/* A page in which the client punched a hole reads as zeroes. */
	if (wake_at == 0 && !daemon_is_page_whole(consumer->page))
		rx_ring_evict(ring, consumer, IBVCAP_DISCONNECT_PAGE_LOST);
	/* Each request is served once: a sleeper withdraws it late, and later requests are for higher heads. */
	if (wake_at > ring->head || wake_at <= consumer->woken_at || consumer->bad)
		return false;
	consumer->woken_at = wake_at;
	return true;
}

uint32_t rx_ring_wake(struct rx_ring *ring)
{
	bool due = false;

	/* A consumer that asks for a head already published sees that itself: see lib/ibvcap/ring.h. */
	if (ring->n_consumers == 0 || ring->woken_head == ring->head)
		return 0;
	ring->woken_head = ring->head;
	daemon_fence_head(ring->ring, ring->head);
	for (uint32_t i = 0; i < ring->n_consumers; i++)
		due |= consumer_wants_wake(ring, ring->consumers[i]);
	if (due)
		eventfd_write(ring->doorbell, 1);
	return due;
}

void rx_ring_close(const struct rx_ring *ring, enum ibvcap_ring_end end)
{
	daemon_close_ring(ring->ring, end);
	eventfd_write(ring->doorbell, 1);
}
