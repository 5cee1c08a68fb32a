// SPDX-License-Identifier: Apache-2.0
/* From one configuration to another: what differs, and configurations made of others. Pure. */
#ifndef DAEMON_CONFIG_CHANGE_H
#define DAEMON_CONFIG_CHANGE_H

#include "daemon/config/config.h"

/**
 * The first key that differs and cannot change while the stream runs (its name is the same), or NULL: flows, rights
 * and limits of users can.
 */
const char *change_fixed_stream_key(const struct config_stream *before, const struct config_stream *after);

/** Likewise of a channel: rights and limits of senders can change. */
const char *change_fixed_channel_key(const struct config_channel *before, const struct config_channel *after);

/** Likewise of control. */
const char *change_fixed_control_key(const struct config *before, const struct config *after);

/** NULL: none of that name. */
const struct config_stream *change_find_stream(const struct config *config, const char *name);
const struct config_channel *change_find_channel(const struct config *config, const char *name);

/* By name; NULL: none. */
struct change_removed {
	const char *stream;
	const char *channel;
};

/**
 * A copy of base with the streams and channels of added (NULL: none), and without those that are removed. Names may not
 * be there twice: EX_CONFIG. -ENOENT: nothing of the name to be removed.
 */
int change_copy(const struct config *base, const struct config *added, const struct change_removed *removed,
                struct config **copy, struct failure *failure);

#endif
