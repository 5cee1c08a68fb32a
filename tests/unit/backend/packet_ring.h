// SPDX-License-Identifier: Apache-2.0
/* The ring of a packet socket in memory of the test, which fills it as the kernel does, and a queue that reads it. */
#ifndef TESTS_UNIT_BACKEND_PACKET_RING_H
#define TESTS_UNIT_BACKEND_PACKET_RING_H

#include "daemon/backend/packet/af_packet.h"

#include <linux/virtio_net.h>

#define RING_N_BLOCKS    3u
#define RING_BLOCK_SLOTS 4u
#define RING_N_SLOTS     (RING_N_BLOCKS * RING_BLOCK_SLOTS)
#define RING_SLOT_BYTES  512u

/* A frame as the kernel hands it over. */
struct ring_frame {
	const uint8_t *bytes;
	uint32_t snaplen; /* of them that are in the ring */
	uint32_t len;     /* of the packet; 0: snaplen */
	uint32_t net_at;  /* the IP header, from the start of the bytes */
	uint32_t status;  /* TP_STATUS_…, without TP_STATUS_USER */
	uint16_t tpid;
	uint16_t tci;
	uint32_t seconds;
	uint32_t nanoseconds;
	struct virtio_net_hdr lengths;
};

/** Options of a queue of the test that reads a ring: rows of header_bytes and slot_bytes. */
struct backend_queue_options ring_queue_options(uint32_t slots, uint32_t header_bytes, uint32_t slot_bytes);
/** An empty ring. */
void make_ring(struct af_packet_ring *ring);
/** Write a frame to the next slot, all but its status. */
struct tpacket2_hdr *write_frame(const struct ring_frame *frame);
/** Put a frame into the next slot. */
void put_frame(const struct ring_frame *frame);
/** Has the kernel this slot? */
bool is_kernels(uint32_t slot);
/** Slots that the kernel has not got back. */
uint32_t n_slots_held(void);

#endif
