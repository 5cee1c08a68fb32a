// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/rx.h"

#include "lib/ibvcap/client.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <string.h>

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- batches that are out ------------------------------------------------------------------------ */

/* The bit of a batch that begins at sequence, in lease slot. */
static uint64_t *start_word(struct ibvcap_rx *rx, uint32_t slot, uint64_t sequence, uint64_t *bit)
{
	uint64_t index = (uint64_t)slot * rx->slots_per_block + sequence % rx->slots_per_block;

	*bit = UINT64_C(1) << (index % 64);
	return &rx->batch_starts[index / 64];
}

/* The slot that holds the block, else a free one; lease_blocks: there is neither. */
static uint32_t find_slot(const struct ibvcap_rx *rx, uint64_t block)
{
	uint32_t unused = rx->lease_blocks;

	for (uint32_t i = 0; i < rx->lease_blocks; i++) {
		if (rx->leases[i].n_batches == 0)
			unused = min_u32(unused, i);
		else if (rx->leases[i].block == block)
			return i;
	}
	return unused;
}

/* The consumer's part of the handshake in ring.h. 1: the block is safe; 0: it was recycled; -EPROTO. */
static int lease_block(struct ibvcap_rx *rx, uint32_t slot, uint64_t block)
{
	uint32_t physical;

	consumer_store_lease(rx->page, slot, block);
	physical = consumer_load_table_at(rx->table, rx->table_mask, block);
	if (consumer_load_floor(rx->ring) > block) {
		consumer_clear_lease(rx->page, slot);
		return 0;
	}
	if (physical >= rx->n_blocks) {
		consumer_clear_lease(rx->page, slot);
		return -EPROTO;
	}
	rx->leases[slot].block = block;
	rx->leases[slot].physical = physical;
	return 1;
}

/* A tap's part: the block is there now. The same results. */
static int look_at_block(struct ibvcap_rx *rx, uint32_t slot, uint64_t block)
{
	uint32_t physical = consumer_load_table_at(rx->table, rx->table_mask, block);

	if (consumer_load_floor(rx->ring) > block)
		return 0;
	if (physical >= rx->n_blocks)
		return -EPROTO;
	rx->leases[slot].block = block;
	rx->leases[slot].physical = physical;
	return 1;
}

/* The block of the cursor was recycled: go on at the oldest there is. Not past head, whatever floor says. */
static void skip_to_floor(struct ibvcap_rx *rx)
{
	uint64_t floor = consumer_load_floor(rx->ring);
	uint64_t head = consumer_load_head(rx->ring);
	uint64_t to = floor > head / rx->slots_per_block ? head : floor * rx->slots_per_block;

	if (to <= rx->next)
		return;
	rx->skipped += to - rx->next;
	rx->gap += to - rx->next;
	rx->next = to;
	if (!rx->is_tap)
		consumer_store_skipped(rx->page, rx->skipped);
}

/* enum ibvcap_rx_batch_flag. Loaded after the floor: with the first gap that a demotion made comes the demotion. */
static uint32_t what_is_new(const struct ibvcap_rx *rx)
{
	uint32_t flags = rx->next_epoch.gap_unknown ? IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN : 0;

	if (!rx->is_tap && consumer_load_policy(rx->state) != rx->policy_told)
		flags |= IBVCAP_RX_BATCH_FLAG_DEMOTED;
	return flags;
}

static void fill(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t slot, uint32_t n)
{
	uint32_t row = (uint32_t)(rx->next % rx->slots_per_block);
	uint64_t physical = rx->leases[slot].physical;
	uint64_t first = physical * rx->slots_per_block + row;

	*batch = (struct ibvcap_rx_batch){
		.payload = (const uint8_t *)rx->payload.address + physical * rx->block_bytes +
	                   (uint64_t)row * rx->slot_bytes,
		.headers = (const uint8_t *)rx->headers.address + first * rx->header_stride,
		.meta = rx->meta + first,
		.sequence = rx->next,
		.gap = rx->gap,
		.n = n,
		.stride = rx->slot_bytes,
		.header_stride = rx->header_stride,
		.lease = slot,
		.flags = what_is_new(rx),
		.epoch = rx->info.epoch,
		.block = rx->blocks + physical,
	};
}

static void hand_out(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t slot, uint32_t n)
{
	uint64_t bit;
	uint64_t *word = start_word(rx, slot, rx->next, &bit);

	fill(rx, batch, slot, n);
	*word |= bit;
	rx->leases[slot].n_batches++;
	rx->gap = 0;
	rx->next_epoch.gap_unknown = false;
	if (batch->flags & IBVCAP_RX_BATCH_FLAG_DEMOTED)
		rx->policy_told = IBVCAP_POLICY_LOSSY;
	rx->next += n;
	/* After the lease: a lossless consumer stops pinning the block by this. */
	if (!rx->is_tap)
		consumer_store_delivered(rx->page, rx->next - rx->attach_sequence - rx->skipped);
}

static uint32_t rest_of_block(const struct ibvcap_rx *rx)
{
	return rx->slots_per_block - (uint32_t)(rx->next % rx->slots_per_block);
}

/* At most max rows, if there are at least min. Rows handed out; 0: not that many are published; -errno. */
static int take(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min)
{
	for (;;) {
		uint64_t block = rx->next / rx->slots_per_block;
		uint32_t slot = find_slot(rx, block);
		uint64_t head = consumer_load_head(rx->ring);
		uint32_t most = min_u32(max, rest_of_block(rx));
		uint64_t published = head > rx->next ? head - rx->next : 0;
		int r = 1;

		if (slot == rx->lease_blocks)
			return -ENOBUFS;
		if (published == 0 || published < min_u32(min, most))
			return 0;
		/* Of a block under lease every row stays, also when floor has passed it. */
		if (rx->leases[slot].n_batches == 0)
			r = rx->is_tap ? look_at_block(rx, slot, block) : lease_block(rx, slot, block);
		if (r < 0)
			return r;
		if (r == 0) {
			skip_to_floor(rx);
			continue;
		}
		hand_out(rx, batch, slot, published < most ? (uint32_t)published : most);
		return (int)batch->n;
	}
}

/* ---- the calls ----------------------------------------------------------------------------------- */

/* -ESHUTDOWN: everything of this epoch was delivered. */
static int acquire_in_epoch(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                            int timeout_ms)
{
	int waited, r;

	if (rx->next_epoch.away)
		return -ESHUTDOWN;
	r = rx_check_connected(rx);
	if (r < 0)
		return r;
	rx_disarm(rx);
	r = take(rx, batch, max, min);
	if (r != 0)
		return r;
	waited = rx_wait(rx, rx->next + min_u32(min ? min : 1, min_u32(max, rest_of_block(rx))), timeout_ms);
	if (waited < 0)
		return waited;
	r = take(rx, batch, max, 1);
	if (r != 0)
		rx_disarm(rx);
	return r == 0 && waited == RX_WAIT_END ? -ESHUTDOWN : r;
}

static int ms_until(uint64_t deadline_ns)
{
	uint64_t now = client_now_ns();

	return now < deadline_ns ? (int)((deadline_ns - now + 999999) / 1000000) : 0;
}

static int acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms)
{
	uint64_t deadline_ns = UINT64_MAX;
	int r;

	if (max == 0 || timeout_ms < -1)
		return -EINVAL;
	if (max > INT32_MAX)
		max = INT32_MAX;
	/* Before the first wait: one deadline for both epochs. */
	if (timeout_ms >= 0)
		deadline_ns = timeout_ms ? client_now_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	for (;;) {
		r = acquire_in_epoch(rx, batch, max, min, timeout_ms);
		if (r != -ESHUTDOWN)
			return r;
		r = rx_go_on(rx, deadline_ns);
		if (r <= 0)
			return r;
		if (timeout_ms > 0)
			timeout_ms = ms_until(deadline_ns);
	}
}

int ibvcap_rx_acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms)
{
	return rx->is_tap ? -EOPNOTSUPP : acquire(rx, batch, max, min, timeout_ms);
}

int ibvcap_rx_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	struct rx_lease *lease;
	uint64_t bit, *word;

	if (rx->is_tap || batch->lease >= rx->lease_blocks)
		return -EINVAL;
	lease = &rx->leases[batch->lease];
	word = start_word(rx, batch->lease, batch->sequence, &bit);
	if (lease->n_batches == 0 || lease->block != batch->sequence / rx->slots_per_block || !(*word & bit))
		return -EINVAL;
	*word &= ~bit;
	/* A seq_cst store in either case: what was read of the batch stays before it, and the look at status after. */
	if (--lease->n_batches == 0)
		consumer_clear_lease(rx->page, batch->lease);
	else
		consumer_store_lease(rx->page, batch->lease, lease->block);
	/* Disconnected meanwhile: the lease may have ended before this batch was read. */
	return rx_check_connected(rx);
}

/* meta is copied before it is used: a length read twice could differ. */
static size_t copy_row(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch, const struct ibvcap_meta *meta,
                       void *buffer, size_t bytes)
{
	size_t length = meta->length;

	if (meta->payload_offset >= rx->slot_bytes)
		return 0;
	if (length > rx->slot_bytes - meta->payload_offset)
		length = rx->slot_bytes - meta->payload_offset;
	memcpy(buffer, batch->payload + meta->payload_offset, length < bytes ? length : bytes);
	return length;
}

/* A tap's one row was copied. Recycled meanwhile: it was not delivered but skipped. True: it is whole. */
static bool check_copy(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	struct rx_lease *look = &rx->leases[batch->lease];
	uint64_t bit, *word = start_word(rx, batch->lease, batch->sequence, &bit);

	*word &= ~bit;
	look->n_batches = 0;
	if (tap_load_floor(rx->ring) <= look->block)
		return true;
	rx->skipped++;
	return false;
}

int ibvcap_rx_recv(struct ibvcap_rx *rx, void *buffer, size_t bytes, size_t *length, struct ibvcap_meta *meta,
                   int timeout_ms)
{
	const uint64_t deadline = timeout_ms > 0 ? client_now_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	struct ibvcap_rx_batch batch;
	struct ibvcap_meta copy = {0};
	int r;

	do {
		/* Errors that are passed over don't make the time longer. */
		if (copy.flags && timeout_ms > 0)
			timeout_ms = ms_until(deadline);
		r = acquire(rx, &batch, 1, 1, timeout_ms);
		if (r <= 0)
			return r;
		memcpy(&copy, batch.meta, sizeof(copy));
		if (!(copy.flags & IBVCAP_PACKET_FLAG_ERROR))
			*length = copy_row(rx, &batch, &copy, buffer, bytes);
		if (rx->is_tap && !check_copy(rx, &batch))
			copy.flags = IBVCAP_PACKET_FLAG_ERROR;
		r = rx->is_tap ? 0 : ibvcap_rx_release(rx, &batch);
		if (r < 0)
			return r;
	} while (copy.flags & IBVCAP_PACKET_FLAG_ERROR);
	if (meta)
		*meta = copy;
	return 1;
}

int ibvcap_rx_block_losses(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                           struct ibvcap_rx_losses *losses)
{
	uint64_t end = (batch->sequence / rx->slots_per_block + 1) * rx->slots_per_block;
	bool full = consumer_load_head(rx->ring) >= end; /* first: what closed the block is seen then */

	losses->before = consumer_load_open(batch->block, &losses->before_ns);
	losses->after = consumer_load_close(batch->block, &losses->after_ns);
	return full;
}

int ibvcap_rx_info(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info)
{
	*info = rx->info;
	info->attach_sequence = rx->attach_sequence;
	info->attach_back = rx->attach_head > rx->attach_sequence ? rx->attach_head - rx->attach_sequence : 0;
	if (rx->next_epoch.away)
		return 0;
	info->policy = rx->is_tap ? IBVCAP_POLICY_TAP : (enum ibvcap_policy)consumer_load_policy(rx->state);
	info->clock_source = ring_load_clock(rx->ring, &info->clock_error_ns);
	return 0;
}

int ibvcap_rx_counts(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts)
{
	uint64_t head = rx->next;

	*counts = rx->next_epoch.counts;
	/* Between two epochs, all of the last was delivered. */
	if (!rx->next_epoch.away && consumer_load_head(rx->ring) > head)
		head = consumer_load_head(rx->ring);
	counts->published += head - rx->attach_sequence;
	counts->delivered += rx->next - rx->attach_sequence - rx->skipped;
	counts->skipped += rx->skipped;
	counts->lag += head - rx->next;
	return 0;
}
