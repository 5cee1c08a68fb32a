// SPDX-License-Identifier: Apache-2.0
/* Options of a ring that takes a few pages, and of a receive queue for it. A test changes what it is about. */
#ifndef TESTS_SUPPORT_SMALL_RING_H
#define TESTS_SUPPORT_SMALL_RING_H

#include "daemon/backend/backend.h"
#include "daemon/ring/rx_ring.h"

static inline struct rx_ring_options small_ring(void)
{
	return (struct rx_ring_options){.stream = "test",
	                                .epoch = 1,
	                                .slot_bytes = 100,
	                                .slots_per_block = 64,
	                                .header_bytes = 42,
	                                .history_blocks = 4,
	                                .posted_slots = 64,
	                                .spare_blocks = 4,
	                                .lease_blocks_max = 4,
	                                .page_bytes = 4096,
	                                .n_queues = 1};
}

static inline struct backend_queue_options queue_for_ring(const struct rx_ring_options *ring)
{
	return (struct backend_queue_options){.slots = ring->posted_slots,
	                                      .header_bytes = ring->header_bytes,
	                                      .header_stride = ring->header_bytes > 64 ? 128 : 64,
	                                      .slot_bytes = ring->slot_bytes,
	                                      .row_stride = ring->slot_bytes};
}

#endif
