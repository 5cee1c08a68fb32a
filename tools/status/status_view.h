// SPDX-License-Identifier: Apache-2.0
/*
 * The answer to a status request as arrays, as names and as JSON: for status, top and why. Declares flow_view.c,
 * status_print.c.
 */
#ifndef TOOLS_STATUS_STATUS_VIEW_H
#define TOOLS_STATUS_STATUS_VIEW_H

#include "lib/status/status.h"

#include <ibvcap/ibvcap.h>
#include <jansson.h>
#include <stdbool.h>

/* Does the kernel get the packets of a flow's multicast group from the network? */
enum flow_group {
	FLOW_GROUP_NONE, /* the destination is no group */
	FLOW_GROUP_JOINED,
	FLOW_GROUP_NOT_JOINED,
	FLOW_GROUP_UNKNOWN, /* the daemon is in another PID namespace */
};

/* All zero: none. */
struct status_view {
	struct ibvcap_status_stream *streams;
	struct ibvcap_status_flow *flows;
	enum flow_group *groups; /* one for each flow */
	struct ibvcap_status_consumer *consumers;
	struct ibvcap_status_channel *channels;
	struct ibvcap_status_sender *senders;
	struct ibvcap_status_interface *interfaces;
	int n_streams;
	int n_flows;
	int n_consumers;
	int n_channels;
	int n_senders;
	int n_interfaces;
	struct ibvcap_status_daemon daemon;
	struct ibvcap_status *status; /* holds the counters */
};

/* The labelled counters of one stream, consumer, channel, sender or interface. */
struct counters {
	const struct ibvcap_counter *at;
	uint32_t n;
	enum status_kind_of_part of;
};
#define COUNTERS_OF(part)                                                           \
	((struct counters){(part)->counters, (part)->n_counters,                    \
	                   _Generic(*(part), struct ibvcap_status_stream            \
	                            : STATUS_STREAM, struct ibvcap_status_consumer  \
	                            : STATUS_CONSUMER, struct ibvcap_status_channel \
	                            : STATUS_CHANNEL, struct ibvcap_status_sender   \
	                            : STATUS_SENDER, struct ibvcap_status_interface \
	                            : STATUS_INTERFACE)})

/** Ask the daemon and copy all parts of its answer. Errors of ibvcap_status(). Free with status_view_deinit(). */
int status_view_ask(struct status_view *view, const char *socket_path, uint32_t timeout_ms);
void status_view_deinit(struct status_view *view);

bool counters_have(struct counters counters, const char *label);
/** The counter of that label; 0 if there is none. */
uint64_t counters_value(struct counters counters, const char *label);

/* Readings are renewed every 100 ms, those of an interface every second: older ones mean that the device hangs. */
#define STATUS_VIEW_OLD_MS 3000u

/** Does this counter only grow? Levels and maxima have no rate. */
bool counters_is_total(struct counters counters, const char *label);

/** Print "  whole 5 = part 3 + part 2", without a line feed. labels[0] is the whole. */
void counters_print_sum(struct counters counters, const char *const *labels, unsigned n_labels);

const char *status_view_clock_name(enum ibvcap_clock_source source);
const char *status_view_policy_name(uint32_t policy);

/** The whole view. Keys are the counters' labels; the arrays have the order of the view's. The caller frees it. */
json_t *status_view_to_json(const struct status_view *view);

/* ---- text ---------------------------------------------------------------------------------------- */

/** Print streams, channels, clients and interfaces, with the sums that account for every packet. */
void status_print(const struct status_view *view);

/* ---- flows, and whether the kernel has joined their groups --------------------------------------- */

/** Ask the kernel which groups are joined in the daemon's network namespace. */
void flow_view_find_groups(struct status_view *view);

bool flow_view_is_of(const struct ibvcap_status_flow *flow, const struct ibvcap_status_stream *stream);

/** Print a line for each flow of the stream. */
void flow_view_print(const struct status_view *view, const struct ibvcap_status_stream *stream);

/** Is a group of the stream not joined, as far as is known? */
bool flow_view_lacks_group(const struct status_view *view, const struct ibvcap_status_stream *stream);

/* ---- streams with several queues: a status has an entry for each queue --------------------------- */

#define STREAM_SUM_COUNTERS_MAX 64

struct stream_sum {
	struct ibvcap_counter at[STREAM_SUM_COUNTERS_MAX];
	uint32_t n;
};

/** Is entry i the first one of its stream? To count shared numbers once. */
bool stream_sum_is_first(const struct status_view *view, int i);

/** The counters of the stream of this queue: the sums over its queues, or the numbers that they share. */
struct counters stream_sum_of(const struct status_view *view, const struct ibvcap_status_stream *queue,
                              struct stream_sum *sum);

/** The counters of one queue without those of the stream. */
struct counters stream_sum_queue(const struct ibvcap_status_stream *queue, struct stream_sum *own);

#endif
