// SPDX-License-Identifier: Apache-2.0
/* The inside of a tracker: the table of its sources, and what it knows of the handle whose batches it gets. */
#ifndef IBVCAP_TRACKER_H
#define IBVCAP_TRACKER_H

#include "lib/ibvcap/tracker_source.h"

struct ibvcap_tracker {
	struct sequence_reader reader;
	struct tracker_rules rules;
	struct tracker_source *sources; /* the first n_sources are in use */
	uint64_t *seen;                 /* the windows of all sources */
	uint32_t *slots;                /* hash table: index of a source + 1; 0: free */
	uint32_t slots_mask;
	uint64_t secret[2]; /* of the hash: random, so that no sender can choose sources that share one slot */
	uint32_t n_sources;
	uint32_t max_sources;
	uint32_t last;                             /* index of the source of the last packet */
	uint64_t totals[IBVCAP_TRACKED_COUNTER_N]; /* of all sources, and what belongs to none */
	uint64_t packets;
	uint64_t slack;                 /* packets that were skipped, plus what an unknown gap may have been */
	struct ibvcap_rx_losses losses; /* of the card, in the batches of a handle */
};

/** Count a packet that has no number that can be read. */
void tracker_add_unread(struct ibvcap_tracker *tracker, struct ibvcap_tracked *tracked);

/** Count a packet, which has headers if the description needs them. */
void tracker_add(struct ibvcap_tracker *tracker, const struct ibvcap_packet *packet, struct ibvcap_tracked *tracked);

#endif
