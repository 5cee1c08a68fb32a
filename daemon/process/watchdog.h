// SPDX-License-Identifier: Apache-2.0
/*
 * Tells the service manager that the daemon lives (WatchdogSec=) as long as all its threads make rounds: the control
 * thread, whose event loop runs this timer, and every thread with a heartbeat (base/heartbeat.h). When a thread has
 * stopped, the watchdog tells nothing more, so the service manager ends the daemon and starts it again.
 */
#ifndef DAEMON_PROCESS_WATCHDOG_H
#define DAEMON_PROCESS_WATCHDOG_H

struct daemon;

/** Begin, if the service manager watches. 0 or -errno. */
int watchdog_add(struct daemon *daemon);
/** In any state. */
void watchdog_drop(struct daemon *daemon);

#endif
