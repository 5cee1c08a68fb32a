// SPDX-License-Identifier: Apache-2.0
/* Where in a ring's history a reader begins. Worker (for consumers) and library (for taps) link this. */
#ifndef IBVCAP_START_H
#define IBVCAP_START_H

#include <ibvcap/layout.h>

/* What is looked at. Nothing in it is trusted to be sound but the sizes. */
struct start_view {
	const _Atomic uint32_t *table;
	uint32_t table_mask;
	const struct ibvcap_meta *meta;
	uint32_t n_blocks;
	uint32_t slots_per_block;
	uint64_t floor;
	uint64_t head;
};

/** The oldest sequence number that is still there, at most head. */
uint64_t start_oldest(const struct start_view *view);

#endif
