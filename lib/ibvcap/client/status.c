// SPDX-License-Identifier: Apache-2.0
/* A snapshot of the daemon: asks for it, stores the parts of the answer, and copies them out to the caller. */
#include "lib/base/fd.h"
#include "lib/base/min.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/sized_struct.h"
#include "lib/status/counters.h"

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
	struct status_list parts[STATUS_N_PARTS];
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

/*
 * Give the values their names. Left out are counters that a device does not have, and those of a newer daemon. NULL: no
 * memory.
 */
static const struct ibvcap_counter *status_name_counters(struct ibvcap_status *status, const struct status_part *known,
                                                         const uint64_t *values, uint32_t *n)
{
	struct ibvcap_counter **slot = status_append(&status->counters, sizeof(*slot));
	const uint32_t n_values = u32_min(*n, known->n_counters);
	struct ibvcap_counter *counters;

	if (!slot)
		return NULL;
	*slot = counters = calloc(n_values + 1, sizeof(*counters));
	*n = 0;
	for (uint32_t i = 0; counters && i < n_values; i++)
		if (known->counters[i].name && values[i] != COUNTER_ABSENT)
			counters[(*n)++] = (struct ibvcap_counter){known->counters[i].name, values[i]};
	return counters;
}

/* The message was checked: status_is_sound(). 0 or -ENOMEM. */
static int status_add(struct ibvcap_status *status, const struct protocol_part *message)
{
	const struct status_part *known = &status_parts[message->kind];
	uint8_t *part = status_append(&status->parts[message->kind], known->bytes);
	const size_t bytes = *(const size_t *)message->body;
	const struct ibvcap_counter *counters;

	if (!part)
		return -ENOMEM;
	memset(part, 0, known->bytes);
	memcpy(part, message->body, bytes < known->bytes ? bytes : known->bytes);
	if (!known->counters_at)
		return 0;
	counters = status_name_counters(status, known, (const uint64_t *)(message->body + bytes),
	                                (uint32_t *)(part + known->counters_at + sizeof(counters)));
	memcpy(part + known->counters_at, &counters, sizeof(counters));
	return counters ? 0 : -ENOMEM;
}

static int status_ask(struct client *client, struct ibvcap_status *status)
{
	struct protocol_bare request = {0};
	union protocol_message message;
	int r;

	protocol_init(&request.header, PROTOCOL_STATUS, sizeof(request));
	r = client_send(client, &request.header);
	for (uint32_t i = 0; r == 0; i++) {
		r = client_receive(client, &message, NULL, NULL);
		if (r < 0)
			return r;
		if (message.header.type == PROTOCOL_END)
			return 0;
		r = message.header.type == PROTOCOL_PART && i < PARTS_MAX ? status_add(status, &message.part) : -EPROTO;
		if (r < 0)
			return error_set(r, "control socket '%s': the answer to a request for status: %s", client->path,
			                 strerror(-r));
	}
	return r;
}

int ibvcap_status(const char *path, uint32_t timeout_ms, struct ibvcap_status **status)
{
	struct client client = CLIENT_INIT;
	struct ibvcap_status *new = calloc(1, sizeof(*new));
	int r = new ? client_connect(&client, path, timeout_ms) : error_set(-ENOMEM, "out of memory");

	if (r == 0)
		r = status_ask(&client, new);
	fd_close(&client.socket);
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
	for (unsigned i = 0; i < STATUS_N_PARTS; i++)
		free(status->parts[i].items);
	free(status);
}

/* ---- copies of the parts ---------------------------------------------------------------------------- */

static int status_copy(const struct ibvcap_status *status, enum status_kind_of_part kind, uint32_t index, void *to)
{
	const struct status_list *list = &status->parts[kind];
	const struct status_part *known = &status_parts[kind];
	int r;

	if (index >= list->n)
		return 0;
	r = sized_struct_write(to, (const uint8_t *)list->items + (size_t)index * known->bytes, known->bytes,
	                       known->name);
	return r < 0 ? r : 1;
}

int ibvcap_status_daemon(const struct ibvcap_status *status, struct ibvcap_status_daemon *daemon)
{
	struct ibvcap_status_daemon ours = IBVCAP_INIT(struct ibvcap_status_daemon);

	status_copy(status, STATUS_DAEMON, 0, &ours);
	ours.n_streams = status->parts[STATUS_STREAM].n;
	ours.n_consumers = status->parts[STATUS_CONSUMER].n;
	ours.n_channels = status->parts[STATUS_CHANNEL].n;
	ours.n_senders = status->parts[STATUS_SENDER].n;
	ours.n_interfaces = status->parts[STATUS_INTERFACE].n;
	ours.n_flows = status->parts[STATUS_FLOW].n;
	return sized_struct_write(daemon, &ours, sizeof(ours), status_parts[STATUS_DAEMON].name);
}

int ibvcap_status_stream(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_stream *stream)
{
	return status_copy(status, STATUS_STREAM, index, stream);
}

int ibvcap_status_flow(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_flow *flow)
{
	return status_copy(status, STATUS_FLOW, index, flow);
}

int ibvcap_status_consumer(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_consumer *consumer)
{
	return status_copy(status, STATUS_CONSUMER, index, consumer);
}

int ibvcap_status_channel(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_channel *channel)
{
	return status_copy(status, STATUS_CHANNEL, index, channel);
}

int ibvcap_status_sender(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_sender *sender)
{
	return status_copy(status, STATUS_SENDER, index, sender);
}

int ibvcap_status_interface(const struct ibvcap_status *status, uint32_t index,
                            struct ibvcap_status_interface *interface)
{
	return status_copy(status, STATUS_INTERFACE, index, interface);
}
