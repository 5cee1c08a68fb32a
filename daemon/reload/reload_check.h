// SPDX-License-Identifier: Apache-2.0
/* Can another configuration take the place of the one in force while the daemon runs? Changes nothing. */
#ifndef DAEMON_RELOAD_RELOAD_CHECK_H
#define DAEMON_RELOAD_RELOAD_CHECK_H

#include "daemon/state/state.h"

/** 0, or -errno with the failure: EX_CONFIG with file:line, what cannot change, and how to change it all the same. */
int reload_check(const struct daemon *daemon, const struct config *after, struct failure *failure);

#endif
