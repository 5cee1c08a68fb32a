// SPDX-License-Identifier: Apache-2.0
/* What one configuration has that another has not, key by key, in words. Pure. */
#ifndef DAEMON_CONFIG_DIFF_H
#define DAEMON_CONFIG_DIFF_H

#include "daemon/config/config.h"

struct difference {
	const char *stream;  /* NULL: of no stream */
	const char *channel; /* likewise */
	const char *text;    /* "added", "removed", "key = value (was value)"; gone after the call */
};

typedef void difference_take(void *context, const struct difference *difference);

/**
 * Streams and channels are told apart by their names, flows by all that they say. Destinations are not looked at: while
 * a channel runs they are fixed. Returns how many differences there are.
 */
unsigned diff_config(const struct config *before, const struct config *after, difference_take *take, void *context);

#endif
