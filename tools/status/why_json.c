// SPDX-License-Identifier: Apache-2.0
/* Prints the result of why_explain() as JSON. */
#include "tools/status/why_look.h"

#include <stdlib.h>

const char *const why_level_names[] = {[WHY_OK] = "ok", [WHY_NOTE] = "note", [WHY_LOSS] = "loss"};

/* ---- JSON ---------------------------------------------------------------------------------------- */

static json_t *why_line_to_json(const struct why_line *line)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:s, s:s?}", "place", line->place, "level",
	                           why_level_names[line->level], "term", line->term, "value", (json_int_t)line->value,
	                           "cause", line->cause, "remedy", line->remedy);

	if (line->is_unknown)
		json_object_set_new(object, "value", json_null());
	if (line->consumer)
		json_object_set_new(object, "pid", json_integer(line->consumer->pid));
	if (line->last)
		json_object_set_new(object, "last",
		                    json_pack("{s:I, s:I, s:I}", "packets", (json_int_t)line->last, "from_ns",
		                              (json_int_t)line->from_ns, "to_ns", (json_int_t)line->to_ns));
	return object;
}

json_t *why_report_to_json(const struct why_facts *facts, const struct why_report *report, const struct why_look *look)
{
	json_t *lines = json_array(), *object;

	for (uint32_t i = 0; i < report->n_lines; i++)
		json_array_append_new(lines, why_line_to_json(&report->lines[i]));
	object = json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:o}", "stream", facts->stream->name, "queue",
	                   (json_int_t)facts->stream->queue, "interface", facts->stream->interface, "backend",
	                   facts->stream->backend, "state", facts->stream->state, "offloads", facts->stream->offloads,
	                   "lines", lines);
	if (look)
		json_object_set_new(object, "look", why_look_to_json(look));
	return object;
}

json_t *why_to_json(const struct status_view *view)
{
	struct why_report *report = malloc(sizeof(*report));
	int *order = why_worst_first(view, STATUS_STREAM);
	json_t *streams = json_array();
	struct why_stream stream;

	for (int i = 0; report && order && i < view->n_streams; i++) {
		if (!stream_sum_is_first(view, order[i]))
			continue;
		why_stream_init(&stream, view, &view->streams[order[i]]);
		why_explain(&stream.facts, report);
		json_array_append_new(streams, why_report_to_json(&stream.facts, report, NULL));
	}
	free(order);
	free(report);
	return streams;
}
