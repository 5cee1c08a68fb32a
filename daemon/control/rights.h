// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which clients may receive a stream, send on a channel, see a status or change the configuration, and who
 * pays: the user or group whose quotas the client uses up. Messages and pages for users call a payer an account. Pure.
 *
 * A user can take the uids that /etc/subuid gives it, 65,536 as a rule, so a uid counts as a user only if it is root's,
 * the daemon's, or named by the configuration. The group is the payer of all clients that have a right as its members.
 * Clients that have a right because the configuration names nobody share one payer. So the configuration, and no
 * client, decides how many payers there are.
 */
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
	const gid_t *groups; /* supplementary, in ascending order */
	uint32_t n_groups;
};

enum payer_kind {
	PAYER_USER,    /* root, the daemon's user, and each user that a list of users names */
	PAYER_GROUP,   /* all members of a group that a list of groups names */
	PAYER_UNNAMED, /* everybody else */
};

struct payer {
	enum payer_kind kind;
	uint32_t id; /* uid or gid; PAYER_UNNAMED: 0 */
};

enum rights {
	RIGHTS_GRANTED,
	RIGHTS_NOT_LISTED,   /* neither its user nor one of its groups is named by the stream or channel */
	RIGHTS_OBSERVER,     /* the stream is for everybody but members of observer_groups */
	RIGHTS_DAEMONS_USER, /* runs as the daemon's own user: could write to memory that only the daemon may write */
};

/**
 * root may receive every stream. The daemon's own user may not, unless it is root, because the owner of a file can open
 * it for writing again. A stream that names no user and no group is for all clients that can open the socket, but not
 * for members of observer_groups, such as the metrics service: with observers_receive for them, too.
 *
 * payer: NULL, or it gets the payer of the client's places and leases if the right is granted: the user, if users or
 * lossless_users names it; else the first group in groups that the client is a member of.
 */
enum rights rights_to_receive(const struct config *config, const struct config_stream *stream, const struct peer *peer,
                              uid_t daemon_uid, struct payer *payer);

/** The same for a channel, but a channel that names no user and no group is for root only. */
enum rights rights_to_send(const struct config_channel *channel, const struct peer *peer, uid_t daemon_uid,
                           struct payer *payer);

/** root and the daemon's user may change the configuration. */
bool rights_to_change(const struct peer *peer, uid_t daemon_uid);

/**
 * root, the daemon's user and members of observer_groups see all streams and channels in a status; others see those
 * that they may use.
 */
bool rights_to_see_all(const struct config *config, const struct peer *peer, uid_t daemon_uid);

/**
 * May a client that may receive the stream keep its queue waiting, for lossless_deadline_ms at most? If that is 0, no
 * client may, not even root.
 *
 * payer: NULL, or the one that rights_to_receive() found. If a group in lossless_groups gives the right to a user that
 * neither users nor lossless_users names, that group becomes the payer of the stall budget, places and leases.
 */
bool rights_to_be_lossless(const struct config_stream *stream, const struct peer *peer, struct payer *payer);

/**
 * The payer of all that does not belong to a stream or channel: connections, messages, CPU time. It is the user, if any
 * list of the configuration names it; else the first group of any list that the client is a member of.
 */
struct payer rights_payer(const struct config *config, const struct peer *peer, uid_t daemon_uid);

bool payer_is_same(const struct payer *a, const struct payer *b);

/** No limit refuses root, because root could change the configuration as well. */
bool payer_is_root(const struct payer *payer);

#endif
