// SPDX-License-Identifier: Apache-2.0
/*
 * The log lines about the beginning and the end of a loss of packets of a stream, and about resets of its queue.
 */
#include "daemon/base/log.h"
#include "lib/base/time.h"
#include "daemon/stream/stream.h"
#include "lib/status/counters.h"
#include "lib/ibvcap/ring.h"

#include <inttypes.h>
#include <stdio.h>

#define TOLD_AGAIN_NS (60 * TIME_SECOND_NS)

static void log_loss(const struct stream *stream, int priority, const char *event, const char *text)
{
	const struct log_counter sums[] = {
		{stream_counters[IBVCAP_RX_COUNTER_NO_BUFFER].name, stream->loss.seen.no_buffer},
		{stream_counters[IBVCAP_RX_COUNTER_ERRORED].name, stream->loss.seen.errored},
		{stream_counters[IBVCAP_RX_COUNTER_PUBLISHED].name, stream_count(stream, IBVCAP_RX_COUNTER_PUBLISHED)},
	};
	const struct log_about about = {.event = event,
	                                .stream = stream->config->name,
	                                .interface = stream->config->interface,
	                                .counters = sums,
	                                .n_counters = sizeof(sums) / sizeof(sums[0])};
	const struct loss_watch *loss = &stream->loss;
	uint64_t n_unjoined = loss->seen.unjoined - loss->before.unjoined;
	char unjoined[80] = "";

	if (n_unjoined)
		snprintf(unjoined, sizeof(unjoined), ": %" PRIu64 " of these are datagrams that lack a fragment",
		         n_unjoined);
	log_message(priority, &about,
	            "stream '%s': %s: %" PRIu64 " packets got no row (no_buffer, %" PRIu64 " in all%s), %" PRIu64
	            " could not be used (errored, %" PRIu64 " in all); what helps: ibvcap why %s",
	            stream->config->name, text, loss->seen.no_buffer - loss->before.no_buffer, loss->seen.no_buffer,
	            unjoined, loss->seen.errored - loss->before.errored, loss->seen.errored, stream->config->name);
}

static uint64_t count_unjoined(const struct stream *stream)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < stream->n_queues; i++) {
		const _Atomic uint64_t *n_dropped = stream->queues[i].queue->n_dropped;

		n += counter_get(&n_dropped[BACKEND_DROP_INCOMPLETE]) + counter_get(&n_dropped[BACKEND_DROP_REFUSED]);
	}
	return n;
}

void stream_tell_losses(struct stream *stream, uint64_t now_ns)
{
	const struct loss_counts now = {counter_get(&stream->losses.sum.no_buffer), count_unjoined(stream),
	                                stream_count(stream, IBVCAP_RX_COUNTER_ERRORED)};
	struct loss_watch *loss = &stream->loss;
	const bool grows = now.no_buffer > loss->seen.no_buffer || now.errored > loss->seen.errored;
	char text[96];

	if (!loss->span.goes_on)
		loss->before = loss->seen;
	loss->seen = now;
	switch (loss_span_look(&loss->span, grows, now_ns)) {
	case LOSS_BEGINS:
		log_loss(stream, LOG_WARNING, LOG_EVENT_PACKETS_LOST, "packets are being lost");
		break;
	case LOSS_ENDS:
		snprintf(text, sizeof(text), "no packet was lost for %u s; in the %" PRIu64 " s before",
		         (unsigned)(LOSS_END_NS / TIME_SECOND_NS), loss_span_seconds(&loss->span));
		log_loss(stream, LOG_NOTICE, LOG_EVENT_LOSS_ENDED, text);
		break;
	case LOSS_UNCHANGED:
		break;
	}
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
