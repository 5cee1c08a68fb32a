// SPDX-License-Identifier: Apache-2.0
/*
 * Messages to the service manager, as sd_notify(3) describes them. sd_notify() itself waits while the manager's socket
 * is full. Here a message that finds it full waits in the daemon and is sent from the event loop, so a manager that
 * reads nothing never stops the control thread. Messages arrive in their order. Control thread only.
 */
#ifndef DAEMON_PROCESS_MANAGER_H
#define DAEMON_PROCESS_MANAGER_H

#include <systemd/sd-event.h>

struct manager;

/** Reach the manager that $NOTIFY_SOCKET names. NULL: there is none, or the log says why it cannot be reached. */
struct manager *manager_new(sd_event *event);
/** Messages that still wait are lost. NULL: no effect, here and below. */
void manager_free(struct manager *manager);

/** Send the text. It replaces an earlier text with the same first word that still waits. */
void manager_tell(struct manager *manager, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Have the manager keep a copy of the descriptor under the name for the next run. 0, or -errno, which the log has. */
int manager_keep_fd(struct manager *manager, const char *name, int fd);
/** Have it close those under this name. */
void manager_drop_fds(struct manager *manager, const char *name);

#endif
