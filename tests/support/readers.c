// SPDX-License-Identifier: Apache-2.0
#include "tests/support/readers.h"

#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdlib.h>

int test_reader_init(struct ibvcap_rx *rx, const struct rx_ring *ring, const struct ring_consumer *consumer)
{
	uint32_t quota = consumer ? consumer->lease_blocks : 1;

	*rx = (struct ibvcap_rx){
		.reattach = {.poll_fd = -1, .timer_fd = -1},
		/* poll() passes over control -1: a daemon that is there */
		.waiter = {.ops = &rx_waiter_ops, .control = -1, .socket = -1},
		.payload = {.address = ring->payload.address, .fd = -1},
		.headers = {.address = ring->headers.address, .fd = -1},
		.ring = ring->ring,
		.is_tap = !consumer,
		.info.slots_per_block = ring->slots_per_block,
		.info.slot_bytes = ring->slot_bytes,
		.info.row_stride = ring->ring->row_stride,
		.info.header_bytes = ring->ring->header_bytes,
		.info.application_header_bytes = ring->ring->application_header_bytes,
		.info.header_stride = ring->header_stride,
		.n_blocks = ring->n_blocks,
		.lease_blocks = quota,
		.table_mask = ring->table_mask,
		.block_bytes = ring->block_bytes,
		.table = ring_table(ring->ring),
		.meta = ring->meta,
		.blocks = ring->blocks,
		.batch_starts = calloc((size_t)quota * ring->slots_per_block / 64, sizeof(uint64_t)),
	};
	if (consumer) {
		rx->state = consumer->state;
		rx->page = consumer->page;
		rx->waiter.link = &rx->state->link;
		rx->waiter.wake = &rx->page->wake;
		rx->attach_sequence = consumer->attach_sequence;
		rx->next = rx->attach_sequence;
		rx->policy_reported = consumer_load_policy(consumer->state);
	} else {
		rx_map_begin_tap(rx, &(struct rx_start_position){.where = IBVCAP_START_NEWEST});
	}
	return rx->batch_starts ? 0 : -ENOMEM;
}

void test_reader_deinit(struct ibvcap_rx *rx)
{
	free(rx->batch_starts);
}
