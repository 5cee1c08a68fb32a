// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the ring of a packet socket (TPACKET_V3). The kernel fills a block with frames and hands it over when it is
 * full, or RETIRE_MS after its first frame.
 */
#include "daemon/backend/packet/af_packet.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define RETIRE_MS 1
/*
 * At 1000 packets a second and more, each millisecond takes a block, so the worker may stop for as many milliseconds as
 * there are blocks: 256 of the smallest, 64 of the largest.
 */
#define RING_BYTES_MIN (UINT64_C(64) << 20)
/*
 * Each block costs the receiving CPU a wake-up of the worker, so many frames share one. The kernel cuts a frame that is
 * longer than its block. The longest packet has 64 KiB: several datagrams that the kernel has joined.
 */
#define BLOCK_BYTES_MIN (UINT32_C(256) << 10)
#define BLOCK_BYTES_MAX (UINT32_C(1) << 20)
#define FRAMES_MIN      32

/* A block's status is a word that the kernel and we hand to each other. */
static struct tpacket_block_desc *ring_block(const struct af_packet_ring *ring)
{
	return (struct tpacket_block_desc *)(ring->blocks + (size_t)ring->block * ring->block_bytes);
}

static void ring_plan(struct af_packet_ring *ring, uint32_t n_frames, uint32_t frame_bytes)
{
	uint64_t room_bytes = TPACKET_ALIGN(frame_bytes + (uint32_t)TPACKET3_HDRLEN);
	uint64_t ring_bytes = n_frames * room_bytes > RING_BYTES_MIN ? n_frames * room_bytes : RING_BYTES_MIN;

	ring->block_bytes = BLOCK_BYTES_MIN;
	while (ring->block_bytes < FRAMES_MIN * room_bytes && ring->block_bytes < BLOCK_BYTES_MAX)
		ring->block_bytes *= 2;
	ring->n_blocks = (uint32_t)((ring_bytes + ring->block_bytes - 1) / ring->block_bytes);
}

uint64_t af_packet_ring_bytes(uint32_t n_frames, uint32_t frame_bytes)
{
	struct af_packet_ring ring;

	ring_plan(&ring, n_frames, frame_bytes);
	return (uint64_t)ring.n_blocks * ring.block_bytes;
}

int af_packet_ring_init(struct af_packet_ring *ring, int fd, uint32_t n_frames, uint32_t frame_bytes)
{
	struct tpacket_req3 request = {.tp_retire_blk_tov = RETIRE_MS};
	int version = TPACKET_V3;
	void *blocks;

	ring_plan(ring, n_frames, frame_bytes);
	request.tp_block_size = request.tp_frame_size = ring->block_bytes;
	request.tp_block_nr = request.tp_frame_nr = ring->n_blocks;
	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) < 0)
		return -errno;
	blocks = mmap(NULL, (size_t)ring->n_blocks * ring->block_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (blocks == MAP_FAILED)
		return -errno;
	ring->blocks = blocks;
	return 0;
}

void af_packet_ring_deinit(struct af_packet_ring *ring)
{
	if (ring->blocks)
		munmap(ring->blocks, (size_t)ring->n_blocks * ring->block_bytes);
	ring->blocks = NULL;
}

static void ring_give_back(struct af_packet_ring *ring)
{
	__atomic_store_n(&ring_block(ring)->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	ring->block = ring->block + 1 < ring->n_blocks ? ring->block + 1 : 0;
}

/* True: a block with frames is open. A block that the kernel hands over on time alone may be empty. */
static bool ring_open_block(struct af_packet_ring *ring)
{
	while (ring->n_left == 0) {
		struct tpacket_block_desc *block = ring_block(ring);

		if (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			return false;
		ring->n_left = block->hdr.bh1.num_pkts;
		ring->next = (const uint8_t *)block + block->hdr.bh1.offset_to_first_pkt;
		if (ring->n_left == 0)
			ring_give_back(ring);
	}
	return true;
}

const struct tpacket3_hdr *af_packet_ring_next(struct af_packet_ring *ring)
{
	return ring_open_block(ring) ? (const struct tpacket3_hdr *)ring->next : NULL;
}

void af_packet_ring_release(struct af_packet_ring *ring)
{
	ring->next += ((const struct tpacket3_hdr *)ring->next)->tp_next_offset;
	if (--ring->n_left == 0)
		ring_give_back(ring);
}
