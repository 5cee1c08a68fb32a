// SPDX-License-Identifier: Apache-2.0
/* File descriptors in variables that are -1 when they hold none. */
#ifndef DAEMON_BASE_FD_H
#define DAEMON_BASE_FD_H

#include <unistd.h>

/** Close it if there is one, and set it to -1. */
static inline void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

#endif
