// SPDX-License-Identifier: Apache-2.0
/* Finds the entries of the earlier answer that belong to those of the present one, and computes rates from both. */
#include "tools/status/top.h"

#include <string.h>

static const struct counters none;

void top_view_take(struct top_view *view, const struct status_view *answer, uint64_t at_ns)
{
	status_view_deinit(&view->before);
	if (!answer) {
		status_view_deinit(&view->now);
		return;
	}
	view->before = view->now;
	view->now = *answer;
	view->interval_ns = view->before.status ? at_ns - view->now_at_ns : 0;
	view->now_at_ns = at_ns;
}

/* ---- the same entry in the earlier answer --------------------------------------------------------- */

/* A counter that has shrunk belongs to another consumer, sender, … of the same name: drop the earlier counters. */
static struct counters drop_if_restarted(struct counters now, struct counters before)
{
	for (uint32_t i = 0; i < before.n; i++)
		if (counters_is_total(before, before.at[i].label) &&
		    counters_value(now, before.at[i].label) < before.at[i].value)
			return none;
	return before;
}

static bool is_stream_of(const struct ibvcap_status_consumer *consumer, const struct ibvcap_status_stream *stream)
{
	return strcmp(consumer->stream, stream->name) == 0 && consumer->queue == stream->queue;
}

/* The epoch differs from one run of the daemon to the next. */
static bool is_same_stream(const struct ibvcap_status_stream *a, const struct ibvcap_status_stream *b)
{
	return strcmp(a->name, b->name) == 0 && a->queue == b->queue && a->epoch == b->epoch;
}

static bool is_same_channel(const struct ibvcap_status_channel *a, const struct ibvcap_status_channel *b)
{
	return strcmp(a->name, b->name) == 0 && a->epoch == b->epoch;
}

static bool is_same_consumer(const struct ibvcap_status_consumer *a, const struct ibvcap_status_consumer *b)
{
	return strcmp(a->stream, b->stream) == 0 && a->queue == b->queue && a->pid == b->pid && a->uid == b->uid &&
	       (a->policy == IBVCAP_POLICY_TAP) == (b->policy == IBVCAP_POLICY_TAP);
}

static bool is_same_sender(const struct ibvcap_status_sender *a, const struct ibvcap_status_sender *b)
{
	return strcmp(a->channel, b->channel) == 0 && a->pid == b->pid && a->uid == b->uid;
}

static bool is_same_interface(const struct ibvcap_status_interface *a, const struct ibvcap_status_interface *b)
{
	return strcmp(a->interface, b->interface) == 0 && strcmp(a->backend, b->backend) == 0;
}

static bool is_same_part(enum status_kind_of_part kind, const void *a, const void *b)
{
	switch (kind) {
	case STATUS_STREAM:
		return is_same_stream(a, b);
	case STATUS_CHANNEL:
		return is_same_channel(a, b);
	case STATUS_CONSUMER:
		return is_same_consumer(a, b);
	case STATUS_SENDER:
		return is_same_sender(a, b);
	default:
		return kind == STATUS_INTERFACE && is_same_interface(a, b);
	}
}

/* A process can attach more than once. The latest one is listed first, so its entries are counted from the end. */
static const void *find_before(const struct top_view *view, enum status_kind_of_part kind, const void *at)
{
	const size_t bytes = status_parts[kind].bytes;
	int n_now, n_before;
	const char *now = status_view_parts(&view->now, kind, &n_now);
	const char *before = status_view_parts(&view->before, kind, &n_before);
	unsigned later = 0;

	for (const char *part = (const char *)at + bytes; part < now + (size_t)n_now * bytes; part += bytes)
		later += is_same_part(kind, part, at);
	for (size_t i = (size_t)n_before; i-- > 0;)
		if (is_same_part(kind, before + i * bytes, at) && later-- == 0)
			return before + i * bytes;
	return NULL;
}

/* Does the stream, channel or daemon that the part belongs to go on since the earlier answer? */
static bool goes_on(const struct top_view *view, enum status_kind_of_part kind, const void *at)
{
	const struct ibvcap_status_consumer *consumer = at;
	const struct ibvcap_status_sender *sender = at;

	if (kind == STATUS_INTERFACE)
		return view->now.daemon.pid == view->before.daemon.pid;
	for (int i = 0; kind == STATUS_CONSUMER && i < view->now.n_streams; i++)
		if (is_stream_of(consumer, &view->now.streams[i]))
			return find_before(view, STATUS_STREAM, &view->now.streams[i]);
	for (int i = 0; kind == STATUS_SENDER && i < view->now.n_channels; i++)
		if (strcmp(view->now.channels[i].name, sender->channel) == 0)
			return find_before(view, STATUS_CHANNEL, &view->now.channels[i]);
	return kind == STATUS_STREAM || kind == STATUS_CHANNEL;
}

struct counters top_before(const struct top_view *view, enum status_kind_of_part kind, const void *at)
{
	const void *before = goes_on(view, kind, at) ? find_before(view, kind, at) : NULL;

	return before ? drop_if_restarted(counters_of(kind, at), counters_of(kind, before)) : none;
}

struct counters top_sum_before(const struct top_view *view, const struct ibvcap_status_stream *at, struct counters now,
                               struct stream_sum *sum)
{
	const struct ibvcap_status_stream *before = find_before(view, STATUS_STREAM, at);

	return before ? drop_if_restarted(now, stream_sum_of(&view->before, before, sum)) : none;
}

/* ---- rates and levels ------------------------------------------------------------------------------- */

double top_rate(const struct top_view *view, struct counters now, struct counters before, const char *const *labels)
{
	uint64_t more = 0;

	if (before.n == 0 || view->interval_ns == 0)
		return -1;
	for (; *labels; labels++)
		more += counters_value(now, *labels) - counters_value(before, *labels);
	return (double)(int64_t)more * 1e9 / (double)view->interval_ns;
}

uint64_t top_stream_lag(const struct status_view *status, const struct ibvcap_status_stream *stream)
{
	uint64_t most = 0;

	for (int i = 0; i < status->n_consumers; i++) {
		uint64_t lag = counters_value(COUNTERS_OF(&status->consumers[i]), "lag");

		if (is_stream_of(&status->consumers[i], stream) && lag > most)
			most = lag;
	}
	return most;
}

unsigned top_fill_percent(const struct ibvcap_status_stream *stream, uint64_t rows)
{
	uint64_t all = (uint64_t)stream->history_blocks * stream->slots_per_block;

	return rows >= all ? 100 : (unsigned)(rows * 100 / all);
}

static double mean_growth(struct counters now, struct counters before, const char *sum, const char *n)
{
	uint64_t packets = counters_value(now, n) - counters_value(before, n);

	return packets ? (double)(counters_value(now, sum) - counters_value(before, sum)) / (double)packets : -1;
}

double top_lateness_ns(struct counters now, struct counters before)
{
	double timed;

	if (before.n == 0)
		return -1;
	timed = mean_growth(now, before, "timed_lateness_ns", "timed");
	return timed >= 0 ? timed : mean_growth(now, before, "paced_lateness_ns", "paced");
}

/* ---- JSON ------------------------------------------------------------------------------------------ */

static void add_rates_to_json(const struct top_view *view, json_t *object, struct counters now, struct counters before)
{
	json_t *rates = before.n && view->interval_ns ? json_object() : json_null();

	for (uint32_t i = 0; json_is_object(rates) && i < now.n; i++) {
		const char *const labels[] = {now.at[i].label, NULL};

		if (counters_is_total(now, now.at[i].label))
			json_object_set_new(rates, now.at[i].label, json_real(top_rate(view, now, before, labels)));
	}
	json_object_set_new(object, "per_s", rates);
}

json_t *top_to_json(const struct top_view *view)
{
	json_t *all = status_view_to_json(&view->now);

	for (enum status_kind_of_part kind = STATUS_STREAM; kind < STATUS_N_PARTS; kind++) {
		json_t *entries = json_object_get(all, status_parts[kind].list), *entry;
		const char *part;
		size_t i;
		int n;

		part = status_view_parts(&view->now, kind, &n);
		json_array_foreach(entries, i, entry)
		{
			add_rates_to_json(view, entry, counters_of(kind, part), top_before(view, kind, part));
			part += status_parts[kind].bytes;
		}
	}
	json_object_set_new(all, "interval_s", json_real((double)view->interval_ns / 1e9));
	return all;
}
