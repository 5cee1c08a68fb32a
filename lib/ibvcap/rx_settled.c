// SPDX-License-Identifier: Apache-2.0
/*
 * Follows the settled records of a ring. If the reader has passed the head of a record, all losses that the record
 * counts happened before the reader's next packet.
 */
#include "lib/ibvcap/rx.h"

#include "lib/base/min.h"

#define LOADS_MAX 100 /* the worker writes a record in some 10 ns, unless it is put off the CPU */

bool rx_settled_load(const struct rx_queue *rx, struct ring_settled *settled)
{
	for (unsigned i = 0; i < LOADS_MAX; i++)
		if (ring_load_settled(&rx->ring->settled, settled))
			return true;
	return false;
}

struct ibvcap_settled_losses rx_settled_losses(const struct ring_losses *losses, uint64_t most)
{
	return (struct ibvcap_settled_losses){
		.marks = losses->marks, .least = losses->no_buffer, .most = most, .outages = losses->outages};
}

static void note_before(struct rx_queue *rx, const struct ring_losses *losses)
{
	rx->before = rx_settled_losses(losses, UINT64_MAX);
}

/* ---- the newest record before the next packet ---------------------------------------------------- */

void rx_settled_follow(struct rx_queue *rx)
{
	uint64_t version = ring_settled_version(&rx->ring->settled);
	struct ring_settled settled;

	if (rx->next >= rx->waiting.head) {
		note_before(rx, &rx->waiting.before);
		rx->waiting.head = UINT64_MAX;
	}
	if (rx->waiting.head == UINT64_MAX) {
		if (!rx_settled_load(rx, &settled))
			return;
		if (settled.at_ns && settled.head <= rx->next)
			note_before(rx, &settled.before);
		else if (settled.at_ns)
			rx->waiting = settled;
	}
	rx->settled_version = version;
}

/* A handle that begins in the past takes the record of its first block, if the ring still has that block. */
static void begin_in_block(struct rx_queue *rx, uint64_t block)
{
	uint32_t physical = consumer_load_table_at(rx->table, rx->table_mask, block);
	struct ring_losses before;

	if (physical >= rx->n_blocks)
		return;
	ring_load_losses(&rx->blocks[physical].before, &before);
	if (tap_load_floor(rx->ring) <= block)
		note_before(rx, &before);
}

void rx_settled_begin(struct rx_queue *rx)
{
	static const struct ring_losses none;
	struct rx_reattach *reattach = &rx->reattach;

	reattach->past.least += reattach->last.least;
	reattach->past.outages += (reattach->last.outages + 1) / 2 * 2;
	reattach->last = (struct ibvcap_settled_losses){0};
	note_before(rx, &none);
	rx->waiting.head = UINT64_MAX;
	if (consumer_load_head(rx->ring) > rx->next / rx->info.slots_per_block * rx->info.slots_per_block)
		begin_in_block(rx, rx->next / rx->info.slots_per_block);
	rx_settled_follow(rx);
}

/* ---- the end of an epoch --------------------------------------------------------------------------- */

uint64_t rx_settled_until_ns(const struct rx_queue *rx, const struct ring_settled *settled)
{
	uint64_t matched, reading_ns = ring_load_reading(rx->ring, &matched);

	return settled->at_ns && matched == settled->matched ? u64_max(reading_ns, settled->at_ns) : settled->at_ns;
}

void rx_settled_leave(struct rx_queue *rx)
{
	struct rx_reattach *reattach = &rx->reattach;
	struct ring_settled settled = {0};
	uint64_t unused;

	if (!rx->ring)
		return;
	reattach->last_epoch = rx->info.epoch;
	reattach->last_until_ns = rx_settled_load(rx, &settled) ? rx_settled_until_ns(rx, &settled) : 0;
	reattach->last = rx_settled_losses(&settled.after, settled.no_buffer_most);
	reattach->last.least = u64_max(reattach->last.least, ring_load_no_buffer(rx->ring, &unused));
	reattach->last.outages = ring_load_outages(rx->ring, &unused, &unused);
}
