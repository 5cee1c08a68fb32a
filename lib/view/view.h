// SPDX-License-Identifier: Apache-2.0
/* A status of the daemon as arrays and as JSON, for the tools and for Python. */
#ifndef VIEW_VIEW_H
#define VIEW_VIEW_H

#include "lib/status/status.h"

#include <ibvcap/ibvcap.h>
#include <jansson.h>

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
	enum flow_group *groups; /* one for each flow; NULL: the caller has not asked the kernel */
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
	const char *socket_path; /* messages with a command name this socket; NULL: the default socket, or not known */
};

/** Ask the daemon and copy all parts of its answer. Errors of ibvcap_status(). Free with status_view_deinit(). */
int status_view_read(struct status_view *view, const char *socket_path, uint32_t timeout_ms);
void status_view_deinit(struct status_view *view);

/** All parts of a kind, one behind the other, each as long as the table of a status says. */
const void *status_view_parts(const struct status_view *view, enum status_kind_of_part kind, int *n);

/** The whole view. Keys are the counters' labels; the arrays have the order of the view's. The caller frees it. */
json_t *status_view_to_json(const struct status_view *view);

#endif
