// SPDX-License-Identifier: Apache-2.0
/* Puts the queues of a stream, with the stream's sum and its flows, into a status. */
#include "daemon/base/time.h"
#include "daemon/control/rx_endpoint.h"
#include "daemon/control/server.h"
#include "daemon/control/status.h"
#include "daemon/flow/flow.h"
#include "lib/ibvcap/min.h"
#include "lib/ibvcap/ring.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

uint32_t status_age_ms(const struct reading *reading)
{
	return (uint32_t)u64_min(reading_age_ns(reading, time_monotonic_ns()) / 1000000, UINT32_MAX);
}

/*
 * All packets in the terms of the sum were counted as matched, though maybe after the last reading of the flow
 * counters. So the larger of both is what is known to be matched, and the difference, in_flight, is never negative.
 */
static void read_terms(const struct control_stream *stream, struct stream_terms *terms)
{
	const struct rx_sum *sum = stream->sum;
	uint64_t accounted = 0;

	terms->sum = sum;
	for (uint32_t i = 0; i < sum->n_queues; i++) {
		terms->published[i] = counter_get(&sum->parts[i].ring->counters[IBVCAP_RX_COUNTER_PUBLISHED]);
		terms->errored[i] = counter_get(&sum->parts[i].ring->counters[IBVCAP_RX_COUNTER_ERRORED]);
		accounted += terms->published[i] + terms->errored[i];
	}
	terms->no_buffer = counter_get(&sum->no_buffer);
	accounted += terms->no_buffer;
	terms->matched = counter_get(&sum->matched);
	if (terms->matched < stream->matched->value)
		terms->matched = stream->matched->value;
	if (terms->matched < accounted)
		terms->matched = accounted;
	terms->in_flight = terms->matched - accounted;
}

/* The sum is of the whole stream, the rows are of the queue. */
static void count_ring(const struct control_stream *stream, struct stream_terms *terms, uint64_t *counters)
{
	const struct ibvcap_ring *shared = stream->ring->ring;
	uint64_t *added = counters + IBVCAP_RX_COUNTER_N;

	if (terms->sum != stream->sum)
		read_terms(stream, terms);
	for (unsigned i = 0; i < STREAM_DROPS_N; i++)
		added[STREAM_COUNTER_NO_FRAME + i] =
			stream->drops ? atomic_load_explicit(&stream->drops[i], memory_order_relaxed) : COUNTER_ABSENT;
	for (unsigned i = 0; i < IBVCAP_RX_COUNTER_N; i++)
		counters[i] = counter_get(&shared->counters[i]);
	counters[IBVCAP_RX_COUNTER_PUBLISHED] = terms->published[stream->queue];
	counters[IBVCAP_RX_COUNTER_ERRORED] = terms->errored[stream->queue];
	counters[IBVCAP_RX_COUNTER_NO_BUFFER] = terms->no_buffer;
	counters[IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS] =
		u64_min(counter_get(&stream->sum->no_buffer_lossless), terms->no_buffer);
	counters[IBVCAP_RX_COUNTER_MATCHED] = terms->matched;
	added[STREAM_COUNTER_IN_FLIGHT] = terms->in_flight;
	added[STREAM_COUNTER_HEAD] = terms->published[stream->queue] + terms->errored[stream->queue];
}

static void append_loss(struct protocol_stream *message, struct rx_endpoint *endpoint)
{
	const struct loss *loss = loss_find_last(&endpoint->loss, endpoint->stream->ring->ring, time_utc_ns());

	message->loss_packets = loss->packets;
	message->loss_from_ns = loss->from_ns;
	message->loss_to_ns = loss->to_ns;
}

static int append_stream(struct reply *reply, struct rx_endpoint *endpoint, struct stream_terms *terms)
{
	const struct control_stream *stream = endpoint->stream;
	const struct ibvcap_ring *shared = stream->ring->ring;
	struct protocol_stream message = {
		.epoch = shared->segment.epoch,
		.queue = stream->queue,
		.n_queues = shared->n_queues,
		.slot_bytes = shared->slot_bytes,
		.slots_per_block = shared->slots_per_block,
		.n_blocks = shared->n_blocks,
		.history_blocks = shared->history_blocks,
		.receive_queue_slots = stream->config->receive_queue_slots,
		.page_bytes = shared->page_bytes,
		.n_counters = IBVCAP_RX_COUNTER_N + STREAM_COUNTER_N,
	};

	protocol_init(&message.header, PROTOCOL_STREAM, sizeof(message));
	message.clock_source = ring_load_clock(shared, &message.clock_error_ns);
	reply_copy_text(message.name, sizeof(message.name), stream->config->name);
	reply_copy_text(message.interface, sizeof(message.interface), stream->config->interface);
	reply_copy_text(message.device, sizeof(message.device), stream->device);
	reply_copy_text(message.backend, sizeof(message.backend), stream->backend);
	reply_copy_text(message.state, sizeof(message.state), stream->state);
	message.reading_age_ms = status_age_ms(stream->matched);
	count_ring(stream, terms, message.counters);
	append_loss(&message, endpoint);
	message.stall_pid = endpoint->stall.pid;
	message.stall_uid = endpoint->stall.uid;
	message.stall_until_ns = endpoint->stall.until_ns;
	return reply_append(reply, &message.header);
}

/* An address that is not set leaves the text empty. */
static void put_prefix(const struct config_address *address, unsigned bits, char *text, size_t bytes)
{
	if (address->family == AF_UNSPEC)
		return;
	inet_ntop(address->family, address->address, text, (socklen_t)bytes);
	if (bits != (address->family == AF_INET6 ? 128 : 32))
		snprintf(text + strlen(text), bytes - strlen(text), "/%u", bits);
}

static int append_flow(struct reply *reply, const struct control_stream *stream, const struct config_flow *flow)
{
	struct protocol_flow message = {
		.queue = stream->queue,
		.vlan = flow->vlan,
		.destination_port = flow->destination_port,
		.source_port = flow->source_port,
	};

	protocol_init(&message.header, PROTOCOL_FLOW, sizeof(message));
	reply_copy_text(message.stream, sizeof(message.stream), stream->config->name);
	put_prefix(&flow->destination, flow->destination_bits, message.destination, sizeof(message.destination));
	put_prefix(&flow->source, flow->source_bits, message.source, sizeof(message.source));
	flow_describe(flow, message.text, sizeof(message.text));
	return reply_append(reply, &message.header);
}

int status_append_stream(struct reply *reply, struct rx_endpoint *endpoint, struct stream_terms *terms)
{
	const struct control_stream *stream = endpoint->stream;
	int r = append_stream(reply, endpoint, terms);

	for (uint32_t i = 0; i < stream->config->n_flows && r == 0; i++)
		r = append_flow(reply, stream, &stream->config->flows[i]);
	return r;
}
