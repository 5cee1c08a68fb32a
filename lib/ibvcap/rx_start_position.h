// SPDX-License-Identifier: Apache-2.0
/* The packet at which a reader begins. The worker uses this for consumers, the library for taps. */
#ifndef IBVCAP_RX_START_POSITION_H
#define IBVCAP_RX_START_POSITION_H

#include <ibvcap/layout.h>

#include <stdint.h>

/* As in the request to attach: the library has turned IBVCAP_START_NS_BACK into a time. */
struct rx_start_position {
	uint32_t where; /* enum ibvcap_start, or RX_START_SEQUENCE */
	uint64_t value; /* packets back; or the UTC ns of the oldest wanted packet */
};

/*
 * In the daemon only: begin at the packet of this number, which may be recycled already. The consumer then skips what
 * is gone, and counts it.
 */
#define RX_START_SEQUENCE 16u

/* The parts of a ring that the search reads. */
struct rx_start_view {
	const _Atomic uint32_t *table;
	uint32_t table_mask;
	const struct ibvcap_meta *meta;
	uint32_t n_blocks;
	uint32_t slots_per_block;
	uint64_t floor;
	uint64_t head;
};

/**
 * The packet number to begin at. If the ring does not reach back that far, the oldest packet; if all packets are older
 * than the time, head. The search by time takes rows to be in the order of time, and one without a timestamp to be old.
 * The worker may recycle rows during the search; the result is then some other place in the history.
 */
uint64_t rx_start_find(const struct rx_start_view *view, const struct rx_start_position *start);

#endif
