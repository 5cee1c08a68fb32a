// SPDX-License-Identifier: Apache-2.0
/* The flows of a stream in a status, and whether the kernel has joined their groups. */
#ifndef TOOLS_STATUS_FLOW_VIEW_H
#define TOOLS_STATUS_FLOW_VIEW_H

#include "tools/status/status_view.h"

/** Ask the kernel which groups are joined in the daemon's network namespace. */
void flow_view_find_groups(struct status_view *view);

bool flow_view_is_of(const struct ibvcap_status_flow *flow, const struct ibvcap_status_stream *stream);

/** Print a line for each flow of the stream. */
void flow_view_print(const struct status_view *view, const struct ibvcap_status_stream *stream);

/** Is a group of the stream not joined, as far as is known? */
bool flow_view_lacks_group(const struct status_view *view, const struct ibvcap_status_stream *stream);

#endif
