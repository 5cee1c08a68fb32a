// SPDX-License-Identifier: Apache-2.0
/* Do the threads that serve rings and channels go on? Those that sleep are woken to say so. */
#include "daemon/control/server.h"

#include <stdio.h>

static const char *look_at_ring(const struct attach_point *point)
{
	bool worker = point->ended || mailbox_is_alive(point->ring->inbox);

	if (!notifier_is_alive(point->notifier))
		return "who wakes its readers";
	return worker ? NULL : "its worker";
}

static const char *look_at_transmit(const struct transmit_point *point)
{
	bool worker = point->ended || mailbox_is_alive(point->transmit->inbox);
	bool notifier = notifier_is_alive(point->notifier);

	if (!preparer_is_alive(point->preparer))
		return "who prepares its senders' memory";
	if (!notifier)
		return "who wakes its senders";
	return worker ? NULL : "its worker";
}

/* A channel of it; they have one worker. */
static const char *name_of(const struct control *control, const struct transmit_point *transmit)
{
	const struct channel_point *point;

	TAILQ_FOREACH (point, &control->channels, link)
		if (point->transmit == transmit)
			return point->channel->config->name;
	return "";
}

bool control_is_alive(struct control *control, char *who, size_t who_bytes)
{
	const struct attach_point *point;
	const struct transmit_point *transmit;
	bool alive = true;
	const char *thread;

	TAILQ_FOREACH (point, &control->points, link) {
		thread = look_at_ring(point);
		if (thread)
			snprintf(who, who_bytes, "stream '%s': %s", point->ring->config->name, thread);
		alive &= !thread;
	}
	TAILQ_FOREACH (transmit, &control->transmits, link) {
		thread = look_at_transmit(transmit);
		if (thread)
			snprintf(who, who_bytes, "channel '%s': %s", name_of(control, transmit), thread);
		alive &= !thread;
	}
	return alive;
}
