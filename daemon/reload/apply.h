// SPDX-License-Identifier: Apache-2.0
/*
 * A checked configuration takes the place of the one in force: all of it, or on any failure nothing.
 *
 *   control thread   what is new is looked up, its memory counted, its device opened
 *   a thread         its memory, registration and queues are made: seconds for many GiB, while control serves its
 * clients control thread   its queues and workers start, control knows it; then its flows and groups; then groups and
 * flows of streams that are changed. Only then, what can't fail: what is gone goes, and config is in force.
 *
 * A failure undoes what was done, in reverse. Flows of streams that run come last, for what such a flow has let in is
 * published: only the device's refusal of a later one can still undo it then.
 */
#ifndef DAEMON_RELOAD_APPLY_H
#define DAEMON_RELOAD_APPLY_H

#include "daemon/events.h"

/** How it ended: 0 and what was done, or -errno and the failure; nothing was changed then. */
typedef void apply_done(struct daemon *daemon, int result, const char *said, struct failure *failure);

/**
 * Begin; daemon->change is not NULL until it has ended, when done is called from the event loop or by draining
 * daemon->memory. config is taken over. On failure done is not called.
 */
int apply_begin(struct daemon *daemon, struct config *config, apply_done *done, struct failure *failure);

#endif
