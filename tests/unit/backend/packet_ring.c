// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/backend/packet_ring.h"

#include <criterion/criterion.h>
#include <string.h>

/* No slot begins in the rest of a block, which is not 0. */
#define REST_BYTES  (RING_SLOT_BYTES - TPACKET_ALIGNMENT)
#define BLOCK_BYTES (RING_BLOCK_SLOTS * RING_SLOT_BYTES + REST_BYTES)

static _Alignas(64) uint8_t blocks[RING_N_BLOCKS * BLOCK_BYTES];
static uint32_t next; /* slot that the kernel fills */

static uint8_t *slot_at(uint32_t slot)
{
	return blocks + (size_t)(slot / RING_BLOCK_SLOTS) * BLOCK_BYTES +
	       (size_t)(slot % RING_BLOCK_SLOTS) * RING_SLOT_BYTES;
}

struct backend_queue_options ring_queue_options(uint32_t slots, uint32_t header_bytes, uint32_t slot_bytes)
{
	return (struct backend_queue_options){.slots = slots,
	                                      .header_bytes = header_bytes,
	                                      .header_stride = 64,
	                                      .slot_bytes = slot_bytes,
	                                      .row_stride = slot_bytes};
}

void make_ring(struct af_packet_ring *ring)
{
	memset(blocks, 0xff, sizeof(blocks));
	for (uint32_t slot = 0; slot < RING_N_SLOTS; slot++)
		memset(slot_at(slot), 0, RING_SLOT_BYTES);
	next = 0;
	*ring = (struct af_packet_ring){.blocks = blocks,
	                                .block_bytes = BLOCK_BYTES,
	                                .n_blocks = RING_N_BLOCKS,
	                                .slot_bytes = RING_SLOT_BYTES,
	                                .block_slots = RING_BLOCK_SLOTS,
	                                .next = blocks};
}

struct tpacket2_hdr *write_frame(const struct ring_frame *frame)
{
	struct tpacket2_hdr *header = (struct tpacket2_hdr *)(void *)slot_at(next);
	uint32_t mac_at = (uint32_t)TPACKET2_HDRLEN + 64; /* not where it could be guessed */

	cr_assert(is_kernels(next), "the ring is full");
	cr_assert(mac_at + frame->snaplen <= RING_SLOT_BYTES);
	next = (next + 1) % RING_N_SLOTS;
	*header = (struct tpacket2_hdr){
		.tp_sec = frame->seconds,
		.tp_nsec = frame->nanoseconds,
		.tp_snaplen = frame->snaplen,
		.tp_len = frame->len ? frame->len : frame->snaplen,
		.tp_status = frame->status,
		.tp_mac = (uint16_t)mac_at,
		.tp_net = (uint16_t)(mac_at + frame->net_at),
		.tp_vlan_tci = frame->tci,
		.tp_vlan_tpid = frame->tpid,
	};
	memcpy((uint8_t *)header + mac_at, frame->bytes, frame->snaplen);
	memcpy((uint8_t *)header + mac_at - sizeof(frame->lengths), &frame->lengths, sizeof(frame->lengths));
	return header;
}

void put_frame(const struct ring_frame *frame)
{
	write_frame(frame)->tp_status |= TP_STATUS_USER;
}

bool is_kernels(uint32_t slot)
{
	return ((const struct tpacket2_hdr *)(const void *)slot_at(slot))->tp_status == TP_STATUS_KERNEL;
}

uint32_t n_slots_held(void)
{
	uint32_t n = 0;

	for (uint32_t slot = 0; slot < RING_N_SLOTS; slot++)
		n += !is_kernels(slot);
	return n;
}
