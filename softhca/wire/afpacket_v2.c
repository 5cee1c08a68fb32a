// SPDX-License-Identifier: Apache-2.0
/* A TPACKET_V2 ring: one slot for each frame, visible as soon as the kernel has written it. For low latency. */
#include "afpacket.h"

#define MIN_SLOT_BYTES 2048u

static struct tpacket2_hdr *afpacket_v2_slot(const struct afpacket *a, uint32_t i)
{
	return (void *)(a->ring + (size_t)(i / a->v2.frames_per_block) * AFPACKET_BLOCK_BYTES +
	                (size_t)(i % a->v2.frames_per_block) * a->v2.frame_bytes);
}

static int afpacket_v2_receive(struct wire *wire, struct wire_frame *frames, int max)
{
	struct afpacket *a = (struct afpacket *)wire;
	int n = 0;

	while (n < max && a->v2.n_taken < a->v2.n_frames) {
		struct tpacket2_hdr *h = afpacket_v2_slot(a, a->v2.next);
		/* Pairs with the kernel's barrier between writing the frame and writing its status. */
		uint32_t status = __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);

		if (!(status & TP_STATUS_USER))
			break;
		a->v2.next = a->v2.next + 1 == a->v2.n_frames ? 0 : a->v2.next + 1;
		a->v2.n_taken++;
		__builtin_prefetch(afpacket_v2_slot(a, a->v2.next));
		const struct afpacket_header header = {
			.start = (uint8_t *)h,
			.status = status,
			.len = h->tp_len,
			.snaplen = h->tp_snaplen,
			.seconds = h->tp_sec,
			.ns = h->tp_nsec,
			.mac_offset = h->tp_mac,
			.vlan_tci = h->tp_vlan_tci,
			.vlan_tpid = h->tp_vlan_tpid,
			.from = (void *)((uint8_t *)h + TPACKET_ALIGN(sizeof(*h))),
		};
		n += afpacket_frame(a, &frames[n], &header);
	}
	return n;
}

static void afpacket_v2_release(struct wire *wire)
{
	struct afpacket *a = (struct afpacket *)wire;
	uint32_t i = (a->v2.next + a->v2.n_frames - a->v2.n_taken) % a->v2.n_frames;

	for (; a->v2.n_taken; a->v2.n_taken--) {
		__atomic_store_n(&afpacket_v2_slot(a, i)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		i = i + 1 == a->v2.n_frames ? 0 : i + 1;
	}
}

static size_t afpacket_v2_shape(struct afpacket *a, uint32_t frame_bytes, struct tpacket_req3 *req)
{
	uint32_t need = TPACKET_ALIGN(TPACKET2_HDRLEN) + frame_bytes;

	a->v2.frame_bytes = need < MIN_SLOT_BYTES ? MIN_SLOT_BYTES : (need + 127) & ~127u;
	a->v2.frames_per_block = AFPACKET_BLOCK_BYTES / a->v2.frame_bytes;
	a->v2.n_frames = a->n_blocks * a->v2.frames_per_block;
	req->tp_frame_size = a->v2.frame_bytes;
	req->tp_frame_nr = a->v2.n_frames;
	return sizeof(struct tpacket_req); /* the first members of tpacket_req3 */
}

int afpacket_open_v2(struct wire **wire, const struct wire_config *config)
{
	static const struct afpacket_ring_ops ops = {
		.version = TPACKET_V2,
		.shape = afpacket_v2_shape,
		.receive = afpacket_v2_receive,
		.release = afpacket_v2_release,
	};

	return afpacket_open(wire, config, &ops);
}
