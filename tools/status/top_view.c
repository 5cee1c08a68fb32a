// SPDX-License-Identifier: Apache-2.0
/* Finds the entries of the earlier answer that belong to those of the present one, and computes rates from both. */
#include "tools/status/top.h"

#include <string.h>

static const struct counters none;

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

static bool is_stream_queue(const struct ibvcap_status_stream *stream, const char *name, uint32_t queue)
{
	return strcmp(stream->name, name) == 0 && stream->queue == queue;
}

static const struct ibvcap_status_stream *view_find_stream(const struct status_view *status, const char *name,
                                                           uint32_t queue)
{
	for (int i = 0; i < status->n_streams; i++)
		if (is_stream_queue(&status->streams[i], name, queue))
			return &status->streams[i];
	return NULL;
}

static const struct ibvcap_status_channel *view_find_channel(const struct status_view *status, const char *name)
{
	for (int i = 0; i < status->n_channels; i++)
		if (strcmp(status->channels[i].name, name) == 0)
			return &status->channels[i];
	return NULL;
}

/* The epoch differs from one run of the daemon to the next. */
static bool is_same_stream(const struct top_view *view, const char *name, uint32_t queue)
{
	const struct ibvcap_status_stream *now = view_find_stream(&view->now, name, queue);
	const struct ibvcap_status_stream *before = view_find_stream(&view->before, name, queue);

	return now && before && now->epoch == before->epoch;
}

static bool is_same_channel(const struct top_view *view, const char *name)
{
	const struct ibvcap_status_channel *now = view_find_channel(&view->now, name);
	const struct ibvcap_status_channel *before = view_find_channel(&view->before, name);

	return now && before && now->epoch == before->epoch;
}

struct counters top_stream_before(const struct top_view *view, const struct ibvcap_status_stream *at)
{
	if (!is_same_stream(view, at->name, at->queue))
		return none;
	return drop_if_restarted(COUNTERS_OF(at), COUNTERS_OF(view_find_stream(&view->before, at->name, at->queue)));
}

struct counters top_sum_before(const struct top_view *view, const struct ibvcap_status_stream *at, struct counters now,
                               struct stream_sum *sum)
{
	const struct ibvcap_status_stream *before = view_find_stream(&view->before, at->name, at->queue);

	if (!is_same_stream(view, at->name, at->queue))
		return none;
	return drop_if_restarted(now, stream_sum_of(&view->before, before, sum));
}

struct counters top_channel_before(const struct top_view *view, const struct ibvcap_status_channel *at)
{
	if (!is_same_channel(view, at->name))
		return none;
	return drop_if_restarted(COUNTERS_OF(at), COUNTERS_OF(view_find_channel(&view->before, at->name)));
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

/* A process can attach more than once. The latest one is listed first, so its entries are counted from the end. */
struct counters top_consumer_before(const struct top_view *view, const struct ibvcap_status_consumer *at)
{
	unsigned later = 0;

	if (!is_same_stream(view, at->stream, at->queue))
		return none;
	for (const struct ibvcap_status_consumer *c = at + 1; c < view->now.consumers + view->now.n_consumers; c++)
		later += is_same_consumer(c, at);
	for (int i = view->before.n_consumers - 1; i >= 0; i--)
		if (is_same_consumer(&view->before.consumers[i], at) && later-- == 0)
			return drop_if_restarted(COUNTERS_OF(at), COUNTERS_OF(&view->before.consumers[i]));
	return none;
}

struct counters top_sender_before(const struct top_view *view, const struct ibvcap_status_sender *at)
{
	unsigned later = 0;

	if (!is_same_channel(view, at->channel))
		return none;
	for (const struct ibvcap_status_sender *s = at + 1; s < view->now.senders + view->now.n_senders; s++)
		later += is_same_sender(s, at);
	for (int i = view->before.n_senders - 1; i >= 0; i--)
		if (is_same_sender(&view->before.senders[i], at) && later-- == 0)
			return drop_if_restarted(COUNTERS_OF(at), COUNTERS_OF(&view->before.senders[i]));
	return none;
}

struct counters top_interface_before(const struct top_view *view, const struct ibvcap_status_interface *at)
{
	if (view->now.daemon.pid != view->before.daemon.pid)
		return none;
	for (int i = 0; i < view->before.n_interfaces; i++)
		if (strcmp(view->before.interfaces[i].interface, at->interface) == 0 &&
		    strcmp(view->before.interfaces[i].backend, at->backend) == 0)
			return drop_if_restarted(COUNTERS_OF(at), COUNTERS_OF(&view->before.interfaces[i]));
	return none;
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

		if (is_stream_queue(stream, status->consumers[i].stream, status->consumers[i].queue) && lag > most)
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
	const struct status_view *now = &view->now;
	json_t *all = status_view_to_json(now);

	for (int i = 0; i < now->n_streams; i++)
		add_rates_to_json(view, json_array_get(json_object_get(all, "streams"), (size_t)i),
		                  COUNTERS_OF(&now->streams[i]), top_stream_before(view, &now->streams[i]));
	for (int i = 0; i < now->n_consumers; i++)
		add_rates_to_json(view, json_array_get(json_object_get(all, "consumers"), (size_t)i),
		                  COUNTERS_OF(&now->consumers[i]), top_consumer_before(view, &now->consumers[i]));
	for (int i = 0; i < now->n_channels; i++)
		add_rates_to_json(view, json_array_get(json_object_get(all, "channels"), (size_t)i),
		                  COUNTERS_OF(&now->channels[i]), top_channel_before(view, &now->channels[i]));
	for (int i = 0; i < now->n_senders; i++)
		add_rates_to_json(view, json_array_get(json_object_get(all, "senders"), (size_t)i),
		                  COUNTERS_OF(&now->senders[i]), top_sender_before(view, &now->senders[i]));
	for (int i = 0; i < now->n_interfaces; i++)
		add_rates_to_json(view, json_array_get(json_object_get(all, "interfaces"), (size_t)i),
		                  COUNTERS_OF(&now->interfaces[i]), top_interface_before(view, &now->interfaces[i]));
	json_object_set_new(all, "interval_s", json_real((double)view->interval_ns / 1e9));
	return all;
}
