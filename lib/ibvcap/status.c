// SPDX-License-Identifier: Apache-2.0
/* A snapshot of the daemon: asks for it, stores the parts of the answer, and copies them out to the caller. */
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/counters.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/min.h"
#include "lib/ibvcap/sized_struct.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdlib.h>
#include <string.h>

/* No daemon has so many parts: an answer that goes on and on is an error. */
#define PARTS_MAX 65536u

struct status_list {
	void *items;
	uint32_t n;
};

struct ibvcap_status {
	struct ibvcap_status_daemon daemon;
	struct status_list streams;
	struct status_list flows;
	struct status_list consumers;
	struct status_list channels;
	struct status_list senders;
	struct status_list interfaces;
	struct status_list counters; /* arrays of struct ibvcap_counter, to be freed */
};

/* A new last item, not initialised; NULL: no memory. The array doubles at every power of two. */
static void *status_append(struct status_list *list, size_t item_bytes)
{
	if ((list->n & (list->n - 1)) == 0) {
		void *items = reallocarray(list->items, list->n ? 2 * (size_t)list->n : 1, item_bytes);

		if (!items)
			return NULL;
		list->items = items;
	}
	return (uint8_t *)list->items + list->n++ * item_bytes;
}

/* Two tables of labels, one after the other. */
struct status_labels {
	const char *const *first;
	uint32_t n_first;
	const char *const *second;
	uint32_t n_second;
};

/*
 * Give values their labels. Values of a newer daemon that have no label here are left out, and so are counters that a
 * device does not have. NULL: no memory.
 */
static const struct ibvcap_counter *status_label(struct ibvcap_status *status, const struct status_labels *labels,
                                                 const uint64_t *values, uint32_t *n)
{
	struct ibvcap_counter **slot = status_append(&status->counters, sizeof(*slot));
	struct ibvcap_counter *counters;

	if (!slot)
		return NULL;
	*slot = counters = calloc(PROTOCOL_COUNTERS_MAX, sizeof(*counters));
	const uint32_t n_values = u32_min(*n, labels->n_first + labels->n_second);

	*n = 0;
	for (uint32_t i = 0; counters && i < n_values; i++) {
		if (values[i] == COUNTER_ABSENT)
			continue;
		counters[(*n)++] = (struct ibvcap_counter){
			/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): second is NULL if n_second is 0 */
			.label = i < labels->n_first ? labels->first[i] : labels->second[i - labels->n_first],
			.value = values[i],
		};
	}
	return counters;
}

static int status_add_stream(struct ibvcap_status *status, const struct protocol_stream *message)
{
	static const struct status_labels labels = {rx_counter_labels, IBVCAP_RX_COUNTER_N, stream_counter_labels,
	                                            STREAM_COUNTER_N};
	struct ibvcap_status_stream *stream = status_append(&status->streams, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	*stream = (struct ibvcap_status_stream){
		.size = sizeof(*stream),
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
		.reading_age_ms = message->reading_age_ms,
		.stall_pid = message->stall_pid,
		.stall_uid = message->stall_uid,
		.stall_until_ns = message->stall_until_ns,
		.n_queues = message->n_queues,
	};
	memcpy(stream->name, message->name, sizeof(stream->name));
	memcpy(stream->interface, message->interface, sizeof(stream->interface));
	memcpy(stream->device, message->device, sizeof(stream->device));
	memcpy(stream->backend, message->backend, sizeof(stream->backend));
	memcpy(stream->state, message->state, sizeof(stream->state));
	stream->counters = status_label(status, &labels, message->counters, &stream->n_counters);
	return stream->counters ? 0 : -ENOMEM;
}

static int status_add_flow(struct ibvcap_status *status, const struct protocol_flow *message)
{
	struct ibvcap_status_flow *flow = status_append(&status->flows, sizeof(*flow));

	if (!flow)
		return -ENOMEM;
	*flow = (struct ibvcap_status_flow){
		.size = sizeof(*flow),
		.queue = message->queue,
		.vlan = message->vlan,
		.destination_port = message->destination_port,
		.source_port = message->source_port,
	};
	memcpy(flow->stream, message->stream, sizeof(flow->stream));
	memcpy(flow->destination, message->destination, sizeof(flow->destination));
	memcpy(flow->source, message->source, sizeof(flow->source));
	memcpy(flow->text, message->text, sizeof(flow->text));
	return 0;
}

static int status_add_consumer(struct ibvcap_status *status, const struct protocol_consumer *message)
{
	static const struct status_labels labels = {.first = consumer_counter_labels, .n_first = CONSUMER_COUNTER_N};
	struct ibvcap_status_consumer *consumer = status_append(&status->consumers, sizeof(*consumer));

	if (!consumer)
		return -ENOMEM;
	*consumer = (struct ibvcap_status_consumer){
		.size = sizeof(*consumer),
		.queue = message->queue,
		.policy = (enum ibvcap_policy)message->policy,
		.pid = message->pid,
		.uid = message->uid,
		.n_counters = message->n_counters,
	};
	memcpy(consumer->stream, message->stream, sizeof(consumer->stream));
	memcpy(consumer->group, message->group, sizeof(consumer->group));
	consumer->counters = status_label(status, &labels, message->counters, &consumer->n_counters);
	return consumer->counters ? 0 : -ENOMEM;
}

static int status_add_channel(struct ibvcap_status *status, const struct protocol_channel *message)
{
	static const struct status_labels labels = {tx_counter_labels, IBVCAP_TX_COUNTER_N, channel_counter_labels,
	                                            CHANNEL_COUNTER_N};
	struct ibvcap_status_channel *channel = status_append(&status->channels, sizeof(*channel));

	if (!channel)
		return -ENOMEM;
	*channel = (struct ibvcap_status_channel){
		.size = sizeof(*channel),
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
	channel->counters = status_label(status, &labels, message->counters, &channel->n_counters);
	return channel->counters ? 0 : -ENOMEM;
}

/* A sender has the first of the transmit counters, then "pending", which is also the first of a channel's own. */
static int status_add_sender(struct ibvcap_status *status, const struct protocol_sender *message)
{
	static const struct status_labels labels = {tx_counter_labels, SENDER_COUNTER_PENDING, channel_counter_labels,
	                                            SENDER_COUNTER_N - SENDER_COUNTER_PENDING};
	struct ibvcap_status_sender *sender = status_append(&status->senders, sizeof(*sender));

	if (!sender)
		return -ENOMEM;
	*sender = (struct ibvcap_status_sender){
		.size = sizeof(*sender),
		.pid = message->pid,
		.uid = message->uid,
		.n_counters = message->n_counters,
	};
	memcpy(sender->channel, message->channel, sizeof(sender->channel));
	sender->counters = status_label(status, &labels, message->counters, &sender->n_counters);
	return sender->counters ? 0 : -ENOMEM;
}

static int status_add_interface(struct ibvcap_status *status, const struct protocol_interface *message)
{
	static const struct status_labels labels = {.first = interface_counter_labels, .n_first = INTERFACE_COUNTER_N};
	struct ibvcap_status_interface *interface = status_append(&status->interfaces, sizeof(*interface));

	if (!interface)
		return -ENOMEM;
	*interface = (struct ibvcap_status_interface){.size = sizeof(*interface),
	                                              .n_counters = message->n_counters,
	                                              .reading_age_ms = message->reading_age_ms};
	memcpy(interface->interface, message->interface, sizeof(interface->interface));
	memcpy(interface->device, message->device, sizeof(interface->device));
	memcpy(interface->backend, message->backend, sizeof(interface->backend));
	memcpy(interface->backend_why, message->backend_why, sizeof(interface->backend_why));
	memcpy(interface->backend_how, message->backend_how, sizeof(interface->backend_how));
	memcpy(interface->backend_better, message->backend_better, sizeof(interface->backend_better));
	memcpy(interface->backend_command, message->backend_command, sizeof(interface->backend_command));
	interface->is_second_best = message->is_second_best;
	interface->is_auto = message->is_auto;
	interface->counters = status_label(status, &labels, message->counters, &interface->n_counters);
	return interface->counters ? 0 : -ENOMEM;
}

/* 0; 1: that was the last message; -ENOMEM, -EPROTO. */
static int status_add(struct ibvcap_status *status, const union protocol_message *message)
{
	switch (message->header.type) {
	case PROTOCOL_DAEMON:
		status->daemon.pid = message->daemon.pid;
		memcpy(status->daemon.version, message->daemon.version, sizeof(status->daemon.version));
		return 0;
	case PROTOCOL_STREAM:
		return status_add_stream(status, &message->stream);
	case PROTOCOL_FLOW:
		return status_add_flow(status, &message->flow);
	case PROTOCOL_CONSUMER:
		return status_add_consumer(status, &message->consumer);
	case PROTOCOL_CHANNEL:
		return status_add_channel(status, &message->channel);
	case PROTOCOL_SENDER:
		return status_add_sender(status, &message->sender);
	case PROTOCOL_INTERFACE:
		return status_add_interface(status, &message->interface);
	case PROTOCOL_END:
		return 1;
	}
	return -EPROTO;
}

static int status_ask(struct client *client, struct ibvcap_status *status)
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
		r = i < PARTS_MAX ? status_add(status, &message) : -EPROTO;
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
		r = status_ask(&client, new);
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
	for (uint32_t i = 0; i < status->counters.n; i++)
		free(((struct ibvcap_counter **)status->counters.items)[i]);
	free(status->counters.items);
	free(status->streams.items);
	free(status->flows.items);
	free(status->consumers.items);
	free(status->channels.items);
	free(status->senders.items);
	free(status->interfaces.items);
	free(status);
}

/* ---- copies of the parts ---------------------------------------------------------------------------- */

static int status_copy(const struct status_list *list, uint32_t index, void *to, size_t bytes, const char *name)
{
	int r;

	if (index >= list->n)
		return 0;
	r = sized_struct_write(to, (const uint8_t *)list->items + index * bytes, bytes, name);
	return r < 0 ? r : 1;
}

int ibvcap_status_daemon(const struct ibvcap_status *status, struct ibvcap_status_daemon *daemon)
{
	struct ibvcap_status_daemon ours = status->daemon;

	ours.size = sizeof(ours);
	ours.n_streams = status->streams.n;
	ours.n_consumers = status->consumers.n;
	ours.n_channels = status->channels.n;
	ours.n_senders = status->senders.n;
	ours.n_interfaces = status->interfaces.n;
	ours.n_flows = status->flows.n;
	return sized_struct_write(daemon, &ours, sizeof(ours), "ibvcap_status_daemon");
}

int ibvcap_status_stream(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_stream *stream)
{
	return status_copy(&status->streams, index, stream, sizeof(*stream), "ibvcap_status_stream");
}

int ibvcap_status_flow(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_flow *flow)
{
	return status_copy(&status->flows, index, flow, sizeof(*flow), "ibvcap_status_flow");
}

int ibvcap_status_consumer(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_consumer *consumer)
{
	return status_copy(&status->consumers, index, consumer, sizeof(*consumer), "ibvcap_status_consumer");
}

int ibvcap_status_channel(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_channel *channel)
{
	return status_copy(&status->channels, index, channel, sizeof(*channel), "ibvcap_status_channel");
}

int ibvcap_status_sender(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_sender *sender)
{
	return status_copy(&status->senders, index, sender, sizeof(*sender), "ibvcap_status_sender");
}

int ibvcap_status_interface(const struct ibvcap_status *status, uint32_t index,
                            struct ibvcap_status_interface *interface)
{
	return status_copy(&status->interfaces, index, interface, sizeof(*interface), "ibvcap_status_interface");
}
