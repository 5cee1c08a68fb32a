// SPDX-License-Identifier: Apache-2.0
/* What a start of the daemon would find, without touching a device: ibvcapd --check-config. */
#ifndef DAEMON_DRY_RUN_H
#define DAEMON_DRY_RUN_H

#include "daemon/base/failure.h"
#include "daemon/config/config.h"

/**
 * Print the memory that each stream and channel takes, and that the configuration is right. What only this machine, as
 * it is now, has against it is a warning in the log, because the file may be meant for another machine. user: the name
 * of the one whom root would become. Failure: a configuration that fits no machine of this size. No other thread runs.
 */
int dry_run(const struct config *config, const char *user, struct failure *failure);

#endif
