// SPDX-License-Identifier: Apache-2.0
/* A configuration made of others: what 'ibvcap stream add' and 'ibvcap stream remove' ask for. Pure. */
#ifndef DAEMON_CONFIG_MERGE_H
#define DAEMON_CONFIG_MERGE_H

#include "daemon/config/config.h"

/* By name; NULL: none. */
struct config_removed {
	const char *stream;
	const char *channel;
};

/**
 * A copy of base with the streams and channels of added (NULL: none), and without those that are removed. 0; -ENOENT:
 * base has nothing of a name to be removed; or another -errno, EX_CONFIG, if an added one does not go with the others.
 */
int config_merge(const struct config *base, const struct config *added, const struct config_removed *removed,
                 struct config **merged, struct failure *failure);

#endif
