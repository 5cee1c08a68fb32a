// SPDX-License-Identifier: Apache-2.0
/*
 * The end of a file, or of a recording, at one moment of all queues of a stream. Rows of one queue are in the order of
 * their timestamps. Those of several are merged as they come: a row of a queue that had none may be older than one of
 * another queue that was taken. What the daemon has settled tells that none is.
 */
#ifndef TOOLS_RECORD_CUT_H
#define TOOLS_RECORD_CUT_H

#include "tools/record/source.h"

/** Were all rows of the source with a timestamp before ns taken? The moment was taken behind that time. */
bool source_is_past(const struct source *source, uint64_t ns, struct ibvcap_rx_moment *moment);

/** Were all rows from before ns taken, a time of which a row has come? False: ask again. */
bool sources_are_past(struct source *sources, unsigned n, uint64_t ns);

/**
 * May a file end at ns? If sources_are_past(); or if a longer wait would cost packets, or after a second: then rows
 * that come later make it not proven. is_end: the recording ends there, and needs no packets after it. False: take
 * older rows that have come meanwhile, and ask again.
 */
bool sources_may_be_cut(struct source *sources, unsigned n, uint64_t ns, bool is_end);

#endif
