// SPDX-License-Identifier: Apache-2.0
/* What a status says, taken apart once: what `ibvcap status` and `ibvcap top` print. */
#ifndef TOOLS_IBVCAP_STATUS_VIEW_H
#define TOOLS_IBVCAP_STATUS_VIEW_H

#include <ibvcap/ibvcap.h>
#include <jansson.h>

/* Of a status that lives longer. */
struct status_view {
	const struct ibvcap_status_stream *streams;
	const struct ibvcap_status_consumer *consumers;
	const struct ibvcap_status_channel *channels;
	const struct ibvcap_status_sender *senders;
	const struct ibvcap_status_interface *interfaces;
	int n_streams;
	int n_consumers;
	int n_channels;
	int n_senders;
	int n_interfaces;
	const char *version;
	pid_t pid;
};

/* The labelled counters of one of them. */
struct counters {
	const struct ibvcap_counter *at;
	uint32_t n;
};
#define COUNTERS_OF(part) ((struct counters){(part)->counters, (part)->n_counters})

void status_view_fill(const struct ibvcap_status *status, struct status_view *view);

/** 0 where the daemon has none of that label. */
uint64_t counters_value(struct counters counters, const char *label);

const char *status_view_clock_name(enum ibvcap_clock_source source);
const char *status_view_policy_name(uint32_t policy);

/** All of it: keys are the counters' labels. The arrays are in the order of the view. */
json_t *status_view_to_json(const struct status_view *view);

#endif
