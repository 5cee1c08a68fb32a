// SPDX-License-Identifier: Apache-2.0
/* Streams that a reload renames: they run on, with their readers, under the new name. */
#ifndef DAEMON_RELOAD_RELOAD_NAMES_H
#define DAEMON_RELOAD_RELOAD_NAMES_H

#include "daemon/config/config.h"

/**
 * Give running streams the names that the configuration to be has for them: a stream that it lacks has the name of a
 * new one there with the same flows, and the same keys but for those that a reload may change.
 */
void reload_take_names(const struct config *running, const struct config *after);

/** The reload failed: the streams have their old names again. */
void reload_give_names_back(const struct config *running);

#endif
