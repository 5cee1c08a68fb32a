// SPDX-License-Identifier: Apache-2.0
/*
 * Acquiring and releasing batches. A consumer protects the block of a batch by a lease, against the worker that reuses
 * blocks: see ring.h. A tap has no lease: it copies a row and then checks that the block was not reused meanwhile.
 */
#include "lib/ibvcap/rx/rx_queue.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/client/sized_struct.h"

#include <errno.h>
#include <string.h>
#include <sys/sdt.h>

/* ---- batches that the caller holds ----------------------------------------------------------------- */

/* The bit of a batch that begins at sequence, in lease slot. */
static uint64_t *rx_batch_start(struct rx_queue *queue, uint32_t slot, uint64_t sequence, uint64_t *bit)
{
	uint64_t index = (uint64_t)slot * queue->info.slots_per_block + sequence % queue->info.slots_per_block;

	*bit = UINT64_C(1) << (index % 64);
	return &queue->batch_starts[index / 64];
}

/* The lease slot of the block, else a free slot; lease_blocks: there is neither. */
static uint32_t rx_find_lease(const struct rx_queue *queue, uint64_t block)
{
	uint32_t unused = queue->lease_blocks;

	for (uint32_t i = 0; i < queue->lease_blocks; i++) {
		if (queue->leases[i].n_batches == 0)
			unused = u32_min(unused, i);
		else if (queue->leases[i].block == block)
			return i;
	}
	return unused;
}

/*
 * The consumer's part of the handshake in ring.h. A tap takes no lease: the block is safe at this moment. 1: the block
 * is safe; 0: it was recycled; -EPROTO.
 */
static int rx_lease_block(struct rx_queue *queue, uint32_t slot, uint64_t block)
{
	uint32_t physical;
	bool is_recycled;

	if (!queue->is_tap)
		consumer_store_lease(queue->page, slot, block);
	physical = consumer_load_table_at(queue->table, queue->table_mask, block);
	is_recycled = consumer_load_floor(queue->ring) > block;
	if (is_recycled || physical >= queue->n_blocks) {
		if (!queue->is_tap)
			consumer_clear_lease(queue->page, slot);
		return is_recycled ? 0
		                   : error_set(-EPROTO, "stream '%s': its ring is damaged: it names block %u of %u",
		                               queue->info.stream, physical, queue->n_blocks);
	}
	queue->leases[slot].block = block;
	queue->leases[slot].physical = physical;
	return 1;
}

/* The block of the cursor was recycled: go on at the oldest block. Not past head, whatever floor says. */
static void rx_skip_to_floor(struct rx_queue *queue)
{
	uint64_t floor = consumer_load_floor(queue->ring);
	uint64_t head = consumer_load_head(queue->ring);
	uint64_t to = floor > head / queue->info.slots_per_block ? head : floor * queue->info.slots_per_block;

	if (to <= queue->next)
		return;
	/* A probe of ibvcapd-probes(7): a nop until a tracer attaches to it. */
	DTRACE_PROBE3(libibvcap, skip, (const char *)queue->info.stream, queue->next, to - queue->next);
	queue->skipped += to - queue->next;
	queue->gap += to - queue->next;
	queue->next = to;
	if (!queue->is_tap)
		consumer_store_skipped(queue->page, queue->skipped);
}

/* For the daemon, rows that were passed over are delivered. */
static void rx_store_delivered(const struct rx_queue *queue)
{
	if (!queue->is_tap)
		consumer_store_delivered(queue->page, queue->next - queue->attach_sequence - queue->skipped);
}

static void rx_hand_out(struct rx_queue *queue, struct ibvcap_rx_batch *batch, uint32_t slot, uint32_t n)
{
	uint32_t row = (uint32_t)(queue->next % queue->info.slots_per_block);
	uint64_t physical = queue->leases[slot].physical;
	uint64_t first = physical * queue->info.slots_per_block + row;
	/* Built in place, since a copy would cost about 10 ns; a caller with an older, smaller struct gets a copy. */
	struct ibvcap_rx_batch ours, *to = batch->size >= sizeof(ours) ? batch : &ours;
	uint64_t bit, *word = rx_batch_start(queue, slot, queue->next, &bit);
	/* The policy is loaded after the floor, so the first gap that a demotion causes comes with its flag. */
	bool is_demoted = !queue->is_tap && consumer_load_policy(queue->state) != queue->policy_reported;

	*to = (struct ibvcap_rx_batch){
		.size = sizeof(*to),
		.payload = (const uint8_t *)queue->payload.address + physical * queue->block_bytes +
	                   (uint64_t)row * queue->info.row_stride,
		.headers = (const uint8_t *)queue->headers.address + first * queue->info.header_stride,
		.meta = queue->meta + first,
		.sequence = queue->next,
		.epoch = queue->info.epoch,
		.gap = queue->gap,
		.n = n,
		.stride = queue->info.row_stride,
		.header_stride = queue->info.header_stride,
		.header_bytes = queue->info.header_bytes,
		.application_header_bytes = queue->info.application_header_bytes,
		.lease = slot,
		.flags = queue->reattach.next_flags | (is_demoted ? IBVCAP_RX_BATCH_FLAG_DEMOTED : 0),
		.queue = queue->info.queue,
	};
	if (to == &ours)
		sized_struct_copy(batch, &ours, sizeof(ours));
	*word |= bit;
	queue->leases[slot].n_batches++;
	queue->gap = 0;
	queue->reattach.next_flags = 0;
	if (is_demoted)
		queue->policy_reported = IBVCAP_POLICY_LOSSY;
	queue->batch_sequence = queue->next;
	queue->next += n;
	/* After the lease was stored: by this a lossless consumer stops keeping the block from reuse. */
	rx_store_delivered(queue);
}

static uint32_t rx_rest_of_block(const struct rx_queue *queue)
{
	return queue->info.slots_per_block - (uint32_t)(queue->next % queue->info.slots_per_block);
}

/* Pass over those of the next n rows, in a block that is safe, that are older than begin_ns. False: there is none. */
static bool rx_pass_over(struct rx_queue *queue, uint32_t slot, uint32_t n)
{
	uint32_t row = (uint32_t)(queue->next % queue->info.slots_per_block), old = 0;
	const struct ibvcap_meta *meta =
		&queue->meta[(uint64_t)queue->leases[slot].physical * queue->info.slots_per_block + row];

	while (old < n && meta[old].timestamp_ns < queue->begin_ns)
		old++;
	if (queue->is_tap && tap_load_floor(queue->ring) > queue->leases[slot].block)
		return true; /* these were other rows: it finds the block recycled */
	if (old < n)
		queue->begin_ns = 0;
	if (old == 0)
		return false;
	queue->next += old;
	queue->passed += old;
	if (!queue->is_tap && queue->leases[slot].n_batches == 0)
		consumer_clear_lease(queue->page, slot);
	rx_store_delivered(queue);
	return true;
}

/* Lease the next rows: at most max, if there are at least min. Rows; 0: not that many are published; -errno. */
static int rx_find_rows(struct rx_queue *queue, uint32_t max, uint32_t min, uint32_t *slot_found)
{
	for (;;) {
		uint64_t block = queue->next / queue->info.slots_per_block;
		uint32_t slot = rx_find_lease(queue, block);
		uint64_t head = consumer_load_head(queue->ring);
		uint32_t most = u32_min(max, rx_rest_of_block(queue));
		uint64_t published = head > queue->next ? head - queue->next : 0;
		int r = 1;

		if (slot == queue->lease_blocks)
			return -ENOBUFS;
		if (published == 0 || published < u32_min(min, most))
			return 0;
		/* A block under lease is not recycled, also when floor has passed it. */
		if (queue->leases[slot].n_batches == 0)
			r = rx_lease_block(queue, slot, block);
		if (r < 0)
			return r;
		if (r == 0) {
			rx_skip_to_floor(queue);
			continue;
		}
		most = (uint32_t)u64_min(published, most);
		if (queue->begin_ns && rx_pass_over(queue, slot, most))
			continue;
		*slot_found = slot;
		return (int)most;
	}
}

static int rx_take(struct rx_queue *queue, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min)
{
	uint32_t slot;
	int n = rx_find_rows(queue, max, min, &slot);

	if (n > 0)
		rx_hand_out(queue, batch, slot, (uint32_t)n);
	return n;
}

/* ---- the beginning ------------------------------------------------------------------------------- */

/* As a tap reads a row. False: it is not in the ring. */
static bool rx_read_time(const struct rx_queue *queue, uint64_t sequence, uint64_t *ns)
{
	const uint32_t n = queue->info.slots_per_block;
	uint32_t physical = consumer_load_table_at(queue->table, queue->table_mask, sequence / n);

	if (sequence >= consumer_load_head(queue->ring) || physical >= queue->n_blocks)
		return false;
	*ns = queue->meta[(uint64_t)physical * n + sequence % n].timestamp_ns;
	return tap_load_floor(queue->ring) <= sequence / n;
}

uint64_t rx_queue_whole_from(const struct rx_queue *queue)
{
	uint64_t ns = 0;

	if (queue->reattach.away || queue->attach_sequence == 0)
		return 0;
	if (!rx_read_time(queue, queue->attach_sequence - 1, &ns))
		rx_read_time(queue, queue->attach_sequence, &ns);
	return ns ? ns + 1 : 0;
}

int rx_queue_begin_at(struct rx_queue *queue, uint64_t begin_ns)
{
	uint32_t slot;
	int n;

	if (queue->reattach.away)
		return 0;
	queue->begin_ns = begin_ns;
	n = rx_find_rows(queue, UINT32_MAX, 1, &slot);
	if (n > 0 && !queue->is_tap)
		consumer_clear_lease(queue->page, slot);
	return n < 0 ? n : 0;
}

/* ---- the calls ----------------------------------------------------------------------------------- */

uint32_t rx_queue_least(const struct rx_queue *queue, uint32_t max, uint32_t min)
{
	return u32_min(min ? min : 1, u32_min(max, rx_rest_of_block(queue)));
}

int rx_queue_try(struct rx_queue *queue, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min)
{
	int r;

	if (queue->reattach.away)
		return -ESHUTDOWN;
	r = rx_wait_check_connected(queue);
	if (r < 0)
		return r;
	rx_wait_disarm(queue);
	return rx_take(queue, batch, max, min);
}

/* -ESHUTDOWN: everything of this epoch was delivered. */
static int rx_acquire_in_epoch(struct rx_queue *queue, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                               int timeout_ms)
{
	int waited, r = rx_queue_try(queue, batch, max, min);

	if (r != 0)
		return r;
	do {
		waited = waiter_wait(&queue->waiter, queue->next + rx_queue_least(queue, max, min), timeout_ms,
		                     queue->next + 1);
		if (waited < 0)
			return waited;
		r = rx_take(queue, batch, max, 1);
	} while (r == 0 && waited == WAIT_REACHED && queue->begin_ns); /* all were passed over */
	if (r != 0)
		rx_wait_disarm(queue);
	return r == 0 && waited == WAIT_END ? -ESHUTDOWN : r;
}

int rx_queue_acquire(struct rx_queue *queue, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms)
{
	uint64_t deadline_ns = UINT64_MAX;
	int r;

	/* One deadline for all epochs that this call waits in. */
	if (timeout_ms >= 0)
		deadline_ns = timeout_ms ? time_monotonic_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	for (;;) {
		r = rx_acquire_in_epoch(queue, batch, max, min, timeout_ms);
		if (r != -ESHUTDOWN)
			return r;
		r = rx_reattach(queue, deadline_ns);
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

int rx_queue_release(struct rx_queue *queue, const struct ibvcap_rx_batch *batch)
{
	uint32_t slot = rx_lease_slot(batch);
	struct rx_lease *lease;
	uint64_t bit, *word;

	if (queue->is_tap || slot >= queue->lease_blocks)
		return rx_refuse_batch(queue->info.stream);
	lease = &queue->leases[slot];
	word = rx_batch_start(queue, slot, batch->sequence, &bit);
	if (lease->n_batches == 0 || lease->block != batch->sequence / queue->info.slots_per_block || !(*word & bit))
		return rx_refuse_batch(queue->info.stream);
	*word &= ~bit;
	/* A seq_cst store in either case: reads of the batch stay before it, the load of the connection after it. */
	if (--lease->n_batches == 0)
		consumer_clear_lease(queue->page, slot);
	else
		consumer_store_lease(queue->page, slot, lease->block);
	queue->released += batch->n;
	consumer_store_released(queue->page, queue->released);
	/* Disconnected meanwhile: the lease may have ended before this batch was read. */
	return rx_wait_check_connected(queue);
}

/* meta is the caller's own copy: a length that is read twice from shared memory could differ. */
static size_t rx_copy_row(const struct rx_queue *queue, const struct ibvcap_rx_batch *batch,
                          const struct ibvcap_meta *meta, void *buffer, size_t bytes)
{
	size_t length = meta->length;
	uint32_t offset =
		meta->header_length - (queue->info.header_bytes - queue->info.application_header_bytes); /* or huge */

	if (offset >= queue->info.slot_bytes)
		return 0;
	if (length > queue->info.slot_bytes - offset)
		length = queue->info.slot_bytes - offset;
	memcpy(buffer, batch->payload + offset, length < bytes ? length : bytes);
	return length;
}

/* A tap has copied a row. True: the row is whole; false: its block was recycled meanwhile, the packet is skipped. */
static bool rx_check_copy(struct rx_queue *queue, const struct ibvcap_rx_batch *batch)
{
	struct rx_lease *lease = &queue->leases[rx_lease_slot(batch)];
	uint64_t bit, *word = rx_batch_start(queue, rx_lease_slot(batch), batch->sequence, &bit);

	*word &= ~bit;
	lease->n_batches = 0;
	if (tap_load_floor(queue->ring) <= lease->block)
		return true;
	queue->skipped++;
	return false;
}

int rx_queue_take_row(struct rx_queue *queue, const struct ibvcap_rx_batch *batch, void *buffer, size_t bytes,
                      size_t *length, struct ibvcap_meta *copy)
{
	bool is_whole = true;
	int r = 0;

	queue->flags_before |= batch->gap ? IBVCAP_PACKET_FLAG_GAP : 0;
	queue->flags_before |= batch->flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN ? IBVCAP_PACKET_FLAG_GAP_UNKNOWN : 0;
	queue->flags_before |= batch->flags & IBVCAP_RX_BATCH_FLAG_DEMOTED ? IBVCAP_PACKET_FLAG_DEMOTED : 0;
	memcpy(copy, batch->meta, sizeof(*copy));
	if (!(copy->flags & IBVCAP_PACKET_FLAG_ERROR))
		*length = rx_copy_row(queue, batch, copy, buffer, bytes);
	if (queue->is_tap)
		is_whole = rx_check_copy(queue, batch);
	else
		r = rx_queue_release(queue, batch);
	if (r < 0)
		return r;
	if (!is_whole)
		queue->flags_before |= IBVCAP_PACKET_FLAG_GAP;
	if (!is_whole || copy->flags & IBVCAP_PACKET_FLAG_ERROR)
		return 0;
	copy->flags |= queue->flags_before;
	queue->flags_before = 0;
	return 1;
}
