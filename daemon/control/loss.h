// SPDX-License-Identifier: Apache-2.0
/* When packets were lost for want of a buffer, by the ring's block records. */
#ifndef DAEMON_CONTROL_LOSS_H
#define DAEMON_CONTROL_LOSS_H

#include <ibvcap/layout.h>

/* Between two readings of the device: UTC. packets 0: none that the records still tell of. */
struct loss {
	uint64_t packets;
	uint64_t from_ns; /* 0: before the first reading */
	uint64_t to_ns;
};

/* What was found of one ring, and when so many had been dropped; all zero to begin with. */
struct loss_memory {
	uint64_t no_buffer;
	struct loss last;
};

/**
 * The newest; the records are looked through only if more were dropped since it was last asked. now_ns: what is counted
 * and in no record yet was lost before it. The worker may go on meanwhile.
 */
const struct loss *loss_find_last(struct loss_memory *memory, const struct ibvcap_ring *ring, uint64_t now_ns);

#endif
