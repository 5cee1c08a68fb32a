// SPDX-License-Identifier: Apache-2.0
/* The listening end of the control socket: a path that is ours alone while the daemon lives. */
#ifndef DAEMON_CONTROL_LISTENER_H
#define DAEMON_CONTROL_LISTENER_H

#include "daemon/base/failure.h"

#include <stdbool.h>
#include <sys/types.h>

struct listener {
	int fd; /* -1 = closed */
	char path[108];
	dev_t device; /* of the socket file: what is unlinked at the end is what was made */
	ino_t inode;
	bool kept;    /* the path outlives us: somebody listens on */
	bool adopted; /* from who keeps it for certain */
};

#define LISTENER_INIT    \
	{                \
		.fd = -1 \
	}

/**
 * Bind and listen. A socket file that nobody answers behind is replaced; one with a daemon behind it is
 * EX_TEMPFAIL naming its pid; anything that is not a socket is left alone, EX_CONFIG. group (gid_t)-1:
 * as it comes. Clients may connect from now on and wait until they are served.
 */
int listener_open(struct listener *listener, const char *path, mode_t mode, gid_t group, struct failure *failure);

/**
 * The same with a socket that listens at path already, from an earlier run, or (then with the rights that it has) made by
 * another user for us. Taken over, also on failure.
 */
int listener_adopt(struct listener *listener, int fd, const char *path, mode_t mode, gid_t group,
                   struct failure *failure);

/** Close, and unlink the path if it is still the socket that was made, and nobody keeps it. Any state. */
void listener_close(struct listener *listener);

#endif
