// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/backend/packet_ring.h"

#include <criterion/criterion.h>
#include <string.h>

static _Alignas(64) uint8_t blocks[RING_N_BLOCKS * RING_BLOCK_BYTES];
static uint32_t filled; /* the block that the kernel fills */
static uint32_t end;    /* of its last frame */

static struct tpacket_block_desc *block_at(uint32_t block)
{
	return (struct tpacket_block_desc *)(void *)(blocks + (size_t)block * RING_BLOCK_BYTES);
}

void make_ring(struct af_packet_ring *ring)
{
	memset(blocks, 0, sizeof(blocks));
	filled = end = 0;
	*ring = (struct af_packet_ring){.blocks = blocks, .block_bytes = RING_BLOCK_BYTES, .n_blocks = RING_N_BLOCKS};
}

void put_frame(const struct ring_frame *frame)
{
	struct tpacket_block_desc *block = block_at(filled);
	uint32_t at = end ? end : (uint32_t)TPACKET_ALIGN(sizeof(*block) + 40); /* not where it could be guessed */
	uint32_t mac_at = (uint32_t)TPACKET3_HDRLEN + 64;
	struct tpacket3_hdr *header = (struct tpacket3_hdr *)(void *)((uint8_t *)block + at);

	cr_assert(is_kernels(filled), "the ring is full");
	end = at + (uint32_t)TPACKET_ALIGN(mac_at + frame->snaplen + 16);
	cr_assert_lt(end, RING_BLOCK_BYTES);
	*header = (struct tpacket3_hdr){
		.tp_next_offset = end - at,
		.tp_sec = frame->seconds,
		.tp_nsec = frame->nanoseconds,
		.tp_snaplen = frame->snaplen,
		.tp_len = frame->len ? frame->len : frame->snaplen,
		.tp_status = frame->status,
		.tp_mac = (uint16_t)mac_at,
		.tp_net = (uint16_t)(mac_at + frame->net_at),
		.hv1 = {.tp_vlan_tci = frame->tci, .tp_vlan_tpid = frame->tpid},
	};
	memcpy((uint8_t *)header + mac_at, frame->bytes, frame->snaplen);
	memcpy((uint8_t *)header + mac_at - sizeof(frame->lengths), &frame->lengths, sizeof(frame->lengths));
	if (block->hdr.bh1.num_pkts++ == 0)
		block->hdr.bh1.offset_to_first_pkt = at;
}

void hand_block_over(void)
{
	struct tpacket_block_desc *block = block_at(filled);

	block->hdr.bh1.block_status = TP_STATUS_USER | TP_STATUS_BLK_TMO;
	filled = (filled + 1) % RING_N_BLOCKS;
	end = 0;
	if (is_kernels(filled))
		block_at(filled)->hdr.bh1.num_pkts = 0;
}

bool is_kernels(uint32_t block)
{
	return block_at(block)->hdr.bh1.block_status == TP_STATUS_KERNEL;
}
