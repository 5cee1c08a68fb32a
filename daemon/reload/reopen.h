// SPDX-License-Identifier: Apache-2.0
/*
 * An interface that was deleted and made again, unplugged and plugged, or moved away and back has another device than
 * the one that is open. Its streams and channels are closed as by a reload that lacks them, and opened as by one that
 * has them again; nothing is done to those of other interfaces. Between the two they are in the configuration in force,
 * and no service has them. Control thread.
 */
#ifndef DAEMON_RELOAD_REOPEN_H
#define DAEMON_RELOAD_REOPEN_H

#include "daemon/state/state.h"

/**
 * Close the services of interfaces that are back and up, and open those that are closed if their interface is there. If
 * that fails, the log says so once, and a call a second later tries again. No effect while a reconfiguration is on its
 * way.
 */
void reopen_interfaces(struct daemon *daemon);

/** An interface came, changed or went: do not wait for the second. */
void reopen_hurry(struct daemon *daemon);

/** The daemon ends. Any state. */
void reopen_cancel(struct daemon *daemon);

#endif
