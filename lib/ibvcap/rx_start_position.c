// SPDX-License-Identifier: Apache-2.0
/* Finds the packet at which a reader begins, in the history of a ring that may change meanwhile. */
#include "lib/ibvcap/rx_start_position.h"

#include "lib/ibvcap/ring.h"

#include <ibvcap/ibvcap.h>

static uint64_t rx_start_oldest(const struct rx_start_view *view)
{
	return view->floor > view->head / view->slots_per_block ? view->head : view->floor * view->slots_per_block;
}

static uint64_t rx_start_timestamp_ns(const struct rx_start_view *view, uint64_t sequence)
{
	uint32_t n = view->slots_per_block;
	uint32_t physical = consumer_load_table_at(view->table, view->table_mask, sequence / n);

	return physical < view->n_blocks ? view->meta[(uint64_t)physical * n + sequence % n].timestamp_ns : 0;
}

/* The first row whose time is not before since_ns. */
static uint64_t rx_start_find_time(const struct rx_start_view *view, uint64_t since_ns)
{
	uint64_t low = rx_start_oldest(view), high = view->head;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (rx_start_timestamp_ns(view, middle) < since_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t rx_start_find(const struct rx_start_view *view, const struct rx_start_position *start)
{
	uint64_t history = view->head - rx_start_oldest(view);

	switch (start->where) {
	case IBVCAP_START_OLDEST:
		return view->head - history;
	case IBVCAP_START_PACKETS_BACK:
		return view->head - (start->value < history ? start->value : history);
	case IBVCAP_START_NS_BACK:
		return rx_start_find_time(view, start->value);
	case RX_START_SEQUENCE:
		return start->value < view->head ? start->value : view->head;
	}
	return view->head;
}
