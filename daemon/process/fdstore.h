// SPDX-License-Identifier: Apache-2.0
/*
 * The descriptors that the service manager keeps for the next run (sd_notify(3), FDSTORE=1): the listening socket, so
 * that no client is refused between two runs, and the sockets of the groups, so that no group is left between two
 * runs. The manager keeps descriptors if $FDSTORE is a number above 0: newer versions of systemd set it, and the unit
 * sets it for older ones.
 *
 * The daemon holds the groups' sockets of the last run until those of this run have joined. Closing them then leaves
 * the groups that are no longer wanted, and no other. Names: "control", "groups-GENERATION-STREAM". Control thread
 * only.
 */
#ifndef DAEMON_PROCESS_FDSTORE_H
#define DAEMON_PROCESS_FDSTORE_H

#include "daemon/net/net.h"

#include <stdbool.h>
#include <stdint.h>

struct manager;

struct fdstore {
	struct manager *manager;
	bool keeps;     /* the service manager keeps descriptors */
	bool restarted; /* there was a run before this one: the manager had kept something under a name of ours */
	int listener;   /* socket of the last run, or of a socket unit; -1: none, or in use */
	int *fds;       /* groups' sockets of the last run, until fdstore_close_last_run() */
	char **names;   /* of fds */
	uint32_t n_fds;
	uint64_t generation; /* in names; begins at random, so that two names are never the same, even of two runs */
};

#define FDSTORE_INIT           \
	{                      \
		.listener = -1 \
	}

/**
 * Take the descriptors that were passed (LISTEN_FDS), and clear the environment of them. A socket that listens at
 * socket_path becomes the listener. A socket unit that listens at another path is a failure.
 */
int fdstore_take(struct fdstore *store, struct manager *manager, const char *socket_path, struct failure *failure);

/** Have the listener kept for the next run. No effect if the manager keeps nothing. */
void fdstore_keep_listener(const struct fdstore *store, int fd);
/**
 * Have the sockets of a stream's groups kept under a new name, which *kept_as then says (0: none). Only then the
 * manager drops those under the old name, so that it is in every group at each moment. If it does not take the new
 * ones, it keeps the old ones: -errno. membership NULL: the manager drops the old ones.
 */
int fdstore_keep_groups(struct fdstore *store, const char *stream, const struct membership *membership,
                        uint64_t *kept_as);

/**
 * This run has joined its groups: close the sockets of the last run. has_all: the manager has this run's, and drops
 * them too.
 */
void fdstore_close_last_run(struct fdstore *store, bool has_all);

/** Close descriptors that were taken and not used. The manager keeps its copies. Any state. */
void fdstore_deinit(struct fdstore *store);

#endif
