// SPDX-License-Identifier: Apache-2.0
/* Adds up what a status says about each queue of a stream. */
#include "tools/status/stream_sum.h"

#include <string.h>

bool stream_sum_is_shared(const char *label)
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
