// SPDX-License-Identifier: Apache-2.0
/* What a start of the daemon would find, without opening a device: ibvcapd --check-config. */
#ifndef DAEMON_DRY_RUN_H
#define DAEMON_DRY_RUN_H

#include "daemon/config/config.h"
#include "lib/base/failure.h"

/**
 * Print the memory that each stream and channel takes, and that a start would take the configuration on this machine as
 * it is now. What a restart may end, and what only the service lacks, is a warning in the log. user: of the one whom
 * root would become. Failure: a line for each reason why the start would fail. No other thread runs.
 */
int dry_run(const struct config *config, const char *user, struct failure *failure);

#endif
