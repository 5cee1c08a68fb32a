// SPDX-License-Identifier: Apache-2.0
/* Where in a ring's history a reader begins. Worker (for consumers) and library (for taps) link this. */
#ifndef IBVCAP_RX_START_POSITION_H
#define IBVCAP_RX_START_POSITION_H

#include <ibvcap/layout.h>

#include <stdint.h>

/* As it is asked for on the wire: the library has made a time out of "back". */
struct rx_start_position {
	uint32_t where; /* enum ibvcap_start */
	uint64_t value; /* packets back; or the UTC ns from which on packets are wanted */
};

/* What is looked at. */
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
 * The sequence number to begin at: as asked for, or the oldest that is there; head where all is older. By time, rows
 * are taken to be in its order, and one without a timestamp to be old. Reads rows that may be recycled meanwhile, and
 * then finds some place in the history, no better and no worse.
 */
uint64_t rx_start_find(const struct rx_start_view *view, const struct rx_start_position *start);

#endif
