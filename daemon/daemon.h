// SPDX-License-Identifier: Apache-2.0
/* Owns every object: sets all up, runs the loop, takes all down. The only place that sees all rooms. */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "daemon/base/failure.h"
#include "daemon/config/config.h"
#include "daemon/priv/priv.h"

/**
 * Capture until SIGTERM or SIGINT. Call from the main thread, before any other is started: it blocks
 * those signals, becomes user (NULL: stays who it is) and gives privileges up for the whole process. config is
 * taken over. Returns 0 after an ordinary end; -errno with the failure when something could not be set up or failed
 * on the way. Nothing is left behind.
 */
int daemon_run(struct config *config, const struct priv_user *user, struct failure *failure);

#endif
