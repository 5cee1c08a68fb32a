// SPDX-License-Identifier: Apache-2.0
/* Gives descriptors their numbers, and closes them. */
#include "own_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST 200

int own_fd_copy(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, FIRST);

	return copy < 0 ? -errno : copy;
}

int own_fd(int fd)
{
	int high = fd < 0 ? -errno : own_fd_copy(fd);

	own_fd_close(fd);
	return high;
}

void own_fd_close(int fd)
{
	if (fd >= 0)
		syscall(SYS_close, fd);
}
