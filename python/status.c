// SPDX-License-Identifier: Apache-2.0
/* A status of the daemon as dicts and lists, by the table of fields. The keys are those of ibvcap status --json. */
#include "python/binding.h"

#include "lib/status/status.h"

#include <string.h>

static PyObject *field_to_object(const struct status_field *field, const void *part)
{
	uint64_t number;

	if (field->type == STATUS_TEXT)
		return PyUnicode_DecodeUTF8((const char *)part + field->offset,
		                            (Py_ssize_t)strnlen((const char *)part + field->offset, field->bytes),
		                            "backslashreplace");
	number = status_number(field, part);
	switch (field->type) {
	case STATUS_HEX:
		return PyUnicode_FromFormat("%08lx%08lx", (unsigned long)(number >> 32),
		                            (unsigned long)(number & UINT32_MAX));
	case STATUS_BOOL:
		return PyBool_FromLong(number != 0);
	case STATUS_WORD:
		return PyUnicode_FromString(status_word(field->words, number));
	default:
		return PyLong_FromLongLong((long long)number);
	}
}

/* Takes the reference to value. */
static bool set_item(PyObject *dict, const char *key, PyObject *value)
{
	bool is_set = value && PyDict_SetItemString(dict, key, value) == 0;

	Py_XDECREF(value);
	return is_set;
}

static bool set_counters(PyObject *dict, const struct status_part *known, const void *part)
{
	const struct ibvcap_counter *counters;
	uint32_t n;

	if (!known->counters_at)
		return true;
	memcpy(&counters, (const char *)part + known->counters_at, sizeof(counters));
	memcpy(&n, (const char *)part + known->counters_at + sizeof(counters), sizeof(n));
	for (uint32_t i = 0; i < n; i++)
		if (!set_item(dict, counters[i].label, PyLong_FromUnsignedLongLong(counters[i].value)))
			return false;
	return true;
}

static PyObject *part_to_dict(enum status_kind_of_part kind, const void *part)
{
	const struct status_part *known = &status_parts[kind];
	PyObject *dict = PyDict_New();
	bool is_whole = dict != NULL;

	for (const struct status_field *field = known->fields; is_whole && field->name; field++)
		if (status_is_shown(field, part))
			is_whole = set_item(dict, field->name, field_to_object(field, part));
	if (!is_whole || !set_counters(dict, known, part))
		Py_CLEAR(dict);
	return dict;
}

union any_part {
	size_t size; /* each part begins with it */
	struct ibvcap_status_daemon daemon;
	struct ibvcap_status_stream stream;
	struct ibvcap_status_flow flow;
	struct ibvcap_status_consumer consumer;
	struct ibvcap_status_channel channel;
	struct ibvcap_status_sender sender;
	struct ibvcap_status_interface interface;
};

static int read_part(const struct ibvcap_status *status, enum status_kind_of_part kind, uint32_t i,
                     union any_part *part)
{
	memset(part, 0, sizeof(*part));
	part->size = status_parts[kind].bytes;
	switch (kind) {
	case STATUS_STREAM:
		return ibvcap_status_stream(status, i, &part->stream);
	case STATUS_FLOW:
		return ibvcap_status_flow(status, i, &part->flow);
	case STATUS_CONSUMER:
		return ibvcap_status_consumer(status, i, &part->consumer);
	case STATUS_CHANNEL:
		return ibvcap_status_channel(status, i, &part->channel);
	case STATUS_SENDER:
		return ibvcap_status_sender(status, i, &part->sender);
	case STATUS_INTERFACE:
		return ibvcap_status_interface(status, i, &part->interface);
	default:
		return i == 0 && ibvcap_status_daemon(status, &part->daemon) == 0;
	}
}

static bool is_flow_of(const union any_part *flow, const char *stream)
{
	return !stream || strcmp(flow->flow.stream, stream) == 0;
}

/* All parts of a kind as a list; of flows, those of the stream. */
static PyObject *parts_to_list(const struct ibvcap_status *status, enum status_kind_of_part kind, const char *stream)
{
	PyObject *list = PyList_New(0);
	union any_part part;

	for (uint32_t i = 0; list && read_part(status, kind, i, &part) > 0; i++) {
		PyObject *dict;

		if (kind == STATUS_FLOW && !is_flow_of(&part, stream))
			continue;
		dict = part_to_dict(kind, &part);
		if (dict && kind == STATUS_STREAM &&
		    !set_item(dict, "flows", parts_to_list(status, STATUS_FLOW, part.stream.name)))
			Py_CLEAR(dict);
		if (!dict || PyList_Append(list, dict) < 0)
			Py_CLEAR(list);
		Py_XDECREF(dict);
	}
	return list;
}

static PyObject *whole_to_dict(const struct ibvcap_status *status)
{
	static const enum status_kind_of_part lists[] = {STATUS_STREAM, STATUS_CONSUMER, STATUS_CHANNEL, STATUS_SENDER,
	                                                 STATUS_INTERFACE};
	PyObject *dict = PyDict_New();
	union any_part daemon;
	bool is_whole = dict && read_part(status, STATUS_DAEMON, 0, &daemon) &&
	                set_item(dict, status_parts[STATUS_DAEMON].list, part_to_dict(STATUS_DAEMON, &daemon));

	for (size_t i = 0; is_whole && i < sizeof(lists) / sizeof(lists[0]); i++)
		is_whole = set_item(dict, status_parts[lists[i]].list, parts_to_list(status, lists[i], NULL));
	if (!is_whole)
		Py_CLEAR(dict);
	return dict;
}

PyObject *status_to_dict(PyObject *module, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"socket", "timeout", NULL};
	const char *socket_path = NULL;
	struct ibvcap_status *status;
	uint32_t timeout_ms = 0;
	PyObject *dict;
	int r;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$zO&:status", names, &socket_path, answer_timeout_of,
	                                 &timeout_ms))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = ibvcap_status(socket_path, timeout_ms, &status);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_error(r);
	dict = whole_to_dict(status);
	ibvcap_status_free(status);
	return dict;
}
