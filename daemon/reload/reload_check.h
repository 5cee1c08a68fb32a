// SPDX-License-Identifier: Apache-2.0
/* Can one configuration take the place of another while the daemon runs? Pure. */
#ifndef DAEMON_RELOAD_RELOAD_CHECK_H
#define DAEMON_RELOAD_RELOAD_CHECK_H

#include "daemon/config/config.h"
#include "lib/base/failure.h"

/** 0, or -errno with the failure: EX_CONFIG with file:line, what cannot change, and how to change it all the same. */
int reload_check(const struct config *before, const struct config *after, struct failure *failure);

#endif
