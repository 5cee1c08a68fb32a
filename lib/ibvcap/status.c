// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/counters.h"
#include "lib/ibvcap/error.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdlib.h>
#include <string.h>

/* More parts than any daemon has: an answer without end is an error. */
#define PARTS_MAX 65536u

struct ibvcap_status {
	pid_t pid;
	char version[32];
	struct ibvcap_status_stream *streams;
	struct ibvcap_status_consumer *consumers;
	struct ibvcap_status_channel *channels;
	struct ibvcap_status_sender *senders;
	struct ibvcap_status_interface *interfaces;
	uint32_t n_streams;
	uint32_t n_consumers;
	uint32_t n_channels;
	uint32_t n_senders;
	uint32_t n_interfaces;
};

/* Room for entry n of an array of n; the array doubles at every power of two. */
static void *grow(void *array, uint32_t n, size_t entry_bytes)
{
	if (n & (n - 1))
		return array;
	return reallocarray(array, n ? 2 * (size_t)n : 1, entry_bytes);
}

/* The first n_first values are labelled by first, the others by second; what there is no label for is left out. */
static struct ibvcap_counter *label(const uint64_t *values, uint32_t *n, const char *const *first, uint32_t n_first,
                                    const char *const *second, uint32_t n_second)
{
	struct ibvcap_counter *counters = calloc(PROTOCOL_COUNTERS_MAX, sizeof(*counters));

	if (*n > n_first + n_second)
		*n = n_first + n_second;
	for (uint32_t i = 0; counters && i < *n; i++)
		counters[i] = (struct ibvcap_counter){
			.label = i < n_first ? first[i] : second[i - n_first],
			.value = values[i],
		};
	return counters;
}

static int add_stream(struct ibvcap_status *status, const struct protocol_stream *message)
{
	struct ibvcap_status_stream *streams = grow(status->streams, status->n_streams, sizeof(*streams));
	struct ibvcap_status_stream *stream;

	if (!streams)
		return -ENOMEM;
	status->streams = streams;
	stream = &streams[status->n_streams];
	*stream = (struct ibvcap_status_stream){
		.epoch = message->epoch,
		.queue = message->queue,
		.slot_bytes = message->slot_bytes,
		.slots_per_block = message->slots_per_block,
		.n_blocks = message->n_blocks,
		.history_blocks = message->history_blocks,
		.receive_queue_slots = message->receive_queue_slots,
		.page_bytes = message->page_bytes,
		.clock_source = (enum ibvcap_clock_source)message->clock_source,
		.clock_error_ns = message->clock_error_ns,
		.loss_packets = message->loss_packets,
		.loss_from_ns = message->loss_from_ns,
		.loss_to_ns = message->loss_to_ns,
		.n_counters = message->n_counters,
	};
	memcpy(stream->name, message->name, sizeof(stream->name));
	memcpy(stream->interface, message->interface, sizeof(stream->interface));
	memcpy(stream->device, message->device, sizeof(stream->device));
	memcpy(stream->backend, message->backend, sizeof(stream->backend));
	memcpy(stream->state, message->state, sizeof(stream->state));
	stream->counters = label(message->counters, &stream->n_counters, rx_counter_labels, IBVCAP_RX_COUNTER_N,
	                         stream_counter_labels, STREAM_COUNTER_N);
	if (!stream->counters)
		return -ENOMEM;
	status->n_streams++;
	return 0;
}

static int add_consumer(struct ibvcap_status *status, const struct protocol_consumer *message)
{
	struct ibvcap_status_consumer *consumers = grow(status->consumers, status->n_consumers, sizeof(*consumers));
	struct ibvcap_status_consumer *consumer;

	if (!consumers)
		return -ENOMEM;
	status->consumers = consumers;
	consumer = &consumers[status->n_consumers];
	*consumer = (struct ibvcap_status_consumer){
		.queue = message->queue,
		.policy = message->policy,
		.pid = message->pid,
		.uid = message->uid,
		.n_counters = message->n_counters,
	};
	memcpy(consumer->stream, message->stream, sizeof(consumer->stream));
	consumer->counters =
		label(message->counters, &consumer->n_counters, consumer_counter_labels, CONSUMER_COUNTER_N, NULL, 0);
	if (!consumer->counters)
		return -ENOMEM;
	status->n_consumers++;
	return 0;
}

static int add_channel(struct ibvcap_status *status, const struct protocol_channel *message)
{
	struct ibvcap_status_channel *channels = grow(status->channels, status->n_channels, sizeof(*channels));
	struct ibvcap_status_channel *channel;

	if (!channels)
		return -ENOMEM;
	status->channels = channels;
	channel = &channels[status->n_channels];
	*channel = (struct ibvcap_status_channel){
		.epoch = message->epoch,
		.rate_bps = message->rate_bps,
		.burst_bytes = message->burst_bytes,
		.slot_bytes = message->slot_bytes,
		.arena_slots = message->arena_slots,
		.page_bytes = message->page_bytes,
		.send_queue_slots = message->send_queue_slots,
		.n_destinations = message->n_destinations,
		.n_unresolved = message->n_unresolved,
		.max_senders = message->max_senders,
		.n_counters = message->n_counters,
	};
	memcpy(channel->name, message->name, sizeof(channel->name));
	memcpy(channel->interface, message->interface, sizeof(channel->interface));
	memcpy(channel->device, message->device, sizeof(channel->device));
	memcpy(channel->backend, message->backend, sizeof(channel->backend));
	memcpy(channel->state, message->state, sizeof(channel->state));
	channel->counters = label(message->counters, &channel->n_counters, tx_counter_labels, IBVCAP_TX_COUNTER_N,
	                          channel_counter_labels, CHANNEL_COUNTER_N);
	if (!channel->counters)
		return -ENOMEM;
	status->n_channels++;
	return 0;
}

/* "pending" is the first of what control adds to a channel's, too. */
static int add_sender(struct ibvcap_status *status, const struct protocol_sender *message)
{
	struct ibvcap_status_sender *senders = grow(status->senders, status->n_senders, sizeof(*senders));
	struct ibvcap_status_sender *sender;

	if (!senders)
		return -ENOMEM;
	status->senders = senders;
	sender = &senders[status->n_senders];
	*sender = (struct ibvcap_status_sender){
		.pid = message->pid,
		.uid = message->uid,
		.n_counters = message->n_counters,
	};
	memcpy(sender->channel, message->channel, sizeof(sender->channel));
	sender->counters = label(message->counters, &sender->n_counters, tx_counter_labels, SENDER_COUNTER_PENDING,
	                         channel_counter_labels, SENDER_COUNTER_N - SENDER_COUNTER_PENDING);
	if (!sender->counters)
		return -ENOMEM;
	status->n_senders++;
	return 0;
}

static int add_interface(struct ibvcap_status *status, const struct protocol_interface *message)
{
	struct ibvcap_status_interface *interfaces =
		grow(status->interfaces, status->n_interfaces, sizeof(*interfaces));
	struct ibvcap_status_interface *interface;

	if (!interfaces)
		return -ENOMEM;
	status->interfaces = interfaces;
	interface = &interfaces[status->n_interfaces];
	*interface = (struct ibvcap_status_interface){.n_counters = message->n_counters};
	memcpy(interface->interface, message->interface, sizeof(interface->interface));
	memcpy(interface->device, message->device, sizeof(interface->device));
	interface->counters = label(message->counters, &interface->n_counters, interface_counter_labels,
	                            INTERFACE_COUNTER_N, NULL, 0);
	if (!interface->counters)
		return -ENOMEM;
	status->n_interfaces++;
	return 0;
}

/* 1: the last message. */
static int add(struct ibvcap_status *status, const union protocol_message *message)
{
	switch (message->header.type) {
	case PROTOCOL_DAEMON:
		status->pid = message->daemon.pid;
		memcpy(status->version, message->daemon.version, sizeof(status->version));
		return 0;
	case PROTOCOL_STREAM:
		return add_stream(status, &message->stream);
	case PROTOCOL_CONSUMER:
		return add_consumer(status, &message->consumer);
	case PROTOCOL_CHANNEL:
		return add_channel(status, &message->channel);
	case PROTOCOL_SENDER:
		return add_sender(status, &message->sender);
	case PROTOCOL_INTERFACE:
		return add_interface(status, &message->interface);
	case PROTOCOL_END:
		return 1;
	}
	return -EPROTO;
}

static int ask(struct client *client, struct ibvcap_status *status)
{
	struct protocol_status request = {0};
	union protocol_message message;
	int r;

	protocol_init(&request.header, PROTOCOL_STATUS, sizeof(request));
	r = client_send(client, &request.header);
	for (uint32_t i = 0; r == 0; i++) {
		r = client_receive(client, &message, NULL, NULL);
		if (r < 0)
			return r;
		r = i < PARTS_MAX ? add(status, &message) : -EPROTO;
		if (r < 0)
			return error_set(r, "control socket '%s': the answer to a request for status: %s", client->path,
			                 strerror(-r));
	}
	return r < 0 ? r : 0;
}

int ibvcap_status(const char *path, uint32_t timeout_ms, struct ibvcap_status **status)
{
	struct client client = CLIENT_INIT;
	struct ibvcap_status *new = calloc(1, sizeof(*new));
	int r = new ? client_connect(&client, path, timeout_ms) : error_set(-ENOMEM, "out of memory");

	if (r == 0)
		r = ask(&client, new);
	client_deinit(&client);
	if (r < 0)
		ibvcap_status_free(new);
	else
		*status = new;
	return r;
}

void ibvcap_status_free(struct ibvcap_status *status)
{
	if (!status)
		return;
	for (uint32_t i = 0; i < status->n_streams; i++)
		free((void *)status->streams[i].counters);
	for (uint32_t i = 0; i < status->n_consumers; i++)
		free((void *)status->consumers[i].counters);
	for (uint32_t i = 0; i < status->n_channels; i++)
		free((void *)status->channels[i].counters);
	for (uint32_t i = 0; i < status->n_senders; i++)
		free((void *)status->senders[i].counters);
	for (uint32_t i = 0; i < status->n_interfaces; i++)
		free((void *)status->interfaces[i].counters);
	free(status->streams);
	free(status->consumers);
	free(status->channels);
	free(status->senders);
	free(status->interfaces);
	free(status);
}

int ibvcap_status_streams(const struct ibvcap_status *status, const struct ibvcap_status_stream **streams)
{
	*streams = status->streams;
	return (int)status->n_streams;
}

int ibvcap_status_consumers(const struct ibvcap_status *status, const struct ibvcap_status_consumer **consumers)
{
	*consumers = status->consumers;
	return (int)status->n_consumers;
}

int ibvcap_status_channels(const struct ibvcap_status *status, const struct ibvcap_status_channel **channels)
{
	*channels = status->channels;
	return (int)status->n_channels;
}

int ibvcap_status_senders(const struct ibvcap_status *status, const struct ibvcap_status_sender **senders)
{
	*senders = status->senders;
	return (int)status->n_senders;
}

int ibvcap_status_interfaces(const struct ibvcap_status *status, const struct ibvcap_status_interface **interfaces)
{
	*interfaces = status->interfaces;
	return (int)status->n_interfaces;
}

const char *ibvcap_status_daemon(const struct ibvcap_status *status, pid_t *pid)
{
	if (pid)
		*pid = status->pid;
	return status->version;
}
