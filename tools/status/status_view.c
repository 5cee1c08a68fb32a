// SPDX-License-Identifier: Apache-2.0
/* A status as arrays, as names and as JSON. */
#include "tools/status/status_view.h"

#include "tools/status/flow_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define SCHEMA_VERSION 1

static void *new_parts(size_t n, size_t bytes)
{
	void *parts = calloc(n + 1, bytes);

	if (parts)
		return parts;
	fputs("ibvcap: out of memory\n", stderr);
	exit(EX_OSERR);
}

/* An array of all parts of one kind. */
#define COPY_PARTS(view, kind, n)                                                     \
	do {                                                                          \
		(view)->kind##s = new_parts(n, sizeof(*(view)->kind##s));             \
		(view)->n_##kind##s = (int)(n);                                       \
		for (uint32_t i = 0; i < (n); i++) {                                  \
			(view)->kind##s[i].size = sizeof(*(view)->kind##s);           \
			ibvcap_status_##kind((view)->status, i, &(view)->kind##s[i]); \
		}                                                                     \
	} while (0)

int status_view_ask(struct status_view *view, const char *socket_path, uint32_t timeout_ms)
{
	struct ibvcap_status_daemon daemon = IBVCAP_INIT(struct ibvcap_status_daemon);
	int r;

	*view = (struct status_view){0};
	r = ibvcap_status(socket_path, timeout_ms, &view->status);
	if (r < 0)
		return r;
	ibvcap_status_daemon(view->status, &daemon);
	memcpy(view->version, daemon.version, sizeof(view->version));
	view->pid = daemon.pid;
	COPY_PARTS(view, stream, daemon.n_streams);
	COPY_PARTS(view, flow, daemon.n_flows);
	view->groups = new_parts(daemon.n_flows, sizeof(*view->groups));
	flow_view_find_groups(view);
	COPY_PARTS(view, consumer, daemon.n_consumers);
	COPY_PARTS(view, channel, daemon.n_channels);
	COPY_PARTS(view, sender, daemon.n_senders);
	COPY_PARTS(view, interface, daemon.n_interfaces);
	return 0;
}

void status_view_deinit(struct status_view *view)
{
	free(view->streams);
	free(view->flows);
	free(view->groups);
	free(view->consumers);
	free(view->channels);
	free(view->senders);
	free(view->interfaces);
	ibvcap_status_free(view->status);
	*view = (struct status_view){0};
}

bool counters_have(struct counters counters, const char *label)
{
	for (uint32_t i = 0; i < counters.n; i++)
		if (!strcmp(counters.at[i].label, label))
			return true;
	return false;
}

uint64_t counters_value(struct counters counters, const char *label)
{
	for (uint32_t i = 0; i < counters.n; i++)
		if (!strcmp(counters.at[i].label, label))
			return counters.at[i].value;
	return 0;
}

void counters_print_sum(struct counters counters, const char *const *labels, unsigned n_labels)
{
	for (unsigned i = 0; i < n_labels; i++)
		printf("%s%s %" PRIu64,
		       i == 0   ? "  "
		       : i == 1 ? " = "
		                : " + ",
		       labels[i], counters_value(counters, labels[i]));
}

const char *status_view_clock_name(enum ibvcap_clock_source source)
{
	switch (source) {
	case IBVCAP_CLOCK_SOURCE_SOFTWARE:
		return "software";
	case IBVCAP_CLOCK_SOURCE_DEVICE:
		return "device";
	case IBVCAP_CLOCK_SOURCE_KERNEL:
		return "kernel";
	case IBVCAP_CLOCK_SOURCE_NONE:
		break;
	}
	return "none";
}

const char *status_view_policy_name(uint32_t policy)
{
	switch (policy) {
	case IBVCAP_POLICY_LOSSY:
		return "lossy";
	case IBVCAP_POLICY_LOSSLESS:
		return "lossless";
	case IBVCAP_POLICY_TAP:
		return "tap";
	}
	return "unknown";
}

/* ---- JSON: keys are the counters' labels --------------------------------------------------------- */

static json_t *add_counters_to_json(json_t *object, struct counters counters)
{
	for (uint32_t i = 0; i < counters.n; i++)
		json_object_set_new(object, counters.at[i].label, json_integer((json_int_t)counters.at[i].value));
	return object;
}

/* As a string: many JSON readers cannot hold integers of 64 bits. */
static void add_epoch_to_json(json_t *object, uint64_t epoch)
{
	char text[24];

	snprintf(text, sizeof(text), "%016" PRIx64, epoch);
	json_object_set_new(object, "epoch", json_string(text));
}

static json_t *flow_to_json(const struct ibvcap_status_flow *flow, enum flow_group group)
{
	json_t *object = json_pack("{s:s, s:I, s:s}", "destination", flow->destination, "port",
	                           (json_int_t)flow->destination_port, "text", flow->text);

	if (flow->source[0])
		json_object_set_new(object, "source", json_string(flow->source));
	if (flow->source_port)
		json_object_set_new(object, "source_port", json_integer(flow->source_port));
	if (flow->vlan > 0)
		json_object_set_new(object, "vlan", json_integer(flow->vlan));
	if (group == FLOW_GROUP_JOINED || group == FLOW_GROUP_NOT_JOINED)
		json_object_set_new(object, "joined", json_boolean(group == FLOW_GROUP_JOINED));
	return object;
}

static json_t *flows_to_json(const struct status_view *view, const struct ibvcap_status_stream *stream)
{
	json_t *flows = json_array();

	for (int i = 0; i < view->n_flows; i++)
		if (flow_view_is_of(&view->flows[i], stream))
			json_array_append_new(flows, flow_to_json(&view->flows[i], view->groups[i]));
	return flows;
}

static json_t *stream_to_json(const struct status_view *view, const struct ibvcap_status_stream *stream)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", stream->name, "interface", stream->interface,
	                           "device", stream->device, "backend", stream->backend, "state", stream->state);

	add_epoch_to_json(object, stream->epoch);
	json_object_set_new(object, "queue", json_integer(stream->queue));
	json_object_set_new(object, "n_queues", json_integer(stream->n_queues));
	json_object_set_new(object, "flows", flows_to_json(view, stream));
	json_object_set_new(object, "slot_bytes", json_integer(stream->slot_bytes));
	json_object_set_new(object, "slots_per_block", json_integer(stream->slots_per_block));
	json_object_set_new(object, "n_blocks", json_integer(stream->n_blocks));
	json_object_set_new(object, "history_blocks", json_integer(stream->history_blocks));
	json_object_set_new(object, "receive_queue_slots", json_integer(stream->receive_queue_slots));
	json_object_set_new(object, "page_bytes", json_integer(stream->page_bytes));
	json_object_set_new(object, "clock_source", json_string(status_view_clock_name(stream->clock_source)));
	json_object_set_new(object, "clock_error_ns", json_integer((json_int_t)stream->clock_error_ns));
	json_object_set_new(object, "loss_packets", json_integer((json_int_t)stream->loss_packets));
	json_object_set_new(object, "loss_from_ns", json_integer((json_int_t)stream->loss_from_ns));
	json_object_set_new(object, "loss_to_ns", json_integer((json_int_t)stream->loss_to_ns));
	json_object_set_new(object, "reading_age_ms", json_integer(stream->reading_age_ms));
	json_object_set_new(object, "stall_pid", json_integer(stream->stall_pid));
	json_object_set_new(object, "stall_uid", json_integer(stream->stall_uid));
	json_object_set_new(object, "stall_until_ns", json_integer((json_int_t)stream->stall_until_ns));
	return add_counters_to_json(object, COUNTERS_OF(stream));
}

static json_t *consumer_to_json(const struct ibvcap_status_consumer *consumer)
{
	json_t *object = json_pack("{s:s, s:I, s:s, s:I, s:I}", "stream", consumer->stream, "queue",
	                           (json_int_t)consumer->queue, "policy", status_view_policy_name(consumer->policy),
	                           "pid", (json_int_t)consumer->pid, "uid", (json_int_t)consumer->uid);

	json_object_set_new(object, "group", json_string(consumer->group));
	return add_counters_to_json(object, COUNTERS_OF(consumer));
}

static json_t *channel_to_json(const struct ibvcap_status_channel *channel)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", channel->name, "interface", channel->interface,
	                           "device", channel->device, "backend", channel->backend, "state", channel->state);

	add_epoch_to_json(object, channel->epoch);
	json_object_set_new(object, "rate_bps", json_integer((json_int_t)channel->rate_bps));
	json_object_set_new(object, "burst_bytes", json_integer(channel->burst_bytes));
	json_object_set_new(object, "slot_bytes", json_integer(channel->slot_bytes));
	json_object_set_new(object, "arena_slots", json_integer(channel->arena_slots));
	json_object_set_new(object, "page_bytes", json_integer(channel->page_bytes));
	json_object_set_new(object, "send_queue_slots", json_integer(channel->send_queue_slots));
	json_object_set_new(object, "n_destinations", json_integer(channel->n_destinations));
	json_object_set_new(object, "n_unresolved", json_integer(channel->n_unresolved));
	json_object_set_new(object, "max_senders", json_integer(channel->max_senders));
	return add_counters_to_json(object, COUNTERS_OF(channel));
}

static json_t *sender_to_json(const struct ibvcap_status_sender *sender)
{
	json_t *object = json_pack("{s:s, s:I, s:I}", "channel", sender->channel, "pid", (json_int_t)sender->pid, "uid",
	                           (json_int_t)sender->uid);

	return add_counters_to_json(object, COUNTERS_OF(sender));
}

static json_t *interface_to_json(const struct ibvcap_status_interface *interface)
{
	json_t *object = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:s}", "interface", interface->interface,
	                           "device", interface->device, "reading_age_ms", (json_int_t)interface->reading_age_ms,
	                           "backend", interface->backend, "backend_why", interface->backend_why, "backend_how",
	                           interface->backend_how, "backend_better", interface->backend_better,
	                           "backend_command", interface->backend_command);

	return add_counters_to_json(object, COUNTERS_OF(interface));
}

json_t *status_view_to_json(const struct status_view *view)
{
	json_t *streams = json_array(), *consumers = json_array(), *channels = json_array();
	json_t *senders = json_array(), *interfaces = json_array();

	for (int i = 0; i < view->n_streams; i++)
		json_array_append_new(streams, stream_to_json(view, &view->streams[i]));
	for (int i = 0; i < view->n_consumers; i++)
		json_array_append_new(consumers, consumer_to_json(&view->consumers[i]));
	for (int i = 0; i < view->n_channels; i++)
		json_array_append_new(channels, channel_to_json(&view->channels[i]));
	for (int i = 0; i < view->n_senders; i++)
		json_array_append_new(senders, sender_to_json(&view->senders[i]));
	for (int i = 0; i < view->n_interfaces; i++)
		json_array_append_new(interfaces, interface_to_json(&view->interfaces[i]));
	return json_pack("{s:i, s:{s:s, s:I}, s:o, s:o, s:o, s:o, s:o}", "schema_version", SCHEMA_VERSION, "daemon",
	                 "version", view->version, "pid", (json_int_t)view->pid, "streams", streams, "consumers",
	                 consumers, "channels", channels, "senders", senders, "interfaces", interfaces);
}
