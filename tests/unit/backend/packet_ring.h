// SPDX-License-Identifier: Apache-2.0
/* The ring of a packet socket in memory of the test, which fills it as the kernel does, and a queue that reads it. */
#ifndef TESTS_UNIT_BACKEND_PACKET_RING_H
#define TESTS_UNIT_BACKEND_PACKET_RING_H

#include "daemon/backend/packet/af_packet.h"

#include <linux/virtio_net.h>

#define RING_BLOCK_BYTES 16384u
#define RING_N_BLOCKS    3u

/* A frame as the kernel hands it over. */
struct ring_frame {
	const uint8_t *bytes;
	uint32_t snaplen; /* of them that are in the ring */
	uint32_t len;     /* of the packet; 0: snaplen */
	uint32_t net_at;  /* the IP header, from the start of the bytes */
	uint32_t status;  /* TP_STATUS_… */
	uint16_t tpid;
	uint16_t tci;
	uint32_t seconds;
	uint32_t nanoseconds;
	struct virtio_net_hdr lengths;
};

/** An empty ring. */
void make_ring(struct af_packet_ring *ring);
/** Put a frame into the block that the kernel fills. */
void put_frame(const struct ring_frame *frame);
/** The kernel hands its block over, and goes on with the next one. */
void hand_block_over(void);
/** Has the kernel this block? */
bool is_kernels(uint32_t block);

#endif
