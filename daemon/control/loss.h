// SPDX-License-Identifier: Apache-2.0
/* Finds out from the ring's block records when packets were lost because no buffer was free. */
#ifndef DAEMON_CONTROL_LOSS_H
#define DAEMON_CONTROL_LOSS_H

#include <ibvcap/layout.h>

/* A loss between two readings of the device, UTC. packets 0: the records show no loss. */
struct loss {
	uint64_t packets;
	uint64_t from_ns; /* 0: before the first reading */
	uint64_t to_ns;
};

/* The last result for one ring, and the count of dropped packets at that time; all zero to begin with. */
struct loss_memory {
	uint64_t no_buffer;
	struct loss last;
};

/**
 * The newest loss. Searches the records only if more packets were dropped since the last call. now_ns: the end of a
 * loss that is counted but in no record yet. The worker may go on meanwhile.
 */
const struct loss *loss_find_last(struct loss_memory *memory, const struct ibvcap_ring *ring, uint64_t now_ns);

#endif
