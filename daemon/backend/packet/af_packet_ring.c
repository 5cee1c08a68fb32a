// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the ring of a packet socket (TPACKET_V2). Each frame has a slot, and is there as soon as the kernel has written
 * it. A ring of blocks (TPACKET_V3) takes less memory for short frames, but hands a frame over up to 1 ms later.
 */
#include "daemon/backend/packet/af_packet.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* The worker may stop for 27 ms at 400 000 packets a second of 1472 bytes, and for longer if packets are shorter. */
#define RING_BYTES_MIN (UINT64_C(16) << 20)
/* The kernel allocates the ring in blocks, which are contiguous, and no slot goes over the end of one. */
#define BLOCK_BYTES_MIN (UINT32_C(256) << 10)
#define BLOCK_BYTES_MAX (UINT32_C(1) << 20)
#define BLOCK_SLOTS_MIN 32
/* Before the frame: the kernel's header and address, the lengths of merged datagrams, and room to align it. */
#define SLOT_HEADER_BYTES (TPACKET2_HDRLEN + 2 * TPACKET_ALIGNMENT)
#define SLOT_FRAME_MIN    256 /* headers that are read for the flow's number, however short the rows are */

static void ring_plan(struct af_packet_ring *ring, uint32_t n_frames, uint32_t frame_bytes)
{
	uint64_t n_slots;

	frame_bytes = frame_bytes > SLOT_FRAME_MIN ? frame_bytes : SLOT_FRAME_MIN;
	ring->slot_bytes = (uint32_t)TPACKET_ALIGN(frame_bytes + (uint32_t)SLOT_HEADER_BYTES);
	ring->block_bytes = BLOCK_BYTES_MIN;
	while (ring->block_bytes < BLOCK_SLOTS_MIN * ring->slot_bytes && ring->block_bytes < BLOCK_BYTES_MAX)
		ring->block_bytes *= 2;
	ring->block_slots = ring->block_bytes / ring->slot_bytes;
	n_slots = RING_BYTES_MIN / ring->slot_bytes;
	n_slots = n_frames > n_slots ? n_frames : n_slots;
	ring->n_blocks = (uint32_t)((n_slots + ring->block_slots - 1) / ring->block_slots);
}

static size_t ring_bytes(const struct af_packet_ring *ring)
{
	return (size_t)ring->n_blocks * ring->block_bytes;
}

uint64_t af_packet_ring_bytes(uint32_t n_frames, uint32_t frame_bytes)
{
	struct af_packet_ring ring;

	ring_plan(&ring, n_frames, frame_bytes);
	return ring_bytes(&ring);
}

int af_packet_ring_init(struct af_packet_ring *ring, int fd, uint32_t n_frames, uint32_t frame_bytes)
{
	struct tpacket_req request;
	int version = TPACKET_V2;
	void *blocks;

	ring_plan(ring, n_frames, frame_bytes);
	request = (struct tpacket_req){
		.tp_block_size = ring->block_bytes,
		.tp_block_nr = ring->n_blocks,
		.tp_frame_size = ring->slot_bytes,
		.tp_frame_nr = ring->n_blocks * ring->block_slots,
	};
	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) < 0)
		return -errno;
	blocks = mmap(NULL, ring_bytes(ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (blocks == MAP_FAILED)
		return -errno;
	ring->blocks = ring->next = blocks;
	return 0;
}

void af_packet_ring_deinit(struct af_packet_ring *ring)
{
	if (ring->blocks)
		munmap(ring->blocks, ring_bytes(ring));
	ring->blocks = NULL;
}

const struct tpacket2_hdr *af_packet_ring_next(const struct af_packet_ring *ring)
{
	const struct tpacket2_hdr *frame = (const struct tpacket2_hdr *)ring->next;

	/* The kernel writes the status after the frame. */
	return __atomic_load_n(&frame->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER ? frame : NULL;
}

void af_packet_ring_release(struct af_packet_ring *ring)
{
	struct tpacket2_hdr *frame = (struct tpacket2_hdr *)ring->next;

	__atomic_store_n(&frame->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	ring->next += ring->slot_bytes;
	if (++ring->slot < ring->block_slots)
		return;
	ring->slot = 0;
	ring->block = ring->block + 1 < ring->n_blocks ? ring->block + 1 : 0;
	ring->next = ring->blocks + (size_t)ring->block * ring->block_bytes;
}
