// SPDX-License-Identifier: Apache-2.0
/*
 * What the service manager keeps for the next run (sd_notify(3), FDSTORE=1): the listening socket, so that no client
 * is refused between two runs, and the sockets of the groups, so that none is left. Taken where $FDSTORE says that it
 * keeps something: newer systemd sets it, and the unit does for older ones.
 *
 * The groups of the last run are held until those of this run are joined; then a group that is no longer wanted is
 * left, and no other. Names: "control", "groups-EPOCH-STREAM". Control thread only.
 */
#ifndef DAEMON_PROCESS_FDSTORE_H
#define DAEMON_PROCESS_FDSTORE_H

#include "daemon/net/net.h"

#include <stdbool.h>
#include <stdint.h>

struct fdstore {
	bool keeps;     /* the service manager takes descriptors */
	bool restarted; /* there was a run before this one: it left something under a name of ours */
	int listener;   /* of the last run, or of socket activation; -1: none, or taken */
	int *fds;       /* of the last run, to be let go of: its groups */
	char **names;   /* theirs */
	uint32_t n_fds;
	uint64_t generation; /* of names, from a random one on: no two, of this run or the last, are the same */
};

#define FDSTORE_INIT           \
	{                      \
		.listener = -1 \
	}

/**
 * Take what was passed (LISTEN_FDS) and clear the environment of it. A listener is one at that path; a socket unit's at
 * another is a failure.
 */
int fdstore_take(struct fdstore *store, const char *socket_path, struct failure *failure);

/** Have it kept for the next run. Not where the manager keeps nothing. */
void fdstore_keep_listener(const struct fdstore *store, int fd);
/**
 * Have the stream's sockets kept under a new name, which is then *kept_as (0: none). Those of the name before are let go
 * of only then, so that the manager is in every group that stays at each moment; and not at all where the new could not
 * be given: then -errno. NULL: nothing is to be kept any more.
 */
int fdstore_keep_groups(struct fdstore *store, const char *stream, const struct membership *membership,
                        uint64_t *kept_as);

/** This run has its own of all that the last one left: let go of that. has_all: the manager may too, it has this run's. */
void fdstore_settle(struct fdstore *store, bool has_all);

/** Close what was taken and not used. The manager keeps what it has. Any state. */
void fdstore_deinit(struct fdstore *store);

#endif
