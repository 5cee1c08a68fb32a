// SPDX-License-Identifier: Apache-2.0
/*
 * Counts packets by their own numbers, if the recording says where the numbers are. Such numbers show losses before the
 * network card, which the numbers of rows do not show. All queues of a stream are counted together.
 */
#ifndef TOOLS_INSPECT_INSPECT_NUMBERS_H
#define TOOLS_INSPECT_INSPECT_NUMBERS_H

#include "tools/inspect/inspect_sum.h"

#include <ibvcap/ibvcap.h>

#define INSPECT_NUMBERS_MAX 64 /* streams of a file that are tracked */

/* When packets of a source of numbers came, in the file's time. */
struct inspect_span {
	uint64_t first_ns; /* the earliest */
	uint64_t last_ns;  /* the one with the highest number */
};

struct inspect_numbered {
	char stream[INSPECT_TEXT_BYTES]; /* without the queue */
	struct ibvcap_tracker *tracker;
	struct inspect_span *spans; /* of the tracker's sources */
	uint32_t n_spans;
	bool has_one_source; /* all packets of the stream count together */
	bool has_frames;     /* the offsets count from the frame */
	uint64_t n_named;    /* packets of the stream that the recording names as lost */
	uint64_t n_malformed;
	uint64_t n_interface_lost; /* of any stream or program, by the interface */
	bool has_absence;          /* the recording says that there are more, or may be: nobody counted them */
	bool has_drops; /* the recording says that the interface dropped packets, which may be of the stream */
};

/* Zero-initialise it. */
struct inspect_numbers {
	struct inspect_numbered streams[INSPECT_NUMBERS_MAX];
	uint32_t n_streams;
};

/**
 * Take a block that inspect_sum_add() has taken: an interface begins to be tracked, a packet is counted. 0; -ENOMEM.
 */
int inspect_numbers_add(struct inspect_numbers *numbers, const struct inspect_sum *sum,
                        const struct pcapng_block *block);
void inspect_numbers_free(struct inspect_numbers *numbers);

/** Behind the last block: note what the recording names as lost. */
void inspect_numbers_end(struct inspect_numbers *numbers, const struct inspect_sum *sum);

/** The stream of an interface of this name. NULL: its packets' own numbers are not counted. Pure. */
const struct inspect_numbered *inspect_numbers_find(const struct inspect_numbers *numbers, const char *name);

/** The counts of a stream's tracker. */
struct ibvcap_tracker_counts inspect_numbers_counts(const struct inspect_numbered *numbered);

/** Packets of the stream that were lost before the card: the recording does not name them. Pure. */
uint64_t inspect_lost_before_card(const struct inspect_numbered *numbered);

/** The same, if the recording names a time for which nobody counted: lost then, or before the card. Pure. */
uint64_t inspect_lost_in_absence(const struct inspect_numbered *numbered);

/** Packets that were lost before the card, and not by the interface as far as it counted. Pure. */
uint64_t inspect_lost_unexplained(const struct inspect_numbered *numbered);

#endif
