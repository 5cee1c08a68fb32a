// SPDX-License-Identifier: Apache-2.0
/* The listening end of the control socket. No other daemon listens at its path while this one lives. */
#ifndef DAEMON_CONTROL_LISTENER_H
#define DAEMON_CONTROL_LISTENER_H

#include "lib/base/failure.h"

#include <stdbool.h>
#include <sys/types.h>

struct listener {
	int fd; /* -1 = closed */
	char path[108];
	dev_t device; /* of the socket file: only the file that was made is unlinked at the end */
	ino_t inode;
	bool kept;    /* the service manager keeps the socket: it outlives the daemon */
	bool adopted; /* it came from the service manager, which keeps it for certain */
};

#define LISTENER_INIT    \
	{                \
		.fd = -1 \
	}

/**
 * Can a socket be made at the path? A file that is not a socket, and a directory that is not there, are errors,
 * EX_CONFIG. user: the user that the daemon will be; NULL: that of this process.
 */
int listener_check_path(const char *path, const char *user, struct failure *failure);

/** Does a process of this network namespace listen at the path? True, too, if the kernel does not tell. */
bool listener_may_be_taken(const char *path);

/**
 * Bind and listen. A socket file at which no process listens is replaced. A socket at which a process listens is an
 * error, EX_TEMPFAIL, and the failure names the process; a file that is not a socket is an error, EX_CONFIG. group
 * (gid_t)-1: the file keeps the daemon's group. Clients may connect from now on, and wait until they are served.
 */
int listener_open(struct listener *listener, const char *path, mode_t mode, gid_t group, struct failure *failure);

/**
 * The same with a socket that listens at path already: from an earlier run, or made by the service manager, whose mode
 * and group it keeps. Takes fd over, also on failure.
 */
int listener_adopt(struct listener *listener, int fd, const char *path, mode_t mode, gid_t group,
                   struct failure *failure);

/** Close, and unlink the path if it is still the socket that was made and is not kept. Any state. */
void listener_close(struct listener *listener);

/**
 * May clients send descriptors to this socket, or to the connections of a listening one, which inherit it? If not, they
 * get EPERM. No effect before Linux 6.16: descriptors come, and each user's thread closes what the user's clients send.
 */
void listener_pass_descriptors(int fd, bool pass);

#endif
