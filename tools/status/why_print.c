// SPDX-License-Identifier: Apache-2.0
/* Prints what why_explain() makes of a stream's counters. */
#include "tools/status/why_print.h"

#include "tools/common/report.h"
#include "tools/common/terminal.h"
#include "tools/common/user_name.h"
#include "tools/status/status_view.h"
#include "tools/status/why.h"
#include "tools/status/why_look.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA_VERSION 1

static const char *const why_level_names[] = {[WHY_OK] = "ok", [WHY_NOTE] = "note", [WHY_LOSS] = "loss"};

/* ---- JSON ---------------------------------------------------------------------------------------- */

static json_t *why_line_to_json(const struct why_line *line)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:s, s:s?}", "place", line->place, "level",
	                           why_level_names[line->level], "term", line->term, "value", (json_int_t)line->value,
	                           "cause", line->cause, "remedy", line->remedy);

	if (line->consumer)
		json_object_set_new(object, "pid", json_integer(line->consumer->pid));
	if (line->last)
		json_object_set_new(object, "last",
		                    json_pack("{s:I, s:I, s:I}", "packets", (json_int_t)line->last, "from_ns",
		                              (json_int_t)line->from_ns, "to_ns", (json_int_t)line->to_ns));
	return object;
}

static json_t *why_report_to_json(const struct why_facts *facts, const struct why_report *report,
                                  const struct why_look *look)
{
	json_t *lines = json_array(), *object;

	for (uint32_t i = 0; i < report->n_lines; i++)
		json_array_append_new(lines, why_line_to_json(&report->lines[i]));
	object = json_pack("{s:s, s:I, s:s, s:s, s:s, s:o}", "stream", facts->stream->name, "queue",
	                   (json_int_t)facts->stream->queue, "interface", facts->stream->interface, "backend",
	                   facts->stream->backend, "state", facts->stream->state, "lines", lines);
	if (look)
		json_object_set_new(object, "look", why_look_to_json(look));
	return object;
}

/* ---- for people ---------------------------------------------------------------------------------- */

static void print_stream_sum(const struct status_view *view, const struct why_facts *facts)
{
	static const char *const terms[] = {"matched", "published", "no_buffer", "errored", "joined", "in_flight"};

	printf("stream %s: %s on %s, backend %s\n", facts->stream->name, facts->stream->state, facts->stream->interface,
	       facts->stream->backend);
	flow_view_print(view, facts->stream);
	counters_print_sum(COUNTERS_OF(facts->stream), terms, sizeof(terms) / sizeof(terms[0]));
	putchar('\n');
}

static void print_consumer_sum(const struct ibvcap_status_consumer *consumer)
{
	static const char *const terms[] = {"published", "delivered", "skipped", "lag"};
	bool is_tap = consumer->policy == IBVCAP_POLICY_TAP;
	char user[USER_NAME_BYTES];

	printf("%s process %d of user %s", is_tap ? "tap" : "consumer", (int)consumer->pid,
	       user_name_and_number(consumer->uid, user));
	if (consumer->queue)
		printf(", queue %u", consumer->queue);
	putchar('\n');
	if (is_tap)
		return;
	counters_print_sum(COUNTERS_OF(consumer), terms, sizeof(terms) / sizeof(terms[0]));
	puts(" since it attached");
}

static void print_last_loss(const struct why_line *line)
{
	char from[REPORT_UTC_BYTES] = "the start", to[REPORT_UTC_BYTES];

	if (line->from_ns)
		report_format_utc(line->from_ns, 3, from);
	report_format_utc(line->to_ns, 3, to);
	printf("  %-4s  %-13s %12s  the last %" PRIu64 " between %s and %s\n", "", "", "", line->last, from, to);
}

static void print_why_lines(const struct why_report *report, const struct ibvcap_status_consumer *consumer)
{
	static const enum terminal_colour colours[] = {
		[WHY_OK] = TERMINAL_GREEN, [WHY_NOTE] = TERMINAL_YELLOW, [WHY_LOSS] = TERMINAL_RED};

	for (uint32_t i = 0; i < report->n_lines; i++) {
		const struct why_line *line = &report->lines[i];

		if (line->consumer != consumer)
			continue;
		terminal_print(stdout, colours[line->level], "  %-4s",
		               line->level == WHY_LOSS ? "LOSS" : why_level_names[line->level]);
		printf("  %-13s %12" PRIu64 "  %s\n", line->term, line->value, line->cause);
		if (line->last)
			print_last_loss(line);
		if (line->remedy)
			printf("  %-4s  %-13s %12s  -> %s\n", "", "", "", line->remedy);
	}
}

static void print_explained(const struct status_view *view, const struct why_facts *facts,
                            const struct why_report *report, const struct why_look *look)
{
	print_stream_sum(view, facts);
	print_why_lines(report, NULL);
	if (look)
		why_look_print(look);
	for (uint32_t i = 0; i < facts->n_consumers; i++) {
		const struct ibvcap_status_consumer *consumer = &facts->consumers[i];

		if (strcmp(consumer->stream, facts->stream->name) != 0)
			continue;
		print_consumer_sum(consumer);
		print_why_lines(report, consumer);
	}
}

/* ---- the command --------------------------------------------------------------------------------- */

static const struct ibvcap_status_interface *find_why_interface(const struct status_view *view,
                                                                const struct ibvcap_status_stream *stream)
{
	for (int i = 0; i < view->n_interfaces; i++)
		if (strcmp(view->interfaces[i].interface, stream->interface) == 0 &&
		    strcmp(view->interfaces[i].backend, stream->backend) == 0)
			return &view->interfaces[i];
	return NULL;
}

/* A stream with several queues is explained by their sum. */
static struct ibvcap_status_stream take_sum(const struct status_view *view, const struct ibvcap_status_stream *queue,
                                            struct stream_sum *sum)
{
	struct ibvcap_status_stream stream = *queue;
	struct counters counters = stream_sum_of(view, queue, sum);

	stream.counters = counters.at;
	stream.n_counters = counters.n;
	return stream;
}

/* Explain the stream, or the two of that name, of which one ends. Returns their number. */
static int explain_streams(const struct status_view *view, const char *stream, bool as_json, struct why_report *report)
{
	struct why_facts facts = {.consumers = view->consumers, .n_consumers = (uint32_t)view->n_consumers};
	struct ibvcap_status_stream whole;
	json_t *queues = json_array();
	struct stream_sum sum;
	struct why_look *look;
	int n_found = 0;

	for (int i = 0; i < view->n_streams; i++) {
		if (strcmp(view->streams[i].name, stream) != 0 || view->streams[i].queue != 0)
			continue;
		whole = take_sum(view, &view->streams[i], &sum);
		facts.stream = &whole;
		facts.interface = find_why_interface(view, &view->streams[i]);
		facts.lacks_group = flow_view_lacks_group(view, facts.stream);
		why_explain(&facts, report);
		look = counters_value(COUNTERS_OF(&whole), "matched") == 0 ? why_look_new(view, &whole, whole.interface)
		                                                           : NULL;
		if (as_json)
			json_array_append_new(queues, why_report_to_json(&facts, report, look));
		else
			print_explained(view, &facts, report, look);
		free(look);
		n_found++;
	}
	if (as_json && n_found)
		report_json(json_pack("{s:i, s:O}", "schema_version", SCHEMA_VERSION, "queues", queues),
		            JSON_INDENT(2));
	json_decref(queues);
	return n_found;
}

int why_print(const struct status_view *view, const char *stream, bool as_json)
{
	struct why_report *report = malloc(sizeof(*report));
	int n_found = report ? explain_streams(view, stream, as_json, report) : 0;

	free(report);
	return n_found;
}

bool why_print_interface(const char *interface, bool as_json)
{
	struct why_look *look = why_look_new(NULL, NULL, interface);
	bool has_looked = look && look->error == 0;

	if (look && as_json)
		report_json(json_pack("{s:i, s:o}", "schema_version", SCHEMA_VERSION, "look", why_look_to_json(look)),
		            JSON_INDENT(2));
	else if (look)
		why_look_print(look);
	free(look);
	return has_looked;
}
