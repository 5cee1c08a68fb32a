// SPDX-License-Identifier: Apache-2.0
/* Puts channels and their senders into a status. */
#include "daemon/control/tx_endpoint.h"
#include "daemon/control/tx_session.h"
#include "daemon/control/session.h"
#include "daemon/control/status.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>

/* Reads the counters of packets that are done before submitted, so that the rest, pending, is never negative. */
static uint64_t count_packets(const _Atomic uint64_t *from, uint32_t n, uint64_t *counters)
{
	for (uint32_t i = n; i > 0; i--)
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

	for (uint32_t i = IBVCAP_TX_COUNTER_BATCHES; i < IBVCAP_TX_COUNTER_N; i++)
		counters[i] = COUNTER_ABSENT; /* of channels only */
	reply_copy_text(part.channel, sizeof(part.channel), tx->client.endpoint->name);
	counters[CHANNEL_COUNTER_PENDING] =
		count_packets(tx->sender.state->counters, IBVCAP_TX_COUNTER_BATCHES, counters);
	return reply_append_part(reply, STATUS_SENDER, &part, counters);
}

static int append_channel(struct reply *reply, const struct tx_endpoint *endpoint)
{
	const struct control_channel *channel = endpoint->channel;
	const struct config_channel *config = channel->config;
	struct ibvcap_status_channel part = {
		.size = sizeof(part),
		.epoch = channel->epoch,
		.rate_bps = config->rate_limit_bps,
		.burst_bytes = config->burst_bytes,
		.slot_bytes = config->payload_size,
		.arena_slots = config->arena_slots,
		.page_bytes = config->page_bytes,
		.send_queue_slots = config->send_queue_slots,
		.n_destinations = config->n_destinations,
		.n_unresolved = channel->n_unresolved,
		.max_senders = config->max_senders,
		.n_counters = CHANNEL_COUNTER_N,
	};
	uint64_t counters[CHANNEL_COUNTER_N] = {0};

	reply_copy_text(part.name, sizeof(part.name), config->name);
	reply_copy_text(part.interface, sizeof(part.interface), config->interface);
	reply_copy_text(part.device, sizeof(part.device), channel->device);
	reply_copy_text(part.backend, sizeof(part.backend), channel->backend);
	reply_copy_text(part.state, sizeof(part.state), channel->state);
	counters[CHANNEL_COUNTER_PENDING] = count_packets(channel->counters, IBVCAP_TX_COUNTER_N, counters);
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
