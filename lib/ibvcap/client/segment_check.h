// SPDX-License-Identifier: Apache-2.0
/* Maps and checks segments that the daemon sent. Every failure sets the text of error.h. */
#ifndef IBVCAP_SEGMENT_CHECK_H
#define IBVCAP_SEGMENT_CHECK_H

#include "lib/ibvcap/shm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct segment {
	struct shm *shm;
	const char *name; /* for the error text: "payload" */
	bool writable;
};

/** Map n descriptors. whole is for the error text: "ring". Takes the descriptors over, also on failure. 0 or -errno. */
int segment_map_all(const struct segment *segments, unsigned n, const int *fds, const char *whole);

/** Is the segment complete, of that kind, of this epoch and ABI, and at least so large? 0 or -EPROTO. */
int segment_check(const struct shm *shm, size_t bytes_min, uint64_t magic, uint64_t epoch, const char *whole,
                  const char *name);

/** Do n items of each bytes, from an aligned offset on, fit into a segment of total bytes? */
bool segment_fits(uint64_t offset, uint64_t align, uint64_t n, uint64_t each, uint64_t total);

/** Make a descriptor that came with them non-blocking: a read or a kick must never wait. 0 or -EPROTO. */
int segment_unblock(int fd, const char *whole, const char *name);

/** Sets the text for a segment with wrong contents. -EPROTO. */
int segment_reject(const char *whole, const char *what);

#endif
