// SPDX-License-Identifier: Apache-2.0
/* The log lines about packets that a stream has lost, and about resets of its queue. */
#include "daemon/base/log.h"
#include "daemon/stream/stream.h"
#include "lib/status/counters.h"
#include "lib/ibvcap/ring.h"

#include <inttypes.h>

#define TOLD_AGAIN_NS UINT64_C(60000000000)

void stream_tell_losses(struct stream *stream, uint64_t now_ns)
{
	const char *name = stream->config->name;
	const uint64_t no_buffer = counter_get(&stream->sum.no_buffer);
	const uint64_t errored = stream_count(stream, IBVCAP_RX_COUNTER_ERRORED);
	const struct log_counter sums[] = {
		{stream_counters[IBVCAP_RX_COUNTER_NO_BUFFER].name, no_buffer},
		{stream_counters[IBVCAP_RX_COUNTER_ERRORED].name, errored},
		{stream_counters[IBVCAP_RX_COUNTER_PUBLISHED].name, stream_count(stream, IBVCAP_RX_COUNTER_PUBLISHED)},
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

void stream_tell_resets(struct stream_queue *queue, uint64_t now_ns)
{
	const struct stream *stream = queue->stream;
	const char *name = stream->config->name;
	const char *error = atomic_load_explicit(&queue->queue->error, memory_order_relaxed);
	const uint64_t resets = counter_get(&queue->ring.ring->counters[IBVCAP_RX_COUNTER_QUEUE_RESETS]);
	const struct log_counter sums[] = {{stream_counters[IBVCAP_RX_COUNTER_QUEUE_RESETS].name, resets}};
	const struct log_about about = {.event = LOG_EVENT_DEVICE,
	                                .stream = name,
	                                .interface = stream->config->interface,
	                                .counters = sums,
	                                .n_counters = 1};
	struct told_resets *told = &queue->told_resets;

	if (resets <= told->resets || (told->at_ns && now_ns - told->at_ns < TOLD_AGAIN_NS))
		return;
	log_message(LOG_WARNING, &about,
	            "stream '%s': its queue on device %s was stopped by errors and reset %" PRIu64 " times, %" PRIu64
	            " in all (last error: %s); the pause before a reset grows to a second; if this does not end, see "
	            "'dmesg | grep mlx5' and restart the daemon",
	            name, stream->interface->capabilities.device, resets - told->resets, resets,
	            error ? error : "not known");
	*told = (struct told_resets){.resets = resets, .at_ns = now_ns};
}
