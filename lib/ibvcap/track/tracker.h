// SPDX-License-Identifier: Apache-2.0
/* The inside of a tracker: the table of its sources, and what it knows of the handle whose batches it gets. */
#ifndef IBVCAP_TRACKER_H
#define IBVCAP_TRACKER_H

#include "lib/ibvcap/track/missing.h"
#include "lib/ibvcap/track/source_table.h"
#include "lib/ibvcap/track/tracker_source.h"

struct ibvcap_tracker {
	struct sequence_reader reader;
	bool has_own; /* the reader's description is not to be compared with a stream's */
	struct tracker_rules rules;
	struct source_table table;
	struct tracker_source *sources;            /* as in the table */
	uint64_t *seen;                            /* the windows of all sources */
	uint64_t totals[IBVCAP_TRACKED_COUNTER_N]; /* of all sources, and what belongs to none */
	uint64_t packets;
	uint64_t slack;                 /* packets that were skipped, plus what an unknown gap may have been */
	uint64_t absences;              /* times for which nobody counts the packets */
	uint64_t outages;               /* of the interface, in this epoch */
	struct ibvcap_rx_losses losses; /* of the card, in the batches of a handle */
	struct missing missing;
};

/** Count a packet that has no number that can be read. */
void tracker_add_unread(struct ibvcap_tracker *tracker, struct ibvcap_tracked *tracked);

/** Count a packet, which has headers if the description needs them. */
void tracker_add(struct ibvcap_tracker *tracker, const struct ibvcap_packet *packet, struct ibvcap_tracked *tracked);

#endif
