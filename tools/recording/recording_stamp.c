// SPDX-License-Identifier: Apache-2.0
/* FNV-1a: a hash against mistakes, not against forgery. */
#include "tools/recording/recording_stamp.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAMP_BYTES 4096

int recording_stamp_of(int fd, struct recording_stamp *stamp)
{
	uint8_t last[STAMP_BYTES];
	struct stat status;
	ssize_t n;

	if (fstat(fd, &status) < 0)
		return -errno;
	stamp->bytes = (uint64_t)status.st_size;
	n = pread(fd, last, sizeof(last), status.st_size > STAMP_BYTES ? status.st_size - STAMP_BYTES : 0);
	if (n < 0)
		return -errno;
	stamp->hash = UINT64_C(0xcbf29ce484222325);
	for (ssize_t i = 0; i < n; i++)
		stamp->hash = (stamp->hash ^ last[i]) * UINT64_C(0x100000001b3);
	return 0;
}
