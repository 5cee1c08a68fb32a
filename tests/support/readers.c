// SPDX-License-Identifier: Apache-2.0
#include "tests/support/readers.h"

#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdlib.h>

int test_reader_init(struct test_reader *reader, const struct rx_ring *ring, const struct ring_consumer *consumer)
{
	uint32_t quota = consumer ? consumer->lease_blocks : 1;
	struct ibvcap_rx *rx = &reader->rx;
	struct rx_queue *queue = &reader->queue;

	*rx = (struct ibvcap_rx){
		.shared = {.stream = "test", .poll_fd = -1},
		.is_single = true,
		.is_tap = !consumer,
		.parts = {queue},
		.n_parts = 1,
	};
	*queue = (struct rx_queue){
		.shared = &rx->shared,
		.reattach = {.options.reattach_ms = IBVCAP_NO_REATTACH, .timer_fd = -1},
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
		.batch_starts = calloc((size_t)quota * ring->slots_per_block / 64, sizeof(uint64_t)),
	};
	if (consumer) {
		queue->state = consumer->state;
		queue->page = consumer->page;
		queue->waiter.link = &queue->state->link;
		queue->waiter.wake = &queue->page->wake;
		queue->attach_sequence = consumer->attach_sequence;
		queue->next = queue->attach_sequence;
		queue->policy_reported = consumer_load_policy(consumer->state);
	} else {
		rx_map_begin_tap(queue, &(struct rx_start_position){.where = IBVCAP_START_NEWEST});
	}
	return queue->batch_starts ? 0 : -ENOMEM;
}

void test_reader_deinit(struct test_reader *reader)
{
	free(reader->queue.batch_starts);
}
