// SPDX-License-Identifier: Apache-2.0
/*
 * Acquiring and releasing batches. A consumer protects the block of a batch by a lease, against the worker that reuses
 * blocks: see ring.h. A tap has no lease: it copies a row and then checks that the block was not reused meanwhile.
 */
#include "lib/ibvcap/rx.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/owner.h"
#include "lib/ibvcap/probes.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/sized_struct.h"

#include <errno.h>
#include <string.h>

/* ---- batches that the caller holds ----------------------------------------------------------------- */

/* The bit of a batch that begins at sequence, in lease slot. */
static uint64_t *rx_batch_start(struct ibvcap_rx *rx, uint32_t slot, uint64_t sequence, uint64_t *bit)
{
	uint64_t index = (uint64_t)slot * rx->info.slots_per_block + sequence % rx->info.slots_per_block;

	*bit = UINT64_C(1) << (index % 64);
	return &rx->batch_starts[index / 64];
}

/* The lease slot of the block, else a free slot; lease_blocks: there is neither. */
static uint32_t rx_find_lease(const struct ibvcap_rx *rx, uint64_t block)
{
	uint32_t unused = rx->lease_blocks;

	for (uint32_t i = 0; i < rx->lease_blocks; i++) {
		if (rx->leases[i].n_batches == 0)
			unused = u32_min(unused, i);
		else if (rx->leases[i].block == block)
			return i;
	}
	return unused;
}

/*
 * The consumer's part of the handshake in ring.h. A tap takes no lease: the block is safe at this moment. 1: the block
 * is safe; 0: it was recycled; -EPROTO.
 */
static int rx_lease_block(struct ibvcap_rx *rx, uint32_t slot, uint64_t block)
{
	uint32_t physical;
	bool is_recycled;

	if (!rx->is_tap)
		consumer_store_lease(rx->page, slot, block);
	physical = consumer_load_table_at(rx->table, rx->table_mask, block);
	is_recycled = consumer_load_floor(rx->ring) > block;
	if (is_recycled || physical >= rx->n_blocks) {
		if (!rx->is_tap)
			consumer_clear_lease(rx->page, slot);
		return is_recycled ? 0
		                   : error_set(-EPROTO, "stream '%s': its ring is damaged: it names block %u of %u",
		                               rx->info.stream, physical, rx->n_blocks);
	}
	rx->leases[slot].block = block;
	rx->leases[slot].physical = physical;
	return 1;
}

/* The block of the cursor was recycled: go on at the oldest block. Not past head, whatever floor says. */
static void rx_skip_to_floor(struct ibvcap_rx *rx)
{
	uint64_t floor = consumer_load_floor(rx->ring);
	uint64_t head = consumer_load_head(rx->ring);
	uint64_t to = floor > head / rx->info.slots_per_block ? head : floor * rx->info.slots_per_block;

	if (to <= rx->next)
		return;
	PROBE_SKIP(rx->info.stream, rx->next, to - rx->next);
	rx->skipped += to - rx->next;
	rx->gap += to - rx->next;
	rx->next = to;
	if (!rx->is_tap)
		consumer_store_skipped(rx->page, rx->skipped);
}

static void rx_hand_out(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t slot, uint32_t n)
{
	uint32_t row = (uint32_t)(rx->next % rx->info.slots_per_block);
	uint64_t physical = rx->leases[slot].physical;
	uint64_t first = physical * rx->info.slots_per_block + row;
	/* Built in place, since a copy would cost about 10 ns; a caller with an older, smaller struct gets a copy. */
	struct ibvcap_rx_batch ours, *to = batch->size >= sizeof(ours) ? batch : &ours;
	uint64_t bit, *word = rx_batch_start(rx, slot, rx->next, &bit);
	/* The policy is loaded after the floor, so the first gap that a demotion causes comes with its flag. */
	bool is_demoted = !rx->is_tap && consumer_load_policy(rx->state) != rx->policy_reported;

	*to = (struct ibvcap_rx_batch){
		.size = sizeof(*to),
		.payload = (const uint8_t *)rx->payload.address + physical * rx->block_bytes +
	                   (uint64_t)row * rx->info.row_stride,
		.headers = (const uint8_t *)rx->headers.address + first * rx->info.header_stride,
		.meta = rx->meta + first,
		.sequence = rx->next,
		.epoch = rx->info.epoch,
		.gap = rx->gap,
		.n = n,
		.stride = rx->info.row_stride,
		.header_stride = rx->info.header_stride,
		.header_bytes = rx->info.header_bytes,
		.application_header_bytes = rx->info.application_header_bytes,
		.lease = slot,
		.flags = rx->reattach.next_flags | (is_demoted ? IBVCAP_RX_BATCH_FLAG_DEMOTED : 0),
		.queue = rx->info.queue,
	};
	if (to == &ours)
		sized_struct_copy(batch, &ours, sizeof(ours));
	*word |= bit;
	rx->leases[slot].n_batches++;
	rx->gap = 0;
	rx->reattach.next_flags = 0;
	if (is_demoted)
		rx->policy_reported = IBVCAP_POLICY_LOSSY;
	rx->next += n;
	/* After the lease was stored: by this a lossless consumer stops keeping the block from reuse. */
	if (!rx->is_tap)
		consumer_store_delivered(rx->page, rx->next - rx->attach_sequence - rx->skipped);
}

static uint32_t rx_rest_of_block(const struct ibvcap_rx *rx)
{
	return rx->info.slots_per_block - (uint32_t)(rx->next % rx->info.slots_per_block);
}

/* At most max rows, if there are at least min. Rows handed out; 0: not that many are published; -errno. */
static int rx_take(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min)
{
	for (;;) {
		uint64_t block = rx->next / rx->info.slots_per_block;
		uint32_t slot = rx_find_lease(rx, block);
		uint64_t head = consumer_load_head(rx->ring);
		uint32_t most = u32_min(max, rx_rest_of_block(rx));
		uint64_t published = head > rx->next ? head - rx->next : 0;
		int r = 1;

		if (rx->next >= rx->waiting.head || ring_settled_version(&rx->ring->settled) != rx->settled_version)
			rx_settled_follow(rx);
		if (slot == rx->lease_blocks)
			return -ENOBUFS;
		if (published == 0 || published < u32_min(min, most))
			return 0;
		/* A block under lease is not recycled, also when floor has passed it. */
		if (rx->leases[slot].n_batches == 0)
			r = rx_lease_block(rx, slot, block);
		if (r < 0)
			return r;
		if (r == 0) {
			rx_skip_to_floor(rx);
			continue;
		}
		most = (uint32_t)u64_min(published, most);
		rx_hand_out(rx, batch, slot, most);
		return (int)most;
	}
}

/* ---- the calls ----------------------------------------------------------------------------------- */

uint32_t rx_least(const struct ibvcap_rx *rx, uint32_t max, uint32_t min)
{
	return u32_min(min ? min : 1, u32_min(max, rx_rest_of_block(rx)));
}

int rx_try(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min)
{
	int r;

	if (rx->reattach.away)
		return -ESHUTDOWN;
	r = rx_wait_check_connected(rx);
	if (r < 0)
		return r;
	rx_wait_disarm(rx);
	return rx_take(rx, batch, max, min);
}

/* -ESHUTDOWN: everything of this epoch was delivered. */
static int rx_acquire_in_epoch(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                               int timeout_ms)
{
	int waited, r = rx_try(rx, batch, max, min);

	if (r != 0)
		return r;
	waited = rx_wait(rx, rx->next + rx_least(rx, max, min), timeout_ms);
	if (waited < 0)
		return waited;
	r = rx_take(rx, batch, max, 1);
	if (r != 0)
		rx_wait_disarm(rx);
	return r == 0 && waited == WAIT_END ? -ESHUTDOWN : r;
}

int rx_check_request(uint32_t max, int timeout_ms)
{
	if (max == 0)
		return error_set(-EINVAL, "max is 0: ask for at least one packet");
	if (timeout_ms < -1)
		return error_set(-EINVAL, "timeout_ms is %d: -1 waits for ever, 0 not at all", timeout_ms);
	return 0;
}

int rx_acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms)
{
	uint64_t deadline_ns = UINT64_MAX;
	int r;

	r = rx_check_request(max, timeout_ms);
	if (r < 0)
		return r;
	/* A tap writes to no shared memory, so a child may use its copy of one. */
	r = rx->is_tap ? 0 : owner_check(rx->owner, rx->info.stream);
	if (r < 0)
		return r;
	if (max > INT32_MAX)
		max = INT32_MAX;
	/* One deadline for all epochs that this call waits in. */
	if (timeout_ms >= 0)
		deadline_ns = timeout_ms ? time_monotonic_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	for (;;) {
		r = rx_acquire_in_epoch(rx, batch, max, min, timeout_ms);
		if (r != -ESHUTDOWN)
			return r;
		r = rx_reattach(rx, deadline_ns);
		if (r <= 0)
			return r;
		if (timeout_ms > 0)
			timeout_ms = client_ms_until(deadline_ns);
	}
}

int rx_refuse_batch(const char *stream)
{
	return error_set(-EINVAL, "stream '%s': the batch is not one that this handle has acquired and not released",
	                 stream);
}

int rx_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	struct rx_lease *lease;
	uint64_t bit, *word;
	int r = owner_check(rx->owner, rx->info.stream);

	if (r < 0)
		return r;
	if (rx->is_tap || batch->lease >= rx->lease_blocks)
		return rx_refuse_batch(rx->info.stream);
	lease = &rx->leases[batch->lease];
	word = rx_batch_start(rx, batch->lease, batch->sequence, &bit);
	if (lease->n_batches == 0 || lease->block != batch->sequence / rx->info.slots_per_block || !(*word & bit))
		return rx_refuse_batch(rx->info.stream);
	*word &= ~bit;
	/* A seq_cst store in either case: reads of the batch stay before it, the load of the connection after it. */
	if (--lease->n_batches == 0)
		consumer_clear_lease(rx->page, batch->lease);
	else
		consumer_store_lease(rx->page, batch->lease, lease->block);
	rx->released += batch->n;
	consumer_store_released(rx->page, rx->released);
	/* Disconnected meanwhile: the lease may have ended before this batch was read. */
	return rx_wait_check_connected(rx);
}

/* meta is the caller's own copy: a length that is read twice from shared memory could differ. */
static size_t rx_copy_row(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                          const struct ibvcap_meta *meta, void *buffer, size_t bytes)
{
	size_t length = meta->length;
	uint32_t offset =
		meta->header_length - (rx->info.header_bytes - rx->info.application_header_bytes); /* or huge */

	if (offset >= rx->info.slot_bytes)
		return 0;
	if (length > rx->info.slot_bytes - offset)
		length = rx->info.slot_bytes - offset;
	memcpy(buffer, batch->payload + offset, length < bytes ? length : bytes);
	return length;
}

/* A tap has copied a row. True: the row is whole; false: its block was recycled meanwhile, the packet is skipped. */
static bool rx_check_copy(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	struct rx_lease *lease = &rx->leases[batch->lease];
	uint64_t bit, *word = rx_batch_start(rx, batch->lease, batch->sequence, &bit);

	*word &= ~bit;
	lease->n_batches = 0;
	if (tap_load_floor(rx->ring) <= lease->block)
		return true;
	rx->skipped++;
	return false;
}

int rx_take_row(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch, void *buffer, size_t bytes, size_t *length,
                struct ibvcap_meta *copy)
{
	bool is_whole = true;
	int r = 0;

	rx->flags_before |= batch->gap ? IBVCAP_PACKET_FLAG_GAP : 0;
	rx->flags_before |= batch->flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN ? IBVCAP_PACKET_FLAG_GAP_UNKNOWN : 0;
	rx->flags_before |= batch->flags & IBVCAP_RX_BATCH_FLAG_DEMOTED ? IBVCAP_PACKET_FLAG_DEMOTED : 0;
	memcpy(copy, batch->meta, sizeof(*copy));
	if (!(copy->flags & IBVCAP_PACKET_FLAG_ERROR))
		*length = rx_copy_row(rx, batch, copy, buffer, bytes);
	if (rx->is_tap)
		is_whole = rx_check_copy(rx, batch);
	else
		r = rx_release(rx, batch);
	if (r < 0)
		return r;
	if (!is_whole)
		rx->flags_before |= IBVCAP_PACKET_FLAG_GAP;
	if (!is_whole || copy->flags & IBVCAP_PACKET_FLAG_ERROR)
		return 0;
	copy->flags |= rx->flags_before;
	rx->flags_before = 0;
	return 1;
}
