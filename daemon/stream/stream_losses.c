// SPDX-License-Identifier: Apache-2.0
/* The log line about packets that a stream has lost. */
#include "daemon/base/log.h"
#include "daemon/stream/stream.h"
#include "lib/ibvcap/counters.h"
#include "lib/ibvcap/ring.h"

#include <inttypes.h>

#define TOLD_AGAIN_NS UINT64_C(60000000000)

void stream_tell_losses(struct stream *stream, uint64_t now_ns)
{
	const char *name = stream->config->name;
	const _Atomic uint64_t *counters = stream->ring.ring->counters;
	const uint64_t no_buffer = counter_get(&counters[IBVCAP_RX_COUNTER_NO_BUFFER]);
	const uint64_t errored = counter_get(&counters[IBVCAP_RX_COUNTER_ERRORED]);
	const struct log_counter sums[] = {
		{rx_counter_labels[IBVCAP_RX_COUNTER_NO_BUFFER], no_buffer},
		{rx_counter_labels[IBVCAP_RX_COUNTER_ERRORED], errored},
		{rx_counter_labels[IBVCAP_RX_COUNTER_PUBLISHED], counter_get(&counters[IBVCAP_RX_COUNTER_PUBLISHED])},
	};
	const struct log_about about = {.event = LOG_EVENT_PACKETS_LOST,
	                                .stream = name,
	                                .interface = stream->config->interface,
	                                .counters = sums,
	                                .n_counters = sizeof(sums) / sizeof(sums[0])};
	struct told_losses *told = &stream->told_losses;

	if ((no_buffer <= told->no_buffer && errored <= told->errored) ||
	    (told->at_ns && now_ns - told->at_ns < TOLD_AGAIN_NS))
		return;
	log_message(LOG_WARNING, &about,
	            "stream '%s': packets were lost: %" PRIu64 " found no free slot (no_buffer, %" PRIu64
	            " in all), %" PRIu64 " could not be used (errored, %" PRIu64 " in all); what helps: ibvcap why %s",
	            name, no_buffer - told->no_buffer, no_buffer, errored - told->errored, errored, name);
	*told = (struct told_losses){.no_buffer = no_buffer, .errored = errored, .at_ns = now_ns};
}
