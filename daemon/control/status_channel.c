// SPDX-License-Identifier: Apache-2.0
/* Puts channels and their senders into a status. */
#include "daemon/control/tx_endpoint.h"
#include "daemon/control/tx_session.h"
#include "daemon/control/session.h"
#include "daemon/control/status.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>

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
	struct protocol_sender message = {.pid = tx->client.pid, .uid = tx->client.uid, .n_counters = SENDER_COUNTER_N};

	protocol_init(&message.header, PROTOCOL_SENDER, sizeof(message));
	reply_copy_text(message.channel, sizeof(message.channel), tx->client.endpoint->name);
	message.counters[SENDER_COUNTER_PENDING] =
		count_packets(tx->sender.state->counters, SENDER_COUNTER_PENDING, message.counters);
	return reply_append(reply, &message.header);
}

static int append_channel(struct reply *reply, const struct tx_endpoint *endpoint)
{
	const struct control_channel *channel = endpoint->channel;
	const struct config_channel *config = channel->config;
	struct protocol_channel message = {
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
		.n_counters = IBVCAP_TX_COUNTER_N + CHANNEL_COUNTER_N,
	};
	uint64_t *added = message.counters + IBVCAP_TX_COUNTER_N;

	protocol_init(&message.header, PROTOCOL_CHANNEL, sizeof(message));
	reply_copy_text(message.name, sizeof(message.name), config->name);
	reply_copy_text(message.interface, sizeof(message.interface), config->interface);
	reply_copy_text(message.device, sizeof(message.device), channel->device);
	reply_copy_text(message.backend, sizeof(message.backend), channel->backend);
	reply_copy_text(message.state, sizeof(message.state), channel->state);
	added[CHANNEL_COUNTER_PENDING] = count_packets(channel->counters, IBVCAP_TX_COUNTER_N, message.counters);
	added[CHANNEL_COUNTER_SENDERS] = endpoint->endpoint.n_clients;
	return reply_append(reply, &message.header);
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
