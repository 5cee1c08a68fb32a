// SPDX-License-Identifier: Apache-2.0
/* The daemon from its start to its end. */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "daemon/config/config.h"
#include "daemon/priv/priv.h"
#include "lib/base/failure.h"

/**
 * Capture and send until SIGTERM or SIGINT. Call from the main thread before any other thread starts: it blocks those
 * signals, becomes user (NULL: no change of user) and gives privileges up for the whole process. config is taken over.
 * Returns 0 after an ordinary end; -errno with the failure if something could not be set up or failed later. Everything
 * is freed.
 */
int daemon_run(struct config *config, const struct priv_user *user, struct failure *failure);

#endif
