// SPDX-License-Identifier: Apache-2.0
/* Closing file descriptors, and the standard files that each program opens before anything else. */
#ifndef LIB_BASE_FD_H
#define LIB_BASE_FD_H

#include <fcntl.h>
#include <unistd.h>

/** Close the descriptor, unless it is -1, and set it to -1. */
static inline void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/**
 * Open /dev/null for each of the three standard files that the caller of the program has closed. Otherwise the next
 * file that is opened gets that number, and messages would be written to a socket, a device or memory.
 */
static inline void standard_files_open(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

#endif
