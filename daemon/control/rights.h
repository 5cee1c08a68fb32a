// SPDX-License-Identifier: Apache-2.0
/* Who may receive a stream or send on a channel, and who may see more than those it may receive. Pure. */
#ifndef DAEMON_CONTROL_RIGHTS_H
#define DAEMON_CONTROL_RIGHTS_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Who is at the other end of a connection, by the kernel's word. */
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
	RIGHTS_DAEMONS_USER, /* runs as the daemon's own user: nothing would keep it from writing what is ours */
};

/**
 * root is trusted. The daemon's own user is not, unless it is root: a file's owner can open it again
 * writable. A stream that names no user and no group is for everybody who can open the socket.
 */
enum rights rights_to_receive(const struct config_stream *stream, const struct peer *peer, uid_t daemon_uid);

/** Likewise of a channel; but one that names no user and no group is for root only. */
enum rights rights_to_send(const struct config_channel *channel, const struct peer *peer, uid_t daemon_uid);

/** root and the daemon's user may change the configuration. */
bool rights_to_change(const struct peer *peer, uid_t daemon_uid);

/** root, the daemon's user, and members of the daemon's group see every stream in a status; others what they may receive. */
bool rights_to_see_all(const struct peer *peer, uid_t daemon_uid, gid_t daemon_gid);

/**
 * Of those who may receive: may it keep the queue waiting, for lossless_deadline_ms at most? Where that is 0 nobody may,
 * not even root.
 */
bool rights_to_be_lossless(const struct config_stream *stream, const struct peer *peer);

#endif
