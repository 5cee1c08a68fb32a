// SPDX-License-Identifier: Apache-2.0
/*
 * A TPACKET_V3 ring: frames lie densely in blocks, which the kernel hands over when they are full or RETIRE_MS old.
 * A frame costs less than in V2, but a lone frame comes late.
 */
#include "afpacket.h"

#define RETIRE_MS   1u
#define FRAME_BYTES 2048u /* V3 only requires that it divides the block size */

static struct tpacket_block_desc *afpacket_v3_block(const struct afpacket *a, uint32_t i)
{
	return (void *)(a->ring + (size_t)i * AFPACKET_BLOCK_BYTES);
}

static bool afpacket_v3_next_block(struct afpacket *a)
{
	struct tpacket_block_desc *b = afpacket_v3_block(a, a->v3.next);

	/* Pairs with the kernel's barrier between filling the block and writing its status. */
	if (a->v3.n_taken == a->n_blocks ||
	    !(__atomic_load_n(&b->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
		return false;
	a->v3.next = a->v3.next + 1 == a->n_blocks ? 0 : a->v3.next + 1;
	a->v3.n_taken++;
	a->v3.n_left = b->hdr.bh1.num_pkts;
	a->v3.frame = (uint8_t *)b + b->hdr.bh1.offset_to_first_pkt;
	return true;
}

static int afpacket_v3_receive(struct wire *wire, struct wire_frame *frames, int max)
{
	struct afpacket *a = (struct afpacket *)wire;
	int n = 0;

	while (n < max && (a->v3.n_left || afpacket_v3_next_block(a))) {
		struct tpacket3_hdr *h = (void *)a->v3.frame;

		if (!a->v3.n_left)
			continue; /* an empty block, handed over because of its age */
		a->v3.n_left--;
		a->v3.frame += h->tp_next_offset;
		__builtin_prefetch(a->v3.frame);
		const struct afpacket_header header = {
			.start = (uint8_t *)h,
			.status = h->tp_status,
			.len = h->tp_len,
			.snaplen = h->tp_snaplen,
			.seconds = h->tp_sec,
			.ns = h->tp_nsec,
			.mac_offset = h->tp_mac,
			.vlan_tci = (uint16_t)h->hv1.tp_vlan_tci,
			.vlan_tpid = h->hv1.tp_vlan_tpid,
			.from = (void *)((uint8_t *)h + TPACKET_ALIGN(sizeof(*h))),
		};
		n += afpacket_frame(a, &frames[n], &header);
	}
	return n;
}

/* Gives back the blocks that were read to their end, and keeps the one that is half read. */
static void afpacket_v3_release(struct wire *wire)
{
	struct afpacket *a = (struct afpacket *)wire;
	uint32_t i = (a->v3.next + a->n_blocks - a->v3.n_taken) % a->n_blocks;
	uint32_t keep = a->v3.n_left ? 1 : 0;

	for (; a->v3.n_taken > keep; a->v3.n_taken--) {
		__atomic_store_n(&afpacket_v3_block(a, i)->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		i = i + 1 == a->n_blocks ? 0 : i + 1;
	}
}

static size_t afpacket_v3_shape(struct afpacket *a, uint32_t frame_bytes, struct tpacket_req3 *req)
{
	(void)frame_bytes; /* a frame takes as much as it needs, up to a block */
	req->tp_frame_size = FRAME_BYTES;
	req->tp_frame_nr = a->n_blocks * (AFPACKET_BLOCK_BYTES / FRAME_BYTES);
	req->tp_retire_blk_tov = RETIRE_MS;
	return sizeof(*req);
}

int afpacket_open_v3(struct wire **wire, const struct wire_config *config)
{
	static const struct afpacket_ring_ops ops = {
		.version = TPACKET_V3,
		.shape = afpacket_v3_shape,
		.receive = afpacket_v3_receive,
		.release = afpacket_v3_release,
	};

	return afpacket_open(wire, config, &ops);
}
