// SPDX-License-Identifier: Apache-2.0
/*
 * Maps the segments that the daemon sent, and checks all that is used as a position in them later. The segments may
 * change at any time, so the checked values are private copies.
 */
#include "lib/ibvcap/client/segment_check.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx/rx_queue.h"

#include <string.h>
#include <unistd.h>

static bool rx_is_geometry_sound(const struct rx_queue *queue, const struct ibvcap_ring *ring)
{
	uint64_t n_slots = (uint64_t)ring->n_blocks * ring->slots_per_block;

	return ring->n_blocks && ring->slots_per_block && ring->slot_bytes && ring->slot_bytes <= ring->row_stride &&
	       ring->application_header_bytes <= ring->header_bytes && ring->header_bytes <= ring->header_stride &&
	       ring->table_entries && (ring->table_entries & (ring->table_entries - 1)) == 0 &&
	       (uint64_t)ring->slots_per_block * ring->row_stride <= ring->block_bytes &&
	       segment_fits(0, 1, ring->n_blocks, ring->block_bytes, queue->payload.bytes) &&
	       segment_fits(0, 1, n_slots, ring->header_stride, queue->headers.bytes) &&
	       segment_fits(ring->table_offset, _Alignof(uint32_t), ring->table_entries, sizeof(uint32_t),
	                    queue->ring_shm.bytes) &&
	       segment_fits(ring->meta_offset, _Alignof(struct ibvcap_meta), n_slots, sizeof(struct ibvcap_meta),
	                    queue->ring_shm.bytes);
}

static void rx_copy_geometry(struct rx_queue *queue, const struct ibvcap_ring *ring)
{
	const uint8_t *base = queue->ring_shm.address;

	queue->sequence = ring->sequence;
	queue->n_blocks = ring->n_blocks;
	queue->table_mask = ring->table_entries - 1;
	queue->block_bytes = ring->block_bytes;
	queue->table = (const _Atomic uint32_t *)(const void *)(base + ring->table_offset);
	queue->meta = (const struct ibvcap_meta *)(const void *)(base + ring->meta_offset);
	queue->info = (struct ibvcap_rx_info){
		.epoch = ring->segment.epoch,
		.queue = ring->queue_index,
		.n_queues = ring->n_queues,
		.slot_bytes = ring->slot_bytes,
		.slots_per_block = ring->slots_per_block,
		.history_blocks = ring->history_blocks,
		.page_bytes = ring->page_bytes,
		.payload_segment_bytes = ring->payload_segment_bytes,
		.flags = ring->flags,
		.row_stride = ring->row_stride,
		.header_stride = ring->header_stride,
		.header_bytes = ring->header_bytes,
		.application_header_bytes = ring->application_header_bytes,
	};
	memcpy(queue->info.stream, ring->stream, sizeof(queue->info.stream));
	queue->info.stream[sizeof(queue->info.stream) - 1] = '\0';
}

static int rx_map_state(struct rx_queue *queue)
{
	queue->state = queue->state_shm.address;
	queue->page = queue->page_shm.address;
	queue->waiter.link = &queue->state->link;
	queue->waiter.wake = &queue->page->wake;
	queue->lease_blocks = queue->state->lease_blocks;
	if (queue->lease_blocks == 0 || queue->lease_blocks > IBVCAP_LEASE_SLOTS_MAX)
		return segment_reject("ring", "its number of leases is not 1 to 64");
	queue->attach_sequence = queue->state->attach_sequence;
	queue->attach_head = queue->state->attach_head;
	queue->taken_over = queue->state->taken_over;
	queue->abandoned = queue->state->abandoned;
	return 0;
}

void rx_map_begin_tap(struct rx_queue *queue, const struct rx_start_position *start)
{
	const struct rx_start_view view = {
		.table = queue->table,
		.table_mask = queue->table_mask,
		.meta = queue->meta,
		.n_blocks = queue->n_blocks,
		.slots_per_block = queue->info.slots_per_block,
		.floor = consumer_load_floor(queue->ring),
		.head = consumer_load_head(queue->ring),
	};

	queue->attach_sequence = rx_start_find(&view, start);
	queue->attach_head = view.head;
	queue->next = queue->attach_sequence;
}

/* Reads the geometry once, into a copy, so that the checked values are the used ones. */
static int rx_map_geometry(struct rx_queue *queue)
{
	struct ibvcap_ring copy;
	int r = 0;

	queue->ring = queue->ring_shm.address;
	memcpy((void *)&copy, queue->ring_shm.address, sizeof(copy));
	if (!rx_is_geometry_sound(queue, &copy))
		return segment_reject("ring", "positions outside of its segments");
	if (queue->is_lent != !!(copy.flags & IBVCAP_RING_FLAG_LENT))
		return segment_reject("ring", "its payload is not in the memory that was lent for it");
	rx_copy_geometry(queue, &copy);
	if (!queue->is_tap)
		r = rx_map_state(queue);
	queue->info.lease_blocks = queue->lease_blocks;
	queue->next = queue->attach_sequence;
	if (queue->is_tap)
		queue->lease_blocks = 1; /* one row at a time */
	return r;
}

int rx_map_segments(struct rx_queue *queue, const int fds[PROTOCOL_FD_N], uint64_t epoch)
{
	const struct segment segments[] = {
		[PROTOCOL_FD_PAYLOAD] = {.shm = &queue->payload, .name = "payload"},
		[PROTOCOL_FD_HEADERS] = {.shm = &queue->headers, .name = "headers"},
		[PROTOCOL_FD_RING] = {&queue->ring_shm, "ring", false, IBVCAP_RING_MAGIC, sizeof(struct ibvcap_ring)},
		[PROTOCOL_FD_CONSUMER_STATE] = {&queue->state_shm, "consumer state", false, IBVCAP_STATE_MAGIC,
	                                        sizeof(struct ibvcap_consumer_state)},
		[PROTOCOL_FD_CONSUMER_PAGE] = {&queue->page_shm, "consumer page", true, IBVCAP_CONSUMER_MAGIC,
	                                       sizeof(struct ibvcap_consumer_page)},
	};
	int r;

	const unsigned first = queue->shared->lent ? PROTOCOL_FD_HEADERS : PROTOCOL_FD_PAYLOAD;
	const unsigned n = queue->is_tap ? PROTOCOL_FD_TAP_N : PROTOCOL_FD_CONSUMER_PAGE + 1;

	queue->waiter.socket = fds[PROTOCOL_FD_WAKE_SOCKET];
	queue->generation = queue->shared->n_mappings;
	queue->shared->n_mappings += RX_MEMORY_KINDS;
	if (queue->shared->lent) {
		close(fds[PROTOCOL_FD_PAYLOAD]);
		queue->is_lent = true;
		queue->payload.address = queue->shared->lent;
		queue->payload.bytes = queue->shared->lent_bytes;
	}
	r = segment_map_all(segments + first, n - first, fds + first, epoch, "ring");
	return r == 0 ? rx_map_geometry(queue) : r;
}
