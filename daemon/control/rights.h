// SPDX-License-Identifier: Apache-2.0
/* Which clients may receive a stream, send on a channel, see a status or change the configuration. Pure. */
#ifndef DAEMON_CONTROL_RIGHTS_H
#define DAEMON_CONTROL_RIGHTS_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The other end of a connection, as the kernel names it. */
struct peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	const gid_t *groups; /* supplementary */
	uint32_t n_groups;
};

enum rights {
	RIGHTS_GRANTED,
	RIGHTS_NOT_LISTED,   /* neither its user nor one of its groups is named by the stream or channel */
	RIGHTS_DAEMONS_USER, /* runs as the daemon's own user: could write to memory that only the daemon may write */
};

/**
 * root may receive every stream. The daemon's own user may not, unless it is root, because the owner of a file can open
 * it for writing again. A stream that names no user and no group is for all clients that can open the socket.
 */
enum rights rights_to_receive(const struct config_stream *stream, const struct peer *peer, uid_t daemon_uid);

/** The same for a channel, but a channel that names no user and no group is for root only. */
enum rights rights_to_send(const struct config_channel *channel, const struct peer *peer, uid_t daemon_uid);

/** root and the daemon's user may change the configuration. */
bool rights_to_change(const struct peer *peer, uid_t daemon_uid);

/** root, the daemon's user and members of its group see every stream in a status; others see those they may receive. */
bool rights_to_see_all(const struct peer *peer, uid_t daemon_uid, gid_t daemon_gid);

/**
 * May a client that may receive the stream keep its queue waiting, for lossless_deadline_ms at most? If that is 0, no
 * client may, not even root.
 */
bool rights_to_be_lossless(const struct config_stream *stream, const struct peer *peer);

#endif
