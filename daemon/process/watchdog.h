// SPDX-License-Identifier: Apache-2.0
/*
 * Tells the service manager that the daemon lives (WatchdogSec=), as long as it does: the control thread, which does so
 * from its loop, and every thread that serves packets, clients or a change. A thread that sleeps is woken to show that
 * it can be. Where one has stopped nothing is told: the service manager then ends the daemon and starts it again.
 */
#ifndef DAEMON_PROCESS_WATCHDOG_H
#define DAEMON_PROCESS_WATCHDOG_H

#include "daemon/events.h"

/** From now on, if the service manager watches. 0 or -errno. */
int watchdog_add(struct daemon *daemon);
/** Any state. */
void watchdog_drop(struct daemon *daemon);

#endif
