// SPDX-License-Identifier: Apache-2.0
/* A netdev as the wire, through an AF_PACKET socket. This is what the two kinds of receive ring share. */
#ifndef SOFTHCA_WIRE_AFPACKET_H
#define SOFTHCA_WIRE_AFPACKET_H

#include "wire.h"

#include <linux/if_packet.h>
#include <pthread.h>

#define AFPACKET_BLOCK_BYTES (1u << 20)

struct afpacket;

struct afpacket_ring_ops {
	int version; /* enum tpacket_versions */
	/* Computes the ring's shape. `frame_bytes` is the room that a frame of full size needs after its header.
	 * Returns the size of the request for PACKET_RX_RING. */
	size_t (*shape)(struct afpacket *a, uint32_t frame_bytes, struct tpacket_req3 *req);
	/* Two of wire_ops; the others are the same for both rings. */
	int (*receive)(struct wire *wire, struct wire_frame *frames, int max);
	void (*release)(struct wire *wire);
};

struct afpacket {
	struct wire base;
	struct wire_ops ops;
	int fd;
	const char *netdev;
	uint8_t *ring;
	uint32_t n_blocks;
	pthread_mutex_t stats_lock;
	struct wire_stats stats;
	uint32_t longest_bytes;     /* of a frame, by the MTU when the ring was made */
	_Atomic uint64_t truncated; /* frames longer than that */
	union {
		struct {
			uint32_t frame_bytes, frames_per_block, n_frames;
			uint32_t next;    /* slot to look at */
			uint32_t n_taken; /* slots that were not given back, ending before `next` */
		} v2;
		struct {
			uint32_t next;    /* block to look at */
			uint32_t n_taken; /* blocks that were read to their end, ending before `next` */
			uint32_t n_left;  /* frames not read yet in the block before `next` */
			uint8_t *frame;   /* the first of those */
		} v3;
	};
};

/* What a ring's header says of a frame. Both versions have the same fields in different structs. */
struct afpacket_header {
	uint8_t *start;
	uint32_t status, len, snaplen, seconds, ns;
	uint16_t mac_offset, vlan_tci, vlan_tpid;
	const struct sockaddr_ll *from;
};

/* False if it is not a whole frame; it counts as a discard. */
bool afpacket_frame(struct afpacket *a, struct wire_frame *f, const struct afpacket_header *h);

int afpacket_open(struct wire **wire, const struct wire_config *config, const struct afpacket_ring_ops *ops);

#endif
