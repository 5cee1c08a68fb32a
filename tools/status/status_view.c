// SPDX-License-Identifier: Apache-2.0
/* Reads a status, finds the counters of a part by their labels, and the sums over the queues of a stream. */
#include "tools/status/status_view.h"

#include "tools/common/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int status_view_ask(struct status_view *view, const char *socket_path, uint32_t timeout_ms)
{
	int r = status_view_read(view, socket_path, timeout_ms);

	if (r < 0)
		return r;
	view->socket_path = report_chosen_socket(socket_path);
	view->groups = calloc((size_t)view->n_flows + 1, sizeof(*view->groups));
	if (!view->groups) {
		status_view_deinit(view);
		return -ENOMEM;
	}
	flow_view_find_groups(view);
	return 0;
}

struct counters counters_of(enum status_kind_of_part kind, const void *part)
{
	struct counters counters = {.of = kind};

	counters.at = status_counters(&status_parts[kind], part, &counters.n);
	return counters;
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

static const char *const stream_terms[] = {"matched", "published", "no_buffer", "errored",
                                           "joined",  "ambiguous", "in_flight", NULL};
static const char *const consumer_terms[] = {"published", "delivered", "skipped", "lag", NULL};
static const char *const sent_terms[] = {"submitted",    "completed", "errored", "flushed",
                                         "late_dropped", "pending",   NULL};
const char *const *const status_view_sums[STATUS_N_PARTS] = {
	[STATUS_STREAM] = stream_terms,
	[STATUS_CONSUMER] = consumer_terms,
	[STATUS_CHANNEL] = sent_terms,
	[STATUS_SENDER] = sent_terms,
};

void counters_print_sum(struct counters counters, const char *const *labels)
{
	const char *before = "  ";

	for (const char *const *label = labels; *label; label++) {
		uint64_t value = counters_value(counters, *label);

		/* Only a stream that reassembles has some. */
		if (value == 0 && (strcmp(*label, "joined") == 0 || strcmp(*label, "ambiguous") == 0))
			continue;
		printf("%s%s %" PRIu64, before, *label, value);
		before = label == labels ? " = " : " + ";
	}
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
