// SPDX-License-Identifier: Apache-2.0
/*
 * Maps the segments that the daemon sent, and checks all that is used as a position in them later. The segments may
 * change at any time, so the checked values are private copies.
 */
#include "lib/ibvcap/segment_check.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx.h"

#include <string.h>

static bool rx_is_geometry_sound(const struct ibvcap_rx *rx, const struct ibvcap_ring *ring)
{
	uint64_t n_slots = (uint64_t)ring->n_blocks * ring->slots_per_block;

	return ring->n_blocks && ring->slots_per_block && ring->slot_bytes && ring->slot_bytes <= ring->row_stride &&
	       ring->application_header_bytes <= ring->header_bytes && ring->header_bytes <= ring->header_stride &&
	       ring->table_entries && (ring->table_entries & (ring->table_entries - 1)) == 0 &&
	       (uint64_t)ring->slots_per_block * ring->row_stride <= ring->block_bytes &&
	       segment_fits(0, 1, ring->n_blocks, ring->block_bytes, rx->payload.bytes) &&
	       segment_fits(0, 1, n_slots, ring->header_stride, rx->headers.bytes) &&
	       segment_fits(ring->table_offset, _Alignof(uint32_t), ring->table_entries, sizeof(uint32_t),
	                    rx->ring_shm.bytes) &&
	       segment_fits(ring->blocks_offset, _Alignof(struct ibvcap_block), ring->n_blocks,
	                    sizeof(struct ibvcap_block), rx->ring_shm.bytes) &&
	       segment_fits(ring->meta_offset, _Alignof(struct ibvcap_meta), n_slots, sizeof(struct ibvcap_meta),
	                    rx->ring_shm.bytes);
}

static void rx_copy_geometry(struct ibvcap_rx *rx, const struct ibvcap_ring *ring)
{
	const uint8_t *base = rx->ring_shm.address;

	rx->sequence = ring->sequence;
	rx->n_blocks = ring->n_blocks;
	rx->table_mask = ring->table_entries - 1;
	rx->block_bytes = ring->block_bytes;
	rx->table = (const _Atomic uint32_t *)(const void *)(base + ring->table_offset);
	rx->blocks = (const struct ibvcap_block *)(const void *)(base + ring->blocks_offset);
	rx->meta = (const struct ibvcap_meta *)(const void *)(base + ring->meta_offset);
	rx->info = (struct ibvcap_rx_info){
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
	memcpy(rx->info.stream, ring->stream, sizeof(rx->info.stream));
	rx->info.stream[sizeof(rx->info.stream) - 1] = '\0';
}

static int rx_map_state(struct ibvcap_rx *rx)
{
	rx->state = rx->state_shm.address;
	rx->page = rx->page_shm.address;
	rx->waiter.link = &rx->state->link;
	rx->waiter.wake = &rx->page->wake;
	rx->lease_blocks = rx->state->lease_blocks;
	if (rx->lease_blocks == 0 || rx->lease_blocks > IBVCAP_LEASE_SLOTS_MAX)
		return segment_reject("ring", "its number of leases is not 1 to 64");
	rx->attach_sequence = rx->state->attach_sequence;
	rx->attach_head = rx->state->attach_head;
	rx->taken_over = rx->state->taken_over;
	rx->abandoned = rx->state->abandoned;
	rx->policy_reported = consumer_load_policy(rx->state);
	return 0;
}

void rx_map_begin_tap(struct ibvcap_rx *rx, const struct rx_start_position *start)
{
	const struct rx_start_view view = {
		.table = rx->table,
		.table_mask = rx->table_mask,
		.meta = rx->meta,
		.n_blocks = rx->n_blocks,
		.slots_per_block = rx->info.slots_per_block,
		.floor = consumer_load_floor(rx->ring),
		.head = consumer_load_head(rx->ring),
	};

	rx->attach_sequence = rx_start_find(&view, start);
	rx->attach_head = view.head;
	rx->next = rx->attach_sequence;
}

/* Reads the geometry once, into a copy, so that the checked values are the used ones. */
static int rx_map_geometry(struct ibvcap_rx *rx)
{
	struct ibvcap_ring copy;
	int r = 0;

	rx->ring = rx->ring_shm.address;
	memcpy((void *)&copy, rx->ring_shm.address, sizeof(copy));
	if (!rx_is_geometry_sound(rx, &copy))
		return segment_reject("ring", "positions outside of its segments");
	rx_copy_geometry(rx, &copy);
	if (!rx->is_tap)
		r = rx_map_state(rx);
	rx->info.lease_blocks = rx->lease_blocks;
	rx->next = rx->attach_sequence;
	if (rx->is_tap)
		rx->lease_blocks = 1; /* one row at a time */
	return r;
}

static int rx_map_check(struct ibvcap_rx *rx, uint64_t epoch)
{
	int r = segment_check(&rx->ring_shm, sizeof(struct ibvcap_ring), IBVCAP_RING_MAGIC, epoch, "ring", "ring");

	if (r == 0 && !rx->is_tap)
		r = segment_check(&rx->state_shm, sizeof(struct ibvcap_consumer_state), IBVCAP_STATE_MAGIC, epoch,
		                  "ring", "consumer state");
	if (r == 0 && !rx->is_tap)
		r = segment_check(&rx->page_shm, sizeof(struct ibvcap_consumer_page), IBVCAP_CONSUMER_MAGIC, epoch,
		                  "ring", "consumer page");
	return r == 0 ? rx_map_geometry(rx) : r;
}

int rx_map_segments(struct ibvcap_rx *rx, const int fds[PROTOCOL_FD_N], uint64_t epoch)
{
	const struct segment segments[] = {
		[PROTOCOL_FD_PAYLOAD] = {&rx->payload, "payload", false},
		[PROTOCOL_FD_HEADERS] = {&rx->headers, "headers", false},
		[PROTOCOL_FD_RING] = {&rx->ring_shm, "ring", false},
		[PROTOCOL_FD_CONSUMER_STATE] = {&rx->state_shm, "consumer state", false},
		[PROTOCOL_FD_CONSUMER_PAGE] = {&rx->page_shm, "consumer page", true},
	};
	int r;

	rx->waiter.socket = fds[PROTOCOL_FD_WAKE_SOCKET];
	rx->is_tap = fds[PROTOCOL_FD_CONSUMER_PAGE] < 0;
	r = segment_map_all(segments, rx->is_tap ? PROTOCOL_FD_TAP_N : PROTOCOL_FD_CONSUMER_PAGE + 1, fds, "ring");
	return r == 0 ? rx_map_check(rx, epoch) : r;
}
