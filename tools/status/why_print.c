// SPDX-License-Identifier: Apache-2.0
/* Prints what why_explain() makes of a stream's counters. */
#include "tools/common/report.h"
#include "tools/common/terminal.h"
#include "tools/status/why_look.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA_VERSION 1

/* ---- for people ---------------------------------------------------------------------------------- */

static void print_stream_sum(const struct why_facts *facts)
{
	printf("stream %s: %s on %s, backend %s\n", facts->stream->name, facts->stream->state, facts->stream->interface,
	       facts->stream->backend);
	if (facts->stream->offloads[0])
		printf("  %s\n", facts->stream->offloads);
	counters_print_sum(COUNTERS_OF(facts->stream), status_view_sums[STATUS_STREAM]);
	putchar('\n');
}

static void print_consumer_sum(const struct ibvcap_status_consumer *consumer)
{
	bool is_tap = consumer->policy == IBVCAP_POLICY_TAP;
	char process[USER_PROCESS_BYTES];

	printf("%s %s", is_tap ? "tap" : "consumer", user_process(consumer->pid, consumer->uid, process));
	if (consumer->queue)
		printf(", queue %u", consumer->queue);
	putchar('\n');
	if (is_tap)
		return;
	counters_print_sum(COUNTERS_OF(consumer), status_view_sums[STATUS_CONSUMER]);
	puts(" since it attached");
}

static void print_last_loss(const struct why_line *line)
{
	char from[REPORT_UTC_BYTES] = "the start", to[REPORT_UTC_BYTES];

	if (line->from_ns)
		report_format_utc(line->from_ns, 3, from);
	report_format_utc(line->to_ns, 3, to);
	printf("  %-4s  %-14s %12s  the last %" PRIu64 " %sbetween %s and %s\n", "", "", "", line->last,
	       strcmp(line->place, "port") == 0 ? "counted " : "", from, to);
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
		if (line->is_unknown)
			printf("  %-14s %12s  %s\n", line->term, "", line->cause);
		else
			printf("  %-14s %12" PRIu64 "  %s\n", line->term, line->value, line->cause);
		if (line->last)
			print_last_loss(line);
		if (line->remedy)
			printf("  %-4s  %-14s %12s  -> %s\n", "", "", "", line->remedy);
	}
}

static void print_explained(const struct status_view *view, const struct why_facts *facts,
                            const struct why_report *report, const struct why_look *look)
{
	int *order = why_worst_first(view, STATUS_CONSUMER);

	print_stream_sum(facts);
	print_why_lines(report, NULL);
	flow_view_print(view, facts->stream);
	if (look)
		why_look_print(look);
	for (int i = 0; i < view->n_consumers; i++) {
		const struct ibvcap_status_consumer *consumer = &view->consumers[order ? order[i] : i];

		if (strcmp(consumer->stream, facts->stream->name) != 0)
			continue;
		print_consumer_sum(consumer);
		print_why_lines(report, consumer);
	}
	free(order);
}

/* ---- the command --------------------------------------------------------------------------------- */

static uint64_t why_matched(const struct status_view *view, const struct ibvcap_status_stream *queue)
{
	struct stream_sum sum;

	return counters_value(stream_sum_of(view, queue, &sum), "matched");
}

bool why_has_matched(const struct status_view *view, const char *stream)
{
	for (int i = 0; i < view->n_streams; i++)
		if (strcmp(view->streams[i].name, stream) == 0 && why_matched(view, &view->streams[i]))
			return true;
	return false;
}

static bool why_is_quiet(const struct status_view *before, const struct ibvcap_status_stream *stream)
{
	for (int i = 0; before && i < before->n_streams; i++)
		if (before->streams[i].epoch == stream->epoch && before->streams[i].queue == stream->queue &&
		    strcmp(before->streams[i].name, stream->name) == 0)
			return why_matched(before, &before->streams[i]) ==
			       counters_value(COUNTERS_OF(stream), "matched");
	return false;
}

int why_print(const struct status_view *view, const struct status_view *before, const char *stream, bool as_json)
{
	static struct why_report report;
	struct why_stream one;
	json_t *queues = json_array();
	struct why_look *look;
	int n_found = 0;

	for (int i = 0; i < view->n_streams; i++) {
		if (strcmp(view->streams[i].name, stream) != 0 || view->streams[i].queue != 0)
			continue;
		why_stream_init(&one, view, &view->streams[i]);
		one.facts.is_quiet = why_is_quiet(before, &one.whole);
		why_explain(&one.facts, &report);
		look = one.facts.is_quiet || counters_value(COUNTERS_OF(&one.whole), "matched") == 0
		               ? why_look_new(view, &one.whole, one.whole.interface)
		               : NULL;
		if (as_json)
			json_array_append_new(queues, why_report_to_json(&one.facts, &report, look));
		else
			print_explained(view, &one.facts, &report, look);
		free(look);
		n_found++;
	}
	if (as_json && n_found)
		report_json(json_pack("{s:i, s:O}", "schema_version", SCHEMA_VERSION, "queues", queues),
		            JSON_INDENT(2));
	json_decref(queues);
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
