// SPDX-License-Identifier: Apache-2.0
/* Compares two configurations key by key. Pure. */
#ifndef DAEMON_CONFIG_DIFF_H
#define DAEMON_CONFIG_DIFF_H

#include "daemon/config/config.h"
#include "daemon/config/key.h"

enum difference_kind {
	DIFFERENCE_ADDED,   /* the stream or channel */
	DIFFERENCE_REMOVED, /* likewise */
	DIFFERENCE_CHANGED, /* one of its keys, or one that is of no stream or channel */
};

struct difference {
	const char *stream;  /* NULL: it is not about a stream */
	const char *channel; /* likewise */
	enum difference_kind kind;
	const char *key;  /* DIFFERENCE_CHANGED: its name */
	const char *text; /* "added", "removed", "key = value (was value)"; valid during the call */
};

typedef void difference_take(void *context, const struct difference *difference);

/**
 * Calls take for each difference; all that are about one stream or channel follow each other, and so do those about one
 * key. Streams and channels are told apart by their names, flows by all that they say. Destinations are not looked at:
 * they are fixed while a channel runs. Returns how many differences there are.
 */
unsigned diff_config(const struct config *before, const struct config *after, difference_take *take, void *context);

/**
 * The first key of the group that differs and that a reload cannot change, or NULL. before and after are structs of the
 * group, streams or channels of the same name.
 */
const char *diff_fixed_key(const struct key_group *group, const void *before, const void *after);

#endif
