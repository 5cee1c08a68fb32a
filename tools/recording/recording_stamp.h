// SPDX-License-Identifier: Apache-2.0
/* Tells one recording from another, so that an index is used only with the file it was written for. */
#ifndef TOOLS_RECORDING_RECORDING_STAMP_H
#define TOOLS_RECORDING_RECORDING_STAMP_H

#include <stdint.h>

struct recording_stamp {
	uint64_t bytes; /* of the file */
	uint64_t hash;  /* of its last page, which has the time of its end in ns */
};

/** Of a regular file that is open for reading; its place of reading stays. 0; -errno. */
int recording_stamp_of(int fd, struct recording_stamp *stamp);

#endif
