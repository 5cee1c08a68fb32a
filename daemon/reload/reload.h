// SPDX-License-Identifier: Apache-2.0
/*
 * Another configuration while the daemon runs: streams that are new are added, those that are gone drain and end, flows,
 * rights and limits of the others change; what did not change is not touched. All of it, or on any failure nothing.
 * What is asked for is read in a thread, and applied by apply.h. Control thread only.
 */
#ifndef DAEMON_RELOAD_RELOAD_H
#define DAEMON_RELOAD_RELOAD_H

#include "daemon/events.h"

/** Read the file again and apply it; while another change is on its way, after that. Says in the log how it went. */
void reload_by_signal(struct daemon *daemon);

/**
 * For control_options.reconfigure; context is the daemon. What it adds or removes lasts until the file is read again. Fault:
 * file:line of what is wrong or cannot change live.
 */
int reload_change(void *context, const struct protocol_reconfigure *change, struct failure *failure);

/** The daemon ends: what is being read is for nobody, and not waited for. Nothing: nothing. */
void reload_cancel(struct daemon *daemon);

#endif
