// SPDX-License-Identifier: Apache-2.0
/* The account of a source, in one file or in the whole recording. */
#ifndef TOOLS_RECORD_ACCOUNT_H
#define TOOLS_RECORD_ACCOUNT_H

#include "lib/recording/account_json.h"
#include "tools/record/source.h"

/* The parts from which an account is computed. */
struct account_parts {
	struct ibvcap_rx_moment from;
	struct ibvcap_rx_moment until;
	struct recording_sum start; /* since the recording began, as of each moment */
	struct recording_sum end;
	uint64_t named_no_buffer; /* of end: losses of the card that packets name */
	uint32_t unknown;         /* reasons that the moments do not have */
	uint64_t unwritten;       /* rows that end counts as written, and that could not be written */
	bool is_first;            /* from is the place where the source was attached, which may be in the past */
};

/**
 * The accounts of sources from the first of a stream on: all but recording, file, flow and is_last. A loss of the card
 * is one of the stream: it is counted in the account of the stream's first queue.
 */
void account_of_sources(const struct account_parts *parts, const struct source *sources, unsigned n,
                        struct recording_account *accounts);

/** A number for a recording, which no other has. */
uint64_t account_random(void);

#endif
