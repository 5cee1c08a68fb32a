// SPDX-License-Identifier: Apache-2.0
#include "daemon/ring/pins.h"

#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- publishing ---------------------------------------------------------------------------------- */

static void span_at(const struct rx_ring *ring, uint64_t sequence, struct rx_span *span)
{
	uint64_t number = sequence / ring->slots_per_block;
	uint32_t row = (uint32_t)(sequence % ring->slots_per_block);
	uint32_t physical = ring->physical[number & ring->table_mask];

	span->sequence = sequence;
	span->slot = physical * ring->slots_per_block + row;
	span->payload =
		(uint8_t *)ring->payload.address + physical * ring->block_bytes + (size_t)row * ring->slot_bytes;
	span->headers = (uint8_t *)ring->headers.address + (size_t)span->slot * ring->header_stride;
	span->meta = ring->meta + span->slot;
}

void rx_ring_head_span(const struct rx_ring *ring, struct rx_span *span)
{
	uint64_t rows_with_device = ring->posted - ring->head;

	span_at(ring, ring->head, span);
	span->n = min_u32(ring->slots_per_block - (uint32_t)(ring->head % ring->slots_per_block),
	                  rows_with_device > UINT32_MAX ? UINT32_MAX : (uint32_t)rows_with_device);
}

static struct ibvcap_block *record_at(const struct rx_ring *ring, uint64_t sequence)
{
	return &ring->blocks[ring->physical[sequence / ring->slots_per_block & ring->table_mask]];
}

void rx_ring_note_losses(struct rx_ring *ring, uint64_t no_buffer, uint64_t at_ns)
{
	ring->no_buffer = no_buffer;
	ring->no_buffer_ns = at_ns;
	if (ring->head % ring->slots_per_block)
		daemon_update_block(record_at(ring, ring->head), no_buffer, at_ns);
}

void rx_ring_publish(struct rx_ring *ring, uint32_t n)
{
	if (ring->head % ring->slots_per_block == 0 && n)
		daemon_open_block(record_at(ring, ring->head), ring->no_buffer, ring->no_buffer_ns);
	ring->head += n;
	daemon_publish_head(ring->ring, ring->head);
}

/* ---- recycling: see the handshake in lib/ibvcap/ring.h ------------------------------------------- */

void rx_ring_put_out(struct rx_ring *ring, struct ring_consumer *consumer, enum ibvcap_disconnect reason)
{
	if (consumer->bad)
		return;
	consumer->bad = reason;
	ring->n_bad++;
}

/* Held blocks are in the order of their numbers, in which they were retired. NULL: not one of them. */
static struct rx_ring_held *find_held(const struct rx_ring *ring, uint64_t number)
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
 * Step 2: one look at every slot of every consumer, from which all held blocks are decided anew. A slot
 * naming a block that never had memory is a lie: the consumer is reported once.
 */
static void mark_leased(struct rx_ring *ring)
{
	for (uint32_t i = 0; i < ring->n_held; i++)
		ring->held[i].leased = false;
	for (uint32_t i = 0; i < ring->n_consumers; i++) {
		struct ring_consumer *consumer = ring->consumers[i];

		if (!daemon_is_page_whole(consumer->page))
			rx_ring_put_out(ring, consumer, IBVCAP_DISCONNECT_PAGE_LOST);
		for (uint32_t slot = 0; slot < consumer->lease_blocks; slot++) {
			uint64_t lease = daemon_load_lease(consumer->page, slot);
			struct rx_ring_held *held;

			if (lease > ring->next_block)
				rx_ring_put_out(ring, consumer, IBVCAP_DISCONNECT_BAD_CURSOR);
			if (lease == 0 || lease > ring->floor) /* free, or a block that is not due for reuse */
				continue;
			held = find_held(ring, lease - 1);
			if (held)
				held->leased = true;
		}
	}
}

static void release_unleased(struct rx_ring *ring)
{
	uint32_t kept = 0;

	mark_leased(ring);
	for (uint32_t i = 0; i < ring->n_held; i++) {
		if (ring->held[i].leased)
			ring->held[kept++] = ring->held[i];
		else
			ring->free_blocks[ring->n_free++] = ring->held[i].physical;
	}
	ring->n_held = kept;
}

/* ---- the high-water mark -------------------------------------------------------------------------- */

/* Rows that it has not acquired, of all that were published for it; at most all of them, whatever its page says. */
static uint64_t count_behind(const struct ring_consumer *consumer, uint64_t head)
{
	uint64_t behind = head - consumer->attach_sequence;
	uint64_t delivered = daemon_load_delivered(consumer->page);
	uint64_t skipped = daemon_load_skipped(consumer->page);

	behind -= delivered < behind ? delivered : behind;
	return behind - (skipped < behind ? skipped : behind);
}

/* Once a block. What was recycled before a reader came to it fills the ring no longer. */
static void note_fill(struct rx_ring *ring)
{
	uint64_t readable = ring->head - ring->floor * ring->slots_per_block;
	uint64_t most = counter_get(&ring->ring->counters[IBVCAP_RX_COUNTER_FILL_MAX]);

	for (uint32_t i = 0; i < ring->n_consumers && readable > most; i++) {
		uint64_t behind = count_behind(ring->consumers[i], ring->head);

		behind = behind < readable ? behind : readable;
		if (behind > most)
			most = behind;
	}
	counter_set(&ring->ring->counters[IBVCAP_RX_COUNTER_FILL_MAX], most);
}

/* ---- memory for the next block ------------------------------------------------------------------- */

/* Take the oldest block number out of the window. Its memory is free unless somebody leases it. */
static void retire_oldest(struct rx_ring *ring)
{
	uint64_t number = ring->floor++;

	daemon_store_floor(ring->ring, ring->floor);
	ring->held[ring->n_held++] =
		(struct rx_ring_held){.number = number, .physical = ring->physical[number & ring->table_mask]};
	release_unleased(ring);
	if (ring->n_held && ring->held[ring->n_held - 1].number == number)
		counter_add(&ring->ring->counters[IBVCAP_RX_COUNTER_SPARES_USED], 1);
}

/*
 * Memory for the next block number; none while the oldest is pinned. Else there is always some: blocks = live_blocks_max
 * + spares, the window is below live_blocks_max after retiring, and no more than spares can be leased (quotas are
 * granted from that pool). Should that ever be wrong the queue starves, which is counted, and no data is torn.
 */
static bool open_block(struct rx_ring *ring)
{
	bool full = ring->next_block - ring->floor == ring->live_blocks_max;

	note_fill(ring);
	ring->pinned = full && pins_hold(ring, ring->floor);
	if (ring->pinned)
		return false;
	if (full)
		retire_oldest(ring);
	else if (ring->n_free == 0)
		release_unleased(ring);
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
	if (ring->posted / ring->slots_per_block == ring->next_block && !open_block(ring))
		return;
	span_at(ring, ring->posted, span);
	span->n = min_u32(max, ring->slots_per_block - (uint32_t)(ring->posted % ring->slots_per_block));
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

int rx_ring_add_consumer(struct rx_ring *ring, struct ring_consumer *consumer)
{
	const struct rx_start_view view = {
		.table = ring_table(ring->ring),
		.table_mask = ring->table_mask,
		.meta = ring->meta,
		.n_blocks = ring->n_blocks,
		.slots_per_block = ring->slots_per_block,
		.floor = ring->floor,
		.head = ring->head,
	};

	if (ring->n_consumers == RX_RING_CONSUMERS_MAX)
		return -EAGAIN;
	consumer->attach_sequence = rx_start_find(&view, &consumer->start);
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
		pins_end(ring, consumer);
		return;
	}
}

struct ring_consumer *rx_ring_take_bad(struct rx_ring *ring)
{
	for (uint32_t i = 0; ring->n_bad && i < ring->n_consumers; i++) {
		struct ring_consumer *consumer = ring->consumers[i];

		if (!consumer->bad)
			continue;
		rx_ring_remove_consumer(ring, consumer);
		ring->n_bad--;
		return consumer;
	}
	ring->n_bad = 0; /* some may have left meanwhile */
	return NULL;
}

/* ---- wake-up ------------------------------------------------------------------------------------- */

/*
 * Of a client that puts thousands of threads to sleep on its word, one wakes: it pays for the others itself. But it can
 * also fill the kernel's hash bucket of that word with sleepers on others (futex_waitv), all of which are walked.
 */
void rx_ring_wake_consumer(struct ibvcap_consumer_state *state)
{
	daemon_bump_wake_word(state);
	syscall(SYS_futex, &state->wake_word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void ring_doorbell(const struct rx_ring *ring)
{
	eventfd_write(ring->doorbell, 1);
}

static bool is_due(struct rx_ring *ring, struct ring_consumer *consumer)
{
	uint64_t wake_at = daemon_load_wake_request(consumer->page);

	/* Where a hole was punched there are zeroes. */
	if (wake_at == 0 && !daemon_is_page_whole(consumer->page))
		rx_ring_put_out(ring, consumer, IBVCAP_DISCONNECT_PAGE_LOST);
	/* Once a request: a sleeper takes a while to withdraw it, and no later one is for less. */
	if (wake_at > ring->head || wake_at <= consumer->woken_at || consumer->bad)
		return false;
	consumer->woken_at = wake_at;
	return true;
}

uint32_t rx_ring_wake(struct rx_ring *ring)
{
	bool due = false;

	/* Who asks for what is there already sees that himself: see ring.h. */
	if (ring->n_consumers == 0 || ring->woken_head == ring->head)
		return 0;
	ring->woken_head = ring->head;
	daemon_fence_head(ring->ring, ring->head);
	for (uint32_t i = 0; i < ring->n_consumers; i++)
		due |= is_due(ring, ring->consumers[i]);
	if (due)
		ring_doorbell(ring);
	return due;
}

void rx_ring_close(struct rx_ring *ring)
{
	daemon_close_ring(ring->ring);
	ring_doorbell(ring);
}
