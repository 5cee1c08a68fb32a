// SPDX-License-Identifier: Apache-2.0
/* Puts streams with their queues, sums and flows into a status, and channels with their senders. */
#include "daemon/control/rx_endpoint.h"
#include "daemon/control/server.h"
#include "daemon/control/session.h"
#include "daemon/control/status.h"
#include "daemon/control/tx_endpoint.h"
#include "daemon/control/tx_session.h"
#include "daemon/flow/flow.h"
#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"

#include <arpa/inet.h>
#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <string.h>

uint32_t status_age_ms(const struct reading *reading)
{
	return (uint32_t)u64_min(reading_age_ns(reading, time_monotonic_ns()) / 1000000, UINT32_MAX);
}

/* The terms of a stream's sum, read once, so that the entries of all its queues agree. */
struct stream_terms {
	uint64_t published[IBVCAP_QUEUES_MAX];
	uint64_t errored[IBVCAP_QUEUES_MAX];
	uint64_t joined[IBVCAP_QUEUES_MAX];
	uint64_t ambiguous[IBVCAP_QUEUES_MAX];
	uint64_t no_buffer;
	uint64_t matched;
	uint64_t in_flight;
};

/*
 * All packets in the terms of the sum were counted as matched, though maybe after the last reading of the flow
 * counters. So matched is the larger of both, and the difference, in_flight, is never negative.
 */
static struct stream_terms read_terms(const struct control_stream *stream)
{
	const struct losses *losses = &stream->losses->sum;
	struct stream_terms terms;
	uint64_t accounted = 0;

	for (uint32_t i = 0; i < stream->n_queues; i++) {
		const _Atomic uint64_t *counters = stream->queues[i]->ring->ring->counters;

		terms.published[i] = counter_get(&counters[IBVCAP_RX_COUNTER_PUBLISHED]);
		terms.errored[i] = counter_get(&counters[IBVCAP_RX_COUNTER_ERRORED]);
		terms.joined[i] = counter_get(&counters[IBVCAP_RX_COUNTER_JOINED]);
		terms.ambiguous[i] = counter_get(&counters[IBVCAP_RX_COUNTER_AMBIGUOUS]);
		accounted += terms.published[i] + terms.errored[i] + terms.joined[i] + terms.ambiguous[i];
	}
	terms.no_buffer = counter_get(&losses->no_buffer);
	accounted += terms.no_buffer;
	terms.matched = u64_max(u64_max(losses->matched, stream->matched->value), accounted);
	terms.in_flight = terms.matched - accounted;
	return terms;
}

/* The sum is of the whole stream, the rows are of the queue. */
static void count_queue(const struct rx_endpoint *endpoint, const struct stream_terms *terms, uint64_t *counters)
{
	const struct control_queue *queue = endpoint->queue;
	const uint32_t index = endpoint->index;

	for (unsigned i = 0; i < BACKEND_N_DROPS; i++)
		counters[STREAM_COUNTER_DROPS + i] =
			queue->drops ? atomic_load_explicit(&queue->drops[i], memory_order_relaxed) : COUNTER_ABSENT;
	for (unsigned i = 0; i < IBVCAP_RX_COUNTER_N; i++)
		counters[i] = counter_get(&queue->ring->ring->counters[i]);
	counters[IBVCAP_RX_COUNTER_PUBLISHED] = terms->published[index];
	counters[IBVCAP_RX_COUNTER_ERRORED] = terms->errored[index];
	counters[IBVCAP_RX_COUNTER_JOINED] = terms->joined[index];
	counters[IBVCAP_RX_COUNTER_AMBIGUOUS] = terms->ambiguous[index];
	counters[IBVCAP_RX_COUNTER_NO_BUFFER] = terms->no_buffer;
	counters[IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS] =
		u64_min(endpoint->stream->losses->sum.no_buffer_lossless, terms->no_buffer);
	counters[IBVCAP_RX_COUNTER_NO_BUFFER_STANDSTILL] =
		u64_min(endpoint->stream->losses->sum.no_buffer_standstill, terms->no_buffer);
	counters[IBVCAP_RX_COUNTER_MATCHED] = terms->matched;
	counters[STREAM_COUNTER_IN_FLIGHT] = terms->in_flight;
	counters[STREAM_COUNTER_HEAD] = terms->published[index] + terms->errored[index];
}

static int append_queue(struct reply *reply, struct rx_endpoint *endpoint, const struct stream_terms *terms)
{
	const struct control_stream *stream = endpoint->stream;
	const struct ibvcap_ring *shared = endpoint->queue->ring->ring;
	const struct losses_last *loss = &stream->losses->sum.last;
	const struct status_clock clock = ring_load_clock(shared);
	uint64_t counters[STREAM_COUNTER_N] = {0};
	struct ibvcap_status_stream part = {
		.size = sizeof(part),
		.epoch = shared->segment.epoch,
		.queue = endpoint->index,
		.n_queues = stream->n_queues,
		.slot_bytes = shared->slot_bytes,
		.slots_per_block = shared->slots_per_block,
		.n_blocks = shared->n_blocks,
		.history_blocks = shared->history_blocks,
		.receive_queue_slots = stream->config->receive_queue_slots,
		.page_bytes = shared->page_bytes,
		.reading_age_ms = status_age_ms(stream->matched),
		.loss_packets = loss->packets,
		.loss_from_ns = loss->from_utc_ns,
		.loss_to_ns = loss->to_utc_ns,
		.stall_pid = endpoint->stall.pid,
		.stall_uid = endpoint->stall.uid,
		.stall_until_ns = endpoint->stall.until_ns,
		.n_counters = STREAM_COUNTER_N,
	};

	STATUS_CLOCK_COPY(&part, &clock);
	reply_copy_text(part.name, sizeof(part.name), stream->config->name);
	reply_copy_text(part.interface, sizeof(part.interface), stream->config->interface);
	reply_copy_text(part.device, sizeof(part.device), stream->device);
	reply_copy_text(part.backend, sizeof(part.backend), stream->backend);
	reply_copy_text(part.state, sizeof(part.state), endpoint->queue->state);
	reply_copy_text(part.offloads, sizeof(part.offloads), stream->offloads);
	count_queue(endpoint, terms, counters);
	return reply_append_part(reply, STATUS_STREAM, &part, counters);
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

static int append_flow(struct reply *reply, const struct config_stream *stream, const struct config_flow *flow)
{
	struct ibvcap_status_flow part = {
		.size = sizeof(part),
		.vlan = flow->vlan,
		.destination_port = flow->destination_port,
		.source_port = flow->source_port,
	};

	reply_copy_text(part.stream, sizeof(part.stream), stream->name);
	put_prefix(&flow->destination, flow->destination_bits, part.destination, sizeof(part.destination));
	put_prefix(&flow->source, flow->source_bits, part.source, sizeof(part.source));
	flow_describe(flow, part.text, sizeof(part.text));
	return reply_append_part(reply, STATUS_FLOW, &part, NULL);
}

int status_append_stream(struct reply *reply, const struct rx_stream *stream)
{
	const struct config_stream *config = stream->known->config;
	const struct stream_terms terms = read_terms(stream->known);
	int r = 0;

	for (uint32_t i = 0; i < stream->n_queues && r == 0; i++) {
		r = append_queue(reply, stream->queues[i], &terms);
		if (r == 0)
			r = status_append_consumers(reply, stream->queues[i]);
	}
	for (uint32_t i = 0; i < config->n_flows && r == 0; i++)
		r = append_flow(reply, config, &config->flows[i]);
	return r;
}

int status_append_closed_stream(struct reply *reply, const struct config_stream *config, const char *why)
{
	const uint64_t counters[STREAM_COUNTER_N] = {0};
	struct ibvcap_status_stream part = {
		.size = sizeof(part),
		.n_queues = 1,
		.receive_queue_slots = config->receive_queue_slots,
		.page_bytes = config->page_bytes,
		.n_counters = STREAM_COUNTER_N,
	};
	int r;

	reply_copy_text(part.name, sizeof(part.name), config->name);
	reply_copy_text(part.interface, sizeof(part.interface), config->interface);
	reply_copy_text(part.backend, sizeof(part.backend), config_backend_name(config->backend));
	reply_copy_text(part.state, sizeof(part.state), why ? "interface_gone" : "awaits_memory");
	reply_copy_text(part.closed_why, sizeof(part.closed_why), why ? why : "");
	r = reply_append_part(reply, STATUS_STREAM, &part, counters);
	for (uint32_t i = 0; i < config->n_flows && r == 0; i++)
		r = append_flow(reply, config, &config->flows[i]);
	return r;
}

/* ---- channels ----------------------------------------------------------------------------------- */

/* Reads the counters of packets that are done before submitted, so that the rest, pending, is never negative. */
static uint64_t count_packets(const _Atomic uint64_t *from, uint64_t *counters)
{
	for (uint32_t i = IBVCAP_TX_COUNTER_N; i > 0; i--)
		counters[i - 1] = counter_get(&from[i - 1]);
	return counters[IBVCAP_TX_COUNTER_SUBMITTED] - counters[IBVCAP_TX_COUNTER_COMPLETED] -
	       counters[IBVCAP_TX_COUNTER_ERRORED] - counters[IBVCAP_TX_COUNTER_FLUSHED] -
	       counters[IBVCAP_TX_COUNTER_LATE_DROPPED];
}

static int append_sender(struct reply *reply, const struct tx_session *tx)
{
	struct ibvcap_status_sender part = {.size = sizeof(part),
	                                    .pid = tx->client.pid,
	                                    .uid = tx->client.uid,
	                                    .n_counters = CHANNEL_COUNTER_PENDING + 1};
	uint64_t counters[CHANNEL_COUNTER_PENDING + 1] = {0};

	reply_copy_text(part.channel, sizeof(part.channel), tx->client.endpoint->name);
	counters[CHANNEL_COUNTER_PENDING] = count_packets(tx->sender.state->counters, counters);
	for (uint32_t i = 0; i < IBVCAP_TX_COUNTER_N; i++)
		if (tx_counter_is_of_channel(i))
			counters[i] = COUNTER_ABSENT;
	return reply_append_part(reply, STATUS_SENDER, &part, counters);
}

/* As the configuration has it: no destination is resolved. */
static struct ibvcap_status_channel channel_of_config(const struct config_channel *config)
{
	struct ibvcap_status_channel part = {
		.size = sizeof(part),
		.rate_bps = config->rate_limit_bps,
		.burst_bytes = config->burst_bytes,
		.slot_bytes = config->payload_size,
		.arena_slots = config->arena_slots,
		.page_bytes = config->page_bytes,
		.send_queue_slots = config->send_queue_slots,
		.n_destinations = config->n_destinations,
		.n_unresolved = config->n_destinations,
		.max_senders = config->max_senders,
		.n_counters = CHANNEL_COUNTER_N,
	};

	reply_copy_text(part.name, sizeof(part.name), config->name);
	reply_copy_text(part.interface, sizeof(part.interface), config->interface);
	return part;
}

static int append_channel(struct reply *reply, const struct tx_endpoint *endpoint)
{
	const struct control_channel *channel = endpoint->channel;
	struct ibvcap_status_channel part = channel_of_config(channel->config);
	uint64_t counters[CHANNEL_COUNTER_N] = {0};
	const char *keeper, *why;

	part.epoch = channel->epoch;
	part.n_unresolved = channel->n_unresolved;
	reply_copy_text(part.device, sizeof(part.device), channel->device);
	reply_copy_text(part.backend, sizeof(part.backend), channel->backend);
	reply_copy_text(part.state, sizeof(part.state), channel->state);
	channel->send_time(channel->context, &keeper, &why);
	reply_copy_text(part.send_time, sizeof(part.send_time), keeper);
	reply_copy_text(part.send_time_why, sizeof(part.send_time_why), why);
	counters[CHANNEL_COUNTER_PENDING] = count_packets(channel->counters, counters);
	counters[CHANNEL_COUNTER_SENDERS] = endpoint->endpoint.n_clients;
	return reply_append_part(reply, STATUS_CHANNEL, &part, counters);
}

int status_append_channel(struct reply *reply, const struct tx_endpoint *endpoint)
{
	const struct endpoint_client *client;
	int r = append_channel(reply, endpoint);

	LIST_FOREACH (client, &endpoint->endpoint.clients, link)
		if (r == 0 && client->served)
			r = append_sender(reply, (const struct tx_session *)client);
	return r;
}

int status_append_closed_channel(struct reply *reply, const struct config_channel *config, const char *why)
{
	const uint64_t counters[CHANNEL_COUNTER_N] = {0};
	struct ibvcap_status_channel part = channel_of_config(config);

	reply_copy_text(part.backend, sizeof(part.backend), config_backend_name(config->backend));
	reply_copy_text(part.state, sizeof(part.state), "link_down");
	reply_copy_text(part.closed_why, sizeof(part.closed_why), why);
	return reply_append_part(reply, STATUS_CHANNEL, &part, counters);
}
