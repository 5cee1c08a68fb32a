// SPDX-License-Identifier: Apache-2.0
/*
 * The account of one source's packet numbers; ibvcap_tracker_new() in ibvcap.h defines what is counted. No allocation,
 * no clock. Pure.
 */
#ifndef IBVCAP_TRACKER_SOURCE_H
#define IBVCAP_TRACKER_SOURCE_H

#include "lib/ibvcap/track/sequence_read.h"

/* What is the same for all sources. */
struct tracker_rules {
	uint64_t cycle;       /* numbers are modulo this; 0: 2^64 */
	uint64_t window;      /* numbers behind the highest that are remembered */
	uint64_t jump;        /* numbers ahead up to which a gap is a loss */
	uint64_t window_bits; /* bits of struct tracker_source.seen, a power of two, at least window */
};

/* Two packets in a row near each other and far from the others begin a new run. This is the first of them. */
struct tracker_suspect {
	uint32_t n_packets; /* it came so often; 0: there is none */
	uint32_t n;         /* numbers that it takes */
	uint64_t number;
	enum ibvcap_tracked_counter counted; /* as late or as stray */
};

struct tracker_source {
	uint64_t packets;
	uint64_t counts[IBVCAP_TRACKED_COUNTER_N]; /* ONCE to RESTARTED */
	uint64_t *totals;                          /* of all sources; the same */
	uint64_t expected;                         /* the number after the highest, below cycle */
	uint64_t next;                             /* the same, counted on where the number begins again at 0 */
	uint64_t first;                            /* as next: the number of the run's first packet */
	uint64_t slack;                            /* of the tracker, when the last packet of this source came */
	uint64_t absences;                         /* likewise */
	struct tracker_suspect suspect;
	uint64_t *seen; /* a bit for each of the last window_bits numbers below next: has it come? */
};

/**
 * Account for a packet that takes the n numbers from number on. slack: packets that the consumer skipped since the last
 * packet of this source, for which a gap may be longer. tracked gets the number, counted on over wraps, and what it is.
 */
void tracker_source_add(struct tracker_source *source, const struct tracker_rules *rules, uint64_t number, uint32_t n,
                        uint64_t slack, struct ibvcap_tracked *tracked);

#endif
