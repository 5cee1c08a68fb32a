// SPDX-License-Identifier: Apache-2.0
/*
 * The order in which `ibvcap why` and the page of `ibvcap metrics --listen` show parts of a status: the worst first. A
 * part that does not run is worse than one that loses packets; then come those of which not all is counted.
 */
#include "tools/status/why.h"

#include <stdlib.h>

enum badness { BAD_NOTHING, BAD_NOTE, BAD_NOT_KNOWN, BAD_LOSS, BAD_STOPPED };

struct rank {
	int index;
	enum badness badness;
	uint64_t lost; /* of one cause, the most */
};

static int compare_badness(const void *one_of, const void *other_of)
{
	const struct rank *one = one_of, *other = other_of;

	if (one->badness != other->badness)
		return one->badness > other->badness ? -1 : 1;
	if (one->lost != other->lost)
		return one->lost > other->lost ? -1 : 1;
	return one->index < other->index ? -1 : 1;
}

static void rank_take(struct rank *rank, enum badness badness, uint64_t lost)
{
	if (badness > rank->badness)
		rank->badness = badness;
	if (badness == BAD_LOSS && lost > rank->lost)
		rank->lost = lost;
}

static void rank_take_lines(struct rank *rank, const struct why_report *report,
                            const struct ibvcap_status_consumer *consumer)
{
	static const enum badness by_level[] = {[WHY_OK] = BAD_NOTHING, [WHY_NOTE] = BAD_NOTE, [WHY_LOSS] = BAD_LOSS};

	for (uint32_t i = 0; i < report->n_lines; i++) {
		const struct why_line *line = &report->lines[i];

		if (line->consumer == consumer)
			rank_take(rank, line->is_unknown ? BAD_NOT_KNOWN : by_level[line->level], line->value);
	}
}

static void rank_take_counters(struct rank *rank, struct counters counters, const char *const *labels)
{
	for (; *labels; labels++) {
		uint64_t n = counters_value(counters, *labels);

		rank_take(rank, n ? BAD_LOSS : BAD_NOTHING, n);
	}
}

/* The first queue of a stream has the rank of the stream. */
static void rank_streams(const struct status_view *view, enum status_kind_of_part kind, struct rank *ranks,
                         struct why_report *report)
{
	struct why_stream stream;
	int first = 0;

	for (int i = 0; i < view->n_streams; i++) {
		if (kind == STATUS_STREAM && strcmp(view->streams[i].state, "capturing") != 0)
			rank_take(&ranks[stream_sum_is_first(view, i) ? i : first], BAD_STOPPED, 0);
		if (!stream_sum_is_first(view, i))
			continue;
		first = i;
		why_stream_init(&stream, view, &view->streams[i]);
		why_explain(&stream.facts, report);
		if (kind == STATUS_STREAM)
			rank_take_lines(&ranks[i], report, NULL);
		for (int k = 0; kind == STATUS_CONSUMER && k < view->n_consumers; k++)
			rank_take_lines(&ranks[k], report, &view->consumers[k]);
	}
}

static void rank_senders(const struct status_view *view, enum status_kind_of_part kind, struct rank *ranks)
{
	static const char *const losses[] = {"errored", "flushed", "late_dropped", NULL};

	for (int i = 0; kind == STATUS_CHANNEL && i < view->n_channels; i++) {
		rank_take_counters(&ranks[i], COUNTERS_OF(&view->channels[i]), losses);
		if (strcmp(view->channels[i].state, "sending") != 0)
			rank_take(&ranks[i], BAD_STOPPED, 0);
	}
	for (int i = 0; kind == STATUS_SENDER && i < view->n_senders; i++)
		rank_take_counters(&ranks[i], COUNTERS_OF(&view->senders[i]), losses);
}

static void rank_interfaces(const struct status_view *view, struct rank *ranks)
{
	const char *losses[INTERFACE_COUNTER_N + 1] = {NULL};

	for (unsigned i = INTERFACE_COUNTER_PORT_DISCARDS; i < INTERFACE_COUNTER_N; i++)
		losses[i - INTERFACE_COUNTER_PORT_DISCARDS] = interface_counters[i].name;
	for (int i = 0; i < view->n_interfaces; i++) {
		rank_take_counters(&ranks[i], COUNTERS_OF(&view->interfaces[i]), losses);
		rank_take(&ranks[i],
		          strcmp(view->interfaces[i].uncounted, "nothing") == 0 ? BAD_NOTHING : BAD_NOT_KNOWN, 0);
	}
}

int *why_worst_first(const struct status_view *view, enum status_kind_of_part kind)
{
	struct why_report *report = malloc(sizeof(*report));
	struct rank *ranks = NULL;
	int *order = NULL, n;

	status_view_parts(view, kind, &n);
	if (report && (ranks = calloc((size_t)n + 1, sizeof(*ranks))))
		order = malloc(((size_t)n + 1) * sizeof(*order));
	for (int i = 0; order && i < n; i++)
		ranks[i].index = i;
	if (order && (kind == STATUS_STREAM || kind == STATUS_CONSUMER))
		rank_streams(view, kind, ranks, report);
	else if (order && kind == STATUS_INTERFACE)
		rank_interfaces(view, ranks);
	else if (order)
		rank_senders(view, kind, ranks);
	if (order)
		qsort(ranks, (size_t)n, sizeof(*ranks), compare_badness);
	for (int i = 0; order && i < n; i++)
		order[i] = ranks[i].index;
	free(ranks);
	free(report);
	return order;
}
