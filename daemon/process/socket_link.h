// SPDX-License-Identifier: Apache-2.0
/*
 * A symbolic link to the control socket in the runtime directory of the service. ExecReload= of the unit connects
 * there, because it does not know the path that the configuration has.
 */
#ifndef DAEMON_PROCESS_SOCKET_LINK_H
#define DAEMON_PROCESS_SOCKET_LINK_H

/**
 * Make the link, in place of that of the last run. No effect if no service manager made a runtime directory. The
 * service manager removes it with the directory. Logs a failure, because only a reload by the service manager needs the
 * link.
 */
void socket_link_make(const char *socket_path);

#endif
