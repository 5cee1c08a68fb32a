// SPDX-License-Identifier: Apache-2.0
/* Can clients find the control socket where the configuration puts it? */
#ifndef DAEMON_PROCESS_SOCKET_LOCATION_H
#define DAEMON_PROCESS_SOCKET_LOCATION_H

#include <stdbool.h>

/** Is it below /tmp or /var/tmp, of which a service with PrivateTmp= has its own? Pure. */
bool socket_location_is_temporary(const char *socket_path);

/**
 * Does the process have a /tmp or /var/tmp of its own, made by systemd, and the socket in it? mountinfo: the path of
 * the process' table of mounts (proc(5)).
 */
bool socket_location_is_private(const char *socket_path, const char *mountinfo);

/**
 * Make a link to the control socket in the runtime directory of the service, in place of that of the last run.
 * ExecReload= of the unit connects there, because it does not know the path that the configuration has. No effect
 * without a runtime directory. Logs a failure, because only a reload by the service manager needs the link.
 */
void socket_link_make(const char *socket_path);

#endif
