// SPDX-License-Identifier: Apache-2.0
/* The counters of a stream with several queues. A status has an entry for each queue. */
#ifndef TOOLS_STATUS_STREAM_SUM_H
#define TOOLS_STATUS_STREAM_SUM_H

#include "tools/status/status_view.h"

#define STREAM_SUM_COUNTERS_MAX 64

struct stream_sum {
	struct ibvcap_counter at[STREAM_SUM_COUNTERS_MAX];
	uint32_t n;
};

/** Is the counter of the whole stream, and the same in the entries of all its queues? */
bool stream_sum_is_shared(const char *label);

/** Is entry i the first one of its stream? To count what is shared once. */
bool stream_sum_is_first(const struct status_view *view, int i);

/** The counters of the stream, of which one queue's entry is given: the sum over its queues, or what they share. */
struct counters stream_sum_of(const struct status_view *view, const struct ibvcap_status_stream *queue,
                              struct stream_sum *sum);

/** The counters of one queue without those of the stream. */
struct counters stream_sum_queue(const struct ibvcap_status_stream *queue, struct stream_sum *own);

#endif
