// SPDX-License-Identifier: Apache-2.0
/* The account of a source, in one file or in the whole recording. */
#ifndef TOOLS_RECORD_ACCOUNT_H
#define TOOLS_RECORD_ACCOUNT_H

#include "lib/recording/account_json.h"
#include "tools/record/source.h"

#define SETTLE_NS_MAX   UINT64_C(1000000000) /* the end of a file or a recording waits no longer for the daemon */
#define SETTLE_PAUSE_NS 5000000u             /* between two looks */

/* The parts from which an account is computed. */
struct account_parts {
	struct ibvcap_rx_moment from;
	struct ibvcap_rx_moment until;
	struct recording_sum start; /* since the recording began, as of each moment */
	struct recording_sum end;
	uint64_t named_no_buffer;    /* losses of the card that are named until the end */
	uint32_t unknown;            /* reasons that the moments do not have */
	struct row_counts unwritten; /* rows that end counts as written, and that could not be written */
	bool is_first;               /* from is the place where the source was attached, which may be in the past */
};

/** Take the moment before the next row that is not recorded. */
void source_take_moment(const struct source *source, struct ibvcap_rx_moment *moment);

/** Complete the moment by what the daemon has settled since. True: the moment is complete. */
bool source_settle(const struct source *source, struct ibvcap_rx_moment *moment);

/**
 * Rows from before the recording may come after the moment was taken, and are in no account. So until the recording
 * has its first row of the source, set the moment to the source's beginning, which such rows move. so_far: the sums at
 * the moment.
 */
void source_pass_over(const struct source *source, const struct recording_sum *so_far, struct ibvcap_rx_moment *moment);

/** Complete the two moments of the whole recording. */
bool source_settle_ends(struct source *source);

/** Take the moment of the recording's end again, unless packets came since the moment was taken. */
void source_end_later(struct source *source, const struct source_end *end);

/** Fill in all of the end but the moment: for the recording, or a file, that has these rows of the source. */
void source_end_parts(const struct source *source, struct row_counts written, struct account_parts *parts);

/**
 * The accounts of sources from the first of a stream on: all but recording, file, flow and is_last. A loss of the card
 * is one of the stream: it is counted in the account of the stream's first queue.
 */
void account_of_sources(const struct account_parts *parts, const struct source *sources, unsigned n,
                        struct recording_account *accounts);

/** A number for a recording, which no other has. */
uint64_t account_random(void);

#endif
