// SPDX-License-Identifier: Apache-2.0
/* The streams of a status with what why_explain() needs of each, and its report as JSON. */
#ifndef TOOLS_STATUS_WHY_JSON_H
#define TOOLS_STATUS_WHY_JSON_H

#include "tools/status/status_view.h"
#include "tools/status/why.h"

#include <jansson.h>

struct why_look;

extern const char *const why_level_names[]; /* by enum why_level */

/* A stream over all its queues. */
struct why_stream {
	struct ibvcap_status_stream whole;
	struct stream_sum sum;
	struct why_facts facts;
};

/** Gather the facts of a stream, of which one queue's entry is given. They point into stream and view. */
void why_stream_init(struct why_stream *stream, const struct status_view *view,
                     const struct ibvcap_status_stream *queue);

/** The caller frees it. look may be NULL. */
json_t *why_report_to_json(const struct why_facts *facts, const struct why_report *report, const struct why_look *look);

/** The reports of all streams, without a look at what arrives. The caller frees it. */
json_t *why_to_json(const struct status_view *view);

#endif
