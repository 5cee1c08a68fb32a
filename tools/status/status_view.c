// SPDX-License-Identifier: Apache-2.0
/* A status as arrays, as names and as JSON, and the sums over the queues of a stream. */
#include "tools/status/status_view.h"

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
	int r;

	*view = (struct status_view){.daemon = IBVCAP_INIT(struct ibvcap_status_daemon)};
	r = ibvcap_status(socket_path, timeout_ms, &view->status);
	if (r < 0)
		return r;
	ibvcap_status_daemon(view->status, &view->daemon);
	COPY_PARTS(view, stream, view->daemon.n_streams);
	COPY_PARTS(view, flow, view->daemon.n_flows);
	view->groups = new_parts(view->daemon.n_flows, sizeof(*view->groups));
	flow_view_find_groups(view);
	COPY_PARTS(view, consumer, view->daemon.n_consumers);
	COPY_PARTS(view, channel, view->daemon.n_channels);
	COPY_PARTS(view, sender, view->daemon.n_senders);
	COPY_PARTS(view, interface, view->daemon.n_interfaces);
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

bool counters_is_total(struct counters counters, const char *label)
{
	const struct status_field *row = status_find_counter(&status_parts[counters.of], label);

	return row && row->kind == STATUS_TOTAL;
}

void counters_print_sum(struct counters counters, const char *const *labels, unsigned n_labels)
{
	for (unsigned i = 0; i < n_labels; i++) {
		uint64_t value = counters_value(counters, labels[i]);

		if (value == 0 && strcmp(labels[i], "joined") == 0) /* only a stream that reassembles has some */
			continue;
		printf("%s%s %" PRIu64, i == 0 ? "  " : i == 1 ? " = " : " + ", labels[i], value);
	}
}

const char *status_view_clock_name(enum ibvcap_clock_source source)
{
	return status_word(status_clock_words, source);
}

const char *status_view_policy_name(uint32_t policy)
{
	return status_word(status_policy_words, policy);
}

/* ---- JSON: as the table of a status has it ------------------------------------------------------- */

static json_t *field_to_json(const struct status_field *field, const void *part)
{
	const char *text = (const char *)part + field->offset;
	uint64_t number = field->type == STATUS_TEXT ? 0 : status_number(field, part);
	char digits[24];

	switch (field->type) {
	case STATUS_TEXT:
		return json_string(text);
	case STATUS_HEX:
		snprintf(digits, sizeof(digits), "%016" PRIx64, number);
		return json_string(digits);
	case STATUS_BOOL:
		return json_boolean(number);
	case STATUS_WORD:
		return json_string(status_word(field->words, number));
	default:
		return json_integer((json_int_t)number);
	}
}

static json_t *part_to_json(enum status_kind_of_part kind, const void *part)
{
	const struct status_part *known = &status_parts[kind];
	const uint8_t *at = (const uint8_t *)part + known->counters_at;
	struct counters counters = {0};
	json_t *object = json_object();

	for (const struct status_field *field = known->fields; field->name; field++)
		if (status_is_shown(field, part))
			json_object_set_new(object, field->name, field_to_json(field, part));
	if (known->counters_at) {
		memcpy(&counters.at, at, sizeof(counters.at));
		memcpy(&counters.n, at + sizeof(counters.at), sizeof(counters.n));
	}
	for (uint32_t i = 0; i < counters.n; i++)
		json_object_set_new(object, counters.at[i].label, json_integer((json_int_t)counters.at[i].value));
	return object;
}

static json_t *parts_to_json(enum status_kind_of_part kind, const void *parts, int n)
{
	json_t *array = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(
			array, part_to_json(kind, (const uint8_t *)parts + (size_t)i * status_parts[kind].bytes));
	return array;
}

static json_t *flows_to_json(const struct status_view *view, const struct ibvcap_status_stream *stream)
{
	json_t *flows = json_array();

	for (int i = 0; i < view->n_flows; i++) {
		enum flow_group group = view->groups[i];
		json_t *flow;

		if (!flow_view_is_of(&view->flows[i], stream))
			continue;
		flow = part_to_json(STATUS_FLOW, &view->flows[i]);
		if (group == FLOW_GROUP_JOINED || group == FLOW_GROUP_NOT_JOINED)
			json_object_set_new(flow, "joined", json_boolean(group == FLOW_GROUP_JOINED));
		json_array_append_new(flows, flow);
	}
	return flows;
}

json_t *status_view_to_json(const struct status_view *view)
{
	json_t *streams = parts_to_json(STATUS_STREAM, view->streams, view->n_streams);

	for (int i = 0; i < view->n_streams; i++)
		json_object_set_new(json_array_get(streams, (size_t)i), "flows",
		                    flows_to_json(view, &view->streams[i]));
	return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "schema_version", SCHEMA_VERSION, "daemon",
	                 part_to_json(STATUS_DAEMON, &view->daemon), "streams", streams, "consumers",
	                 parts_to_json(STATUS_CONSUMER, view->consumers, view->n_consumers), "channels",
	                 parts_to_json(STATUS_CHANNEL, view->channels, view->n_channels), "senders",
	                 parts_to_json(STATUS_SENDER, view->senders, view->n_senders), "interfaces",
	                 parts_to_json(STATUS_INTERFACE, view->interfaces, view->n_interfaces));
}

/* ---- several queues of a stream ------------------------------------------------------------------ */

static bool stream_sum_is_shared(const char *label)
{
	const struct status_field *row = status_find_counter(&status_parts[STATUS_STREAM], label);

	return row && row->is_shared;
}

static void add_to_sum(struct ibvcap_counter *counter, uint64_t value)
{
	const struct status_field *row = status_find_counter(&status_parts[STATUS_STREAM], counter->label);

	if (!row || row->kind != STATUS_MAXIMUM)
		counter->value += value;
	else if (value > counter->value)
		counter->value = value;
}

/* A stream that ends and the one in its place have the same name, and another epoch each. A queue may fail alone. */
static bool is_queue_beside(const struct ibvcap_status_stream *other, const struct ibvcap_status_stream *queue)
{
	return strcmp(other->name, queue->name) == 0 && other->epoch == queue->epoch;
}

/* Entries of a stream follow one another, in the order of its queues. */
bool stream_sum_is_first(const struct status_view *view, int i)
{
	return i == 0 || !is_queue_beside(&view->streams[i - 1], &view->streams[i]) ||
	       view->streams[i].queue <= view->streams[i - 1].queue;
}

struct counters stream_sum_of(const struct status_view *view, const struct ibvcap_status_stream *queue,
                              struct stream_sum *sum)
{
	sum->n = queue->n_counters < STREAM_SUM_COUNTERS_MAX ? queue->n_counters : STREAM_SUM_COUNTERS_MAX;
	for (uint32_t i = 0; i < sum->n; i++) {
		sum->at[i] = queue->counters[i];
		if (stream_sum_is_shared(sum->at[i].label))
			continue;
		for (int k = 0; k < view->n_streams; k++)
			if (&view->streams[k] != queue && is_queue_beside(&view->streams[k], queue))
				add_to_sum(&sum->at[i],
				           counters_value(COUNTERS_OF(&view->streams[k]), sum->at[i].label));
	}
	return (struct counters){sum->at, sum->n, STATUS_STREAM};
}

struct counters stream_sum_queue(const struct ibvcap_status_stream *queue, struct stream_sum *own)
{
	own->n = 0;
	for (uint32_t i = 0; i < queue->n_counters && own->n < STREAM_SUM_COUNTERS_MAX; i++)
		if (!stream_sum_is_shared(queue->counters[i].label))
			own->at[own->n++] = queue->counters[i];
	return (struct counters){own->at, own->n, STATUS_STREAM};
}
