// SPDX-License-Identifier: Apache-2.0
/*
 * Tracks the packets' own number over the batches of a handle, and puts what was counted into the consumer's page, so
 * that the daemon's status shows it.
 */
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx/rx.h"
#include "lib/ibvcap/client/sized_struct.h"
#include "lib/ibvcap/track/tracker.h"

#include <errno.h>
#include <string.h>

/* The fields of a batch that are read here. */
#define TRACKED_BATCH_BYTES (offsetof(struct ibvcap_rx_batch, flags) + sizeof(uint32_t))

static int rx_track_check(const struct ibvcap_rx *rx, const struct rx_queue *queue, const struct ibvcap_rx_batch *batch,
                          const struct ibvcap_tracker *tracker)
{
	if (!queue || queue->is_tap || rx_lease_slot(batch) >= queue->lease_blocks ||
	    queue->leases[rx_lease_slot(batch)].n_batches == 0 || batch->n > queue->info.slots_per_block)
		return rx_refuse_batch(rx->shared.stream);
	if (!tracker->has_own && memcmp(&queue->sequence, &tracker->reader.sequence, sizeof(queue->sequence)) != 0)
		return error_set(-ESTALE,
		                 "stream '%s': its sequence is not the tracker's; the daemon was restarted with "
		                 "another one: make a new tracker",
		                 rx->shared.stream);
	return 0;
}

/* The interface was down, the daemon was restarted, or packets of the batch's queue are another member's. */
static bool is_behind_absence(struct ibvcap_tracker *tracker, const struct rx_queue *queue,
                              const struct ibvcap_rx_batch *batch)
{
	uint64_t from_ns, until_ns, outages = ring_load_outages(queue->ring, &from_ns, &until_ns);
	bool was_down = outages > tracker->outages;

	if (was_down || batch->flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN)
		tracker->outages = outages;
	return was_down || batch->flags & (IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN | IBVCAP_RX_BATCH_FLAG_TAKEN_OVER);
}

int ibvcap_rx_track(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch, struct ibvcap_tracker *tracker,
                    struct ibvcap_tracked *tracked)
{
	const struct rx_queue *queue;
	struct ibvcap_consumer_page *page;
	struct ibvcap_packet packet;
	struct ibvcap_tracked ours;
	int r = sized_struct_check(batch, TRACKED_BATCH_BYTES, "ibvcap_rx_batch");

	if (r < 0)
		return r;
	queue = rx_giver(rx, batch);
	r = rx_track_check(rx, queue, batch, tracker);
	if (r < 0)
		return r;
	tracker->slack += sequence_slack(batch);
	tracker->absences += is_behind_absence(tracker, queue, batch);
	/* What the consumer skipped before the tracker's first packet is no loss that the tracker can see. */
	if (tracker->packets)
		tracker->totals[IBVCAP_TRACKED_COUNTER_SKIPPED] += batch->gap;
	ibvcap_rx_add_losses(rx, batch, &tracker->losses);
	tracker->totals[IBVCAP_TRACKED_COUNTER_NO_BUFFER] = tracker->losses.packets + tracker->losses.after;
	for (uint32_t i = 0; i < batch->n; i++) {
		if (sequence_packet_of_row(batch, i, queue->info.header_bytes, queue->info.application_header_bytes,
		                           &packet))
			tracker_add(tracker, &packet, tracked ? &tracked[i] : &ours);
		else
			tracker_add_unread(tracker, tracked ? &tracked[i] : &ours);
	}
	tracker->totals[IBVCAP_TRACKED_COUNTER_SOURCES] = tracker->table.n;
	page = rx_first(rx)->page;
	for (uint32_t i = 0; i < IBVCAP_TRACKED_COUNTER_N; i++)
		consumer_store_tracked(page, i, tracker->totals[i]);
	return 0;
}
