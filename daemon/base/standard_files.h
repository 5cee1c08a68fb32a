// SPDX-License-Identifier: Apache-2.0
/* What each program does with its standard files before it opens anything. */
#ifndef DAEMON_BASE_STANDARD_FILES_H
#define DAEMON_BASE_STANDARD_FILES_H

#include <fcntl.h>
#include <unistd.h>

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
