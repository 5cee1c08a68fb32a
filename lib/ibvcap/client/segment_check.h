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
	uint64_t magic; /* of its head, struct ibvcap_segment; 0: it has none */
	size_t bytes_min;
};

/**
 * Map n descriptors, and check that segments with a head are complete, of that kind, of this epoch and ABI, and have
 * bytes_min. whole is for the error text: "ring". Takes the descriptors over, also on failure. 0 or -errno.
 */
int segment_map_all(const struct segment *segments, unsigned n, const int *fds, uint64_t epoch, const char *whole);

/** Do n items of each bytes, from an aligned offset on, fit into a segment of total bytes? */
bool segment_fits(uint64_t offset, uint64_t align, uint64_t n, uint64_t each, uint64_t total);

/** Make a descriptor that came with them non-blocking: a read or a kick must never wait. 0 or -EPROTO. */
int segment_unblock(int fd, const char *whole, const char *name);

/** Sets the text for a segment with wrong contents. -EPROTO. */
int segment_reject(const char *whole, const char *what);

#endif
