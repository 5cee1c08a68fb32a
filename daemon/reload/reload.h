// SPDX-License-Identifier: Apache-2.0
/*
 * Another configuration while the daemon runs: new streams and channels are added, those that are gone drain and end;
 * flows, rights and limits of the others change, and nothing else of them. Either all of it is done, or on any failure
 * nothing. The configuration is read in the background, then applied (apply.h). Control thread only.
 */
#ifndef DAEMON_RELOAD_RELOAD_H
#define DAEMON_RELOAD_RELOAD_H

#include "daemon/state/state.h"

/** Read the file again and apply it; if a change is on its way, after that one. The log says how it went. */
void reload_by_signal(struct daemon *daemon);

/**
 * For control_options.reconfigure; context is the daemon. The change lasts until the file is read again.
 * Failure: file:line of what is wrong or cannot change while the daemon runs.
 */
int reload_by_request(void *context, const struct protocol_reconfigure *asked, struct failure *failure);

/** A reconfiguration that was no reload has ended: reload, if that was asked for meanwhile. */
void reload_go_on(struct daemon *daemon);

/** The daemon ends: a configuration that is being read is not waited for. Any state. */
void reload_cancel(struct daemon *daemon);

#endif
