// SPDX-License-Identifier: Apache-2.0
/* Gathers what why_explain() needs of a stream. One with several queues is explained by their sum. */
#include "tools/status/why.h"

#include <string.h>

static const struct ibvcap_status_interface *find_why_interface(const struct status_view *view,
                                                                const struct ibvcap_status_stream *stream)
{
	for (int i = 0; i < view->n_interfaces; i++)
		if (strcmp(view->interfaces[i].interface, stream->interface) == 0 &&
		    strcmp(view->interfaces[i].backend, stream->backend) == 0)
			return &view->interfaces[i];
	return NULL;
}

void why_stream_init(struct why_stream *stream, const struct status_view *view,
                     const struct ibvcap_status_stream *queue)
{
	struct counters counters = stream_sum_of(view, queue, &stream->sum);

	stream->whole = *queue;
	stream->whole.counters = counters.at;
	stream->whole.n_counters = counters.n;
	stream->facts = (struct why_facts){
		.stream = &stream->whole,
		.interface = find_why_interface(view, queue),
		.consumers = view->consumers,
		.n_consumers = (uint32_t)view->n_consumers,
		.lacks_group = flow_view_lacks_group(view, &stream->whole),
	};
}
