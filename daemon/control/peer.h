// SPDX-License-Identifier: Apache-2.0
/* The process, user and groups at the other end of a connected Unix socket, as the kernel names them. */
#ifndef DAEMON_CONTROL_PEER_H
#define DAEMON_CONTROL_PEER_H

#include "daemon/control/rights.h"

/** Process, user and group. 0 or -errno. */
int peer_read(int fd, struct peer *peer);

/**
 * Its other groups, in ascending order: *groups is allocated, peer points into it. A process can have 65,536 of them,
 * which take 0.2 ms to read; if there are more than n_max, none is read and *groups is NULL. 0 or -errno.
 */
int peer_read_groups(int fd, struct peer *peer, gid_t **groups, uint32_t n_max);

/** A descriptor that becomes readable when the peer's process has died, or -errno. */
int peer_open_pidfd(int fd, const struct peer *peer);

#endif
