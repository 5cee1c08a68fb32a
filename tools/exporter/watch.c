// SPDX-License-Identifier: Apache-2.0
/* Asks the daemon with a deadline, so that a daemon that hangs is a metric and not a service that hangs. */
#include "tools/exporter/exporter.h"

#include "lib/base/time.h"
#include "tools/status/why.h"

#include <stdlib.h>

#define ANSWER_MS 2000

void watch_init(struct watch *watch, const char *socket)
{
	*watch = (struct watch){.socket = socket, .view.now_at_ns = time_monotonic_ns(), .trouble = "not asked yet"};
	pthread_mutex_init(&watch->lock, NULL);
}

void watch_ask(struct watch *watch)
{
	struct status_view new;
	const int r = status_view_ask(&new, watch->socket, ANSWER_MS);
	const uint64_t now_ns = time_monotonic_ns();

	pthread_mutex_lock(&watch->lock);
	watch->asked++;
	top_view_take(&watch->view, r == 0 ? &new : NULL, now_ns);
	if (r < 0)
		snprintf(watch->trouble, sizeof(watch->trouble), "%s", ibvcap_error_text());
	pthread_mutex_unlock(&watch->lock);
}

struct metrics_health watch_health(const struct watch *watch)
{
	return (struct metrics_health){.is_up = watch->view.now.status != NULL,
	                               .age_ns = time_monotonic_ns() - watch->view.now_at_ns};
}

/* Each entry says at which place of its list it would be if the worst came first. */
static void add_ranks_to_json(const struct status_view *view, enum status_kind_of_part kind, json_t *entries)
{
	int *order = why_worst_first(view, kind);

	for (size_t i = 0; order && i < json_array_size(entries); i++)
		json_object_set_new(json_array_get(entries, (size_t)order[i]), "rank", json_integer((json_int_t)i));
	free(order);
}

json_t *watch_to_json(const struct watch *watch)
{
	const struct metrics_health health = watch_health(watch);
	json_t *all = health.is_up ? top_to_json(&watch->view) : json_object();

	for (enum status_kind_of_part kind = STATUS_STREAM; kind < STATUS_N_PARTS; kind++)
		add_ranks_to_json(&watch->view.now, kind, json_object_get(all, status_parts[kind].list));
	json_object_set_new(all, "up", json_boolean(health.is_up));
	json_object_set_new(all, "age_s", json_real((double)health.age_ns / 1e9));
	json_object_set_new(all, "trouble", health.is_up ? json_null() : json_string(watch->trouble));
	json_object_set_new(all, "why", why_to_json(&watch->view.now));
	return all;
}
