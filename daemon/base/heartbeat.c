// SPDX-License-Identifier: Apache-2.0
/* The control thread's look at the signs of life of all other threads. */
#include "daemon/base/heartbeat.h"

#include "lib/base/time.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>

void heartbeat_watch(struct heartbeats *list, struct heartbeat *heartbeat, const char *format, ...)
{
	va_list arguments;

	if (!list)
		return;
	va_start(arguments, format);
	vsnprintf(heartbeat->name, sizeof(heartbeat->name), format, arguments);
	va_end(arguments);
	heartbeat->is_asked = false;
	heartbeat->is_watched = true;
	LIST_INSERT_HEAD(list, heartbeat, link);
}

void heartbeat_unwatch(struct heartbeat *heartbeat)
{
	if (heartbeat->is_watched)
		LIST_REMOVE(heartbeat, link);
	heartbeat->is_watched = false;
}

/* The thread is asked for a round if it has made one since it was asked before. */
static bool heartbeat_has_stopped(struct heartbeat *heartbeat)
{
	/* First: a job that ends between the two loads has beaten before it gave its allowance up. */
	uint64_t allowed_until_ns = atomic_load_explicit(&heartbeat->allowed_until_ns, memory_order_acquire);
	uint64_t beats = atomic_load_explicit(&heartbeat->beats, memory_order_relaxed);

	if (heartbeat->is_asked && beats == heartbeat->seen)
		return time_monotonic_ns() >= allowed_until_ns;
	heartbeat->seen = beats;
	heartbeat->is_asked = true;
	eventfd_write(heartbeat->wake_fd, 1);
	return false;
}

const struct heartbeat *heartbeat_find_stopped(struct heartbeats *list)
{
	const struct heartbeat *stopped = NULL;
	struct heartbeat *heartbeat;

	LIST_FOREACH (heartbeat, list, link)
		if (heartbeat_has_stopped(heartbeat))
			stopped = heartbeat;
	return stopped;
}
