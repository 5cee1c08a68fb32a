// SPDX-License-Identifier: Apache-2.0
/* Do the threads that serve rings and channels go on? Those that sleep are woken to say so. */
#include "daemon/control/server.h"

#include <stdio.h>

static const char *look_at_ring(const struct rx_endpoint *endpoint)
{
	return notifier_is_alive(endpoint->notifier) ? NULL : "who wakes its readers";
}

static const char *look_at_tx_worker(const struct tx_worker_endpoint *endpoint)
{
	return notifier_is_alive(endpoint->notifier) ? NULL : "who wakes its senders";
}

/* A channel of it; they have one worker. */
static const char *name_of(const struct control *control, const struct tx_worker_endpoint *worker)
{
	const struct tx_endpoint *endpoint;

	TAILQ_FOREACH (endpoint, &control->tx_endpoints, link)
		if (endpoint->worker == worker)
			return endpoint->channel->config->name;
	return "";
}

bool control_is_alive(struct control *control, char *who, size_t who_bytes)
{
	const struct rx_endpoint *endpoint;
	const struct tx_worker_endpoint *worker;
	bool alive = true;
	const char *thread;

	TAILQ_FOREACH (endpoint, &control->rx_endpoints, link) {
		thread = look_at_ring(endpoint);
		if (thread)
			snprintf(who, who_bytes, "stream '%s': %s", endpoint->stream->config->name, thread);
		alive &= !thread;
	}
	TAILQ_FOREACH (worker, &control->tx_workers, link) {
		thread = look_at_tx_worker(worker);
		if (thread)
			snprintf(who, who_bytes, "channel '%s': %s", name_of(control, worker), thread);
		alive &= !thread;
	}
	return alive;
}
