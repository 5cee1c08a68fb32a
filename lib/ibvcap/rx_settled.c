// SPDX-License-Identifier: Apache-2.0
/*
 * Follows the settled records of a ring. A record is before the next packet if all rows below its head are behind the
 * reader; what it counts was lost before that packet.
 */
#include "lib/ibvcap/rx.h"

#include "lib/ibvcap/min.h"

#define LOADS_MAX 100 /* the worker writes a record in some 10 ns, unless it is put off the CPU */

bool rx_settled_load(const struct ibvcap_rx *rx, struct ring_settled *settled)
{
	for (unsigned i = 0; i < LOADS_MAX; i++)
		if (ring_load_settled(&rx->ring->settled, settled))
			return true;
	return false;
}

struct ibvcap_settled_losses rx_settled_losses(const struct ibvcap_rx *rx, const struct ring_losses *losses,
                                               uint64_t most)
{
	const struct ibvcap_settled_losses *past = &rx->reattach.past;

	return (struct ibvcap_settled_losses){
		.marks = past->marks + losses->marks,
		.least = past->least + losses->no_buffer,
		.most = most == UINT64_MAX ? UINT64_MAX : past->least + most,
		.outages = past->outages + losses->outages,
	};
}

static void note_before(struct ibvcap_rx *rx, const struct ring_losses *losses)
{
	rx->before = rx_settled_losses(rx, losses, UINT64_MAX);
}

/* ---- the newest record before the next packet ---------------------------------------------------- */

void rx_settled_follow(struct ibvcap_rx *rx)
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

/* A handle that begins in the past finds the record in that of the block, if the ring still has the block. */
static void begin_in_block(struct ibvcap_rx *rx, uint64_t block)
{
	uint32_t physical = consumer_load_table_at(rx->table, rx->table_mask, block);
	struct ring_losses before;

	if (physical >= rx->n_blocks)
		return;
	ring_load_losses(&rx->blocks[physical].before, &before);
	if (tap_load_floor(rx->ring) <= block)
		note_before(rx, &before);
}

void rx_settled_begin(struct ibvcap_rx *rx)
{
	static const struct ring_losses none;

	note_before(rx, &none);
	rx->waiting.head = UINT64_MAX;
	if (consumer_load_head(rx->ring) > rx->next / rx->slots_per_block * rx->slots_per_block)
		begin_in_block(rx, rx->next / rx->slots_per_block);
	rx_settled_follow(rx);
}

/* ---- the end of an epoch --------------------------------------------------------------------------- */

uint64_t rx_settled_until_ns(const struct ibvcap_rx *rx, const struct ring_settled *settled)
{
	uint64_t matched, reading_ns = ring_load_reading(rx->ring, &matched);

	return settled->at_ns && matched == settled->matched ? u64_max(reading_ns, settled->at_ns) : settled->at_ns;
}

void rx_settled_leave(struct ibvcap_rx *rx)
{
	struct rx_reattach *reattach = &rx->reattach;
	struct ring_settled settled = {0};
	uint64_t at_ns, unused;

	if (!rx->ring)
		return;
	reattach->past_until_ns = rx_settled_load(rx, &settled) ? rx_settled_until_ns(rx, &settled) : 0;
	reattach->past_most = rx_settled_losses(rx, &settled.after, settled.no_buffer_most).most;
	reattach->past.marks += settled.after.marks;
	reattach->past.least += u64_max(ring_load_no_buffer(rx->ring, &at_ns), settled.after.no_buffer);
	reattach->past.most = reattach->past.least;
	reattach->past.outages += (ring_load_outages(rx->ring, &at_ns, &unused) + 1) / 2 * 2;
}
