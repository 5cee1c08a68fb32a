// SPDX-License-Identifier: Apache-2.0
/*
 * The counters of a status, its text, and the sums over the queues of a stream: for status, top and why. Declares
 * flow_view.c, status_print.c.
 */
#ifndef TOOLS_STATUS_STATUS_VIEW_H
#define TOOLS_STATUS_STATUS_VIEW_H

#include "lib/status/clock.h"
#include "lib/view/view.h"

#include <stdbool.h>

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

/** Read the status of the daemon, and ask the kernel which groups are joined. Errors of status_view_read(). */
int status_view_ask(struct status_view *view, const char *socket_path, uint32_t timeout_ms);

/** The counters of a part of any kind. */
struct counters counters_of(enum status_kind_of_part kind, const void *part);

bool counters_have(struct counters counters, const char *label);
/** The counter of that label; 0 if there is none. */
uint64_t counters_value(struct counters counters, const char *label);

/* Readings are renewed every 100 ms, those of an interface every second: older ones mean that the device hangs. */
#define STATUS_VIEW_OLD_MS 3000u

/** Does this counter only grow? Levels and maxima have no rate. */
bool counters_is_total(struct counters counters, const char *label);

/* The labels of the sum that accounts for every packet of a part: the whole, its parts, NULL. */
extern const char *const *const status_view_sums[STATUS_N_PARTS];

/** Print "  whole 5 = part 3 + part 2", without a line feed. labels: the whole, its parts, NULL. */
void counters_print_sum(struct counters counters, const char *const *labels);

/* ---- text ---------------------------------------------------------------------------------------- */

/** Print streams, channels, clients and interfaces, with the sums that account for every packet. */
void status_print(const struct status_view *view);

/* ---- flows, and whether the kernel has joined their groups --------------------------------------- */

/** Is the daemon's PID its own in this PID namespace, too? Elsewhere it may be that of another process. */
bool flow_view_sees_daemon(const struct status_view *view);

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
