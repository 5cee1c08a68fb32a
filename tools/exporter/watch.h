// SPDX-License-Identifier: Apache-2.0
/* The daemon's last two answers, as one thread takes them from it and others read them. */
#ifndef TOOLS_EXPORTER_WATCH_H
#define TOOLS_EXPORTER_WATCH_H

#include "tools/status/metrics.h"
#include "tools/status/top.h"

#include <pthread.h>

struct watch {
	const char *socket;
	pthread_mutex_t lock;
	/* Under the lock. */
	struct top_view view; /* now is all zero: the daemon did not answer, and now_at_ns may be the start */
	uint64_t asked;       /* how often */
	char trouble[256];    /* why it did not answer */
};

void watch_init(struct watch *watch, const char *socket);

/** Ask the daemon, which may take 2 s; the lock is not held meanwhile. */
void watch_ask(struct watch *watch);

/* With the lock held: */

struct metrics_health watch_health(const struct watch *watch);

/** The JSON of `ibvcap top`, what `ibvcap why` says of each stream, and whether the daemon answers. */
json_t *watch_to_json(const struct watch *watch);

#endif
