// SPDX-License-Identifier: Apache-2.0
/* Copies the parts of a status into arrays, and makes JSON of them as the table of a status has it. */
#include "lib/view/view.h"

#include "lib/json/known_to_json.h"
#include "lib/json/text_to_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA_VERSION 1

/* ---- arrays -------------------------------------------------------------------------------------- */

/* An array of all parts of one kind; NULL: no memory. */
#define COPY_PARTS(view, kind, n)                                                               \
	do {                                                                                    \
		(view)->kind##s = calloc((size_t)(n) + 1, sizeof(*(view)->kind##s));            \
		(view)->n_##kind##s = (view)->kind##s ? (int)(n) : 0;                           \
		for (int i = 0; i < (view)->n_##kind##s; i++) {                                 \
			(view)->kind##s[i].size = sizeof(*(view)->kind##s);                     \
			ibvcap_status_##kind((view)->status, (uint32_t)i, &(view)->kind##s[i]); \
		}                                                                               \
	} while (0)

int status_view_read(struct status_view *view, const char *socket_path, uint32_t timeout_ms)
{
	int r;

	*view = (struct status_view){.daemon = IBVCAP_INIT(struct ibvcap_status_daemon)};
	r = ibvcap_status(socket_path, timeout_ms, &view->status);
	if (r < 0)
		return r;
	ibvcap_status_daemon(view->status, &view->daemon);
	COPY_PARTS(view, stream, view->daemon.n_streams);
	COPY_PARTS(view, flow, view->daemon.n_flows);
	COPY_PARTS(view, consumer, view->daemon.n_consumers);
	COPY_PARTS(view, channel, view->daemon.n_channels);
	COPY_PARTS(view, sender, view->daemon.n_senders);
	COPY_PARTS(view, interface, view->daemon.n_interfaces);
	if (view->streams && view->flows && view->consumers && view->channels && view->senders && view->interfaces)
		return 0;
	status_view_deinit(view);
	return -ENOMEM;
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

const void *status_view_parts(const struct status_view *view, enum status_kind_of_part kind, int *n)
{
	const struct {
		const void *parts;
		int n;
	} lists[STATUS_N_PARTS] = {
		[STATUS_DAEMON] = {&view->daemon, view->status != NULL},
		[STATUS_STREAM] = {view->streams, view->n_streams},
		[STATUS_FLOW] = {view->flows, view->n_flows},
		[STATUS_CONSUMER] = {view->consumers, view->n_consumers},
		[STATUS_CHANNEL] = {view->channels, view->n_channels},
		[STATUS_SENDER] = {view->senders, view->n_senders},
		[STATUS_INTERFACE] = {view->interfaces, view->n_interfaces},
	};

	*n = lists[kind].n;
	return lists[kind].parts;
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static json_t *field_to_json(const struct status_field *field, const void *part)
{
	uint64_t number = field->type == STATUS_TEXT ? 0 : status_number(field, part);
	char digits[24];

	switch (field->type) {
	case STATUS_TEXT:
		return text_to_json((const char *)part + field->offset);
	case STATUS_HEX:
		snprintf(digits, sizeof(digits), "%016" PRIx64, number);
		return json_string(digits);
	case STATUS_BOOL:
		return json_boolean(number);
	case STATUS_WORD:
		return json_string(status_word(field->words, number));
	default:
		return field->may_lack ? known_to_json(number) : json_integer((json_int_t)number);
	}
}

static json_t *part_to_json(enum status_kind_of_part kind, const void *part)
{
	const struct ibvcap_counter *counters;
	json_t *object = json_object();
	uint32_t n;

	for (const struct status_field *field = status_parts[kind].fields; field->name; field++)
		if (status_is_shown(field, part))
			json_object_set_new(object, field->name, field_to_json(field, part));
	counters = status_counters(&status_parts[kind], part, &n);
	for (uint32_t i = 0; i < n; i++)
		json_object_set_new(object, counters[i].label, json_integer((json_int_t)counters[i].value));
	return object;
}

static json_t *flows_to_json(const struct status_view *view, const struct ibvcap_status_stream *stream)
{
	json_t *flows = json_array();

	for (int i = 0; i < view->n_flows; i++) {
		enum flow_group group = view->groups ? view->groups[i] : FLOW_GROUP_UNKNOWN;
		json_t *flow;

		if (strcmp(view->flows[i].stream, stream->name) != 0)
			continue;
		flow = part_to_json(STATUS_FLOW, &view->flows[i]);
		if (group == FLOW_GROUP_JOINED || group == FLOW_GROUP_NOT_JOINED)
			json_object_set_new(flow, "joined", json_boolean(group == FLOW_GROUP_JOINED));
		json_array_append_new(flows, flow);
	}
	return flows;
}

static json_t *parts_to_json(const struct status_view *view, enum status_kind_of_part kind)
{
	json_t *array = json_array(), *object;
	int n;
	const char *part = status_view_parts(view, kind, &n);

	for (int i = 0; i < n; i++, part += status_parts[kind].bytes) {
		object = part_to_json(kind, part);
		if (kind == STATUS_STREAM)
			json_object_set_new(object, "flows", flows_to_json(view, &view->streams[i]));
		json_array_append_new(array, object);
	}
	return array;
}

json_t *status_view_to_json(const struct status_view *view)
{
	static const enum status_kind_of_part lists[] = {STATUS_STREAM, STATUS_CONSUMER, STATUS_CHANNEL, STATUS_SENDER,
	                                                 STATUS_INTERFACE};
	json_t *all = json_pack("{s:i, s:o}", "schema_version", SCHEMA_VERSION, status_parts[STATUS_DAEMON].list,
	                        part_to_json(STATUS_DAEMON, &view->daemon));

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		json_object_set_new(all, status_parts[lists[i]].list, parts_to_json(view, lists[i]));
	return all;
}
