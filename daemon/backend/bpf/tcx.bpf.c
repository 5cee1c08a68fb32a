/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tcx program: drops the frames of flows after packet sockets have seen them, so that the kernel's network stack
 * neither handles nor answers them.
 */
#include "flow_find.h"

#include <bpf/bpf_endian.h>

#define USUAL_HEADERS_BYTES (14 + 4 + 60 + 8)
#define ALL_HEADERS_BYTES   (14 + 4 + 40 + 8 * FLOW_KEY_OPTION_UNITS + 4)

/* Of enum tcx_action_base, which headers before Linux 6.6 lack. */
#define TCX_PASS_ON (-1)
#define TCX_DISCARD 2

static __always_inline bool tcx_read_frame(const struct __sk_buff *skb, bool has_ethernet, struct flow_headers *headers,
                                           bool wide)
{
	struct flow_key *key = &headers->key;
	const __u8 *frame = (const __u8 *)(long)skb->data;
	const __u8 *end = (const __u8 *)(long)skb->data_end;
	bool tag_gone = skb->vlan_present;

	if (!has_ethernet)
		return flow_key_read_ip(frame, end, bpf_ntohs((__u16)skb->protocol), headers, wide);
	if (tag_gone && bpf_ntohs((__u16)skb->vlan_proto) == 0x8100) {
		key->vlan_be = bpf_htons(skb->vlan_tci & 0x0fff);
		key->fields = FLOW_KEY_VLAN;
	}
	return flow_key_read_frame(frame, end, tag_gone, headers, wide);
}

static __always_inline bool tcx_finds(const struct __sk_buff *skb, const struct flow_settings *now,
                                      struct flow_scratch *mine)
{
	bool is_read = flow_needs_wide(now) ? tcx_read_frame(skb, !now->no_ethernet, &mine->frame, true)
	                                    : tcx_read_frame(skb, !now->no_ethernet, &mine->frame, false);

	return is_read && flow_find(mine, now);
}

/*
 * True: the program can read fewer bytes directly. A process without CAP_PERFMON may compute with pointers only like
 * this.
 */
static __always_inline bool tcx_is_shorter(const struct __sk_buff *skb, __u32 bytes)
{
	return (const __u8 *)(long)skb->data + bytes > (const __u8 *)(long)skb->data_end;
}

SEC("tc")
int tcx_drop(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const struct flow_settings *now = bpf_map_lookup_elem(&settings, &zero);
	struct flow_scratch *mine = flow_scratch_get();

	if (!now || !mine)
		return TCX_PASS_ON;
	/*
	 * Some drivers leave the headers of a frame in its pages; none does so with a short frame. The call copies, so
	 * it is not made for every frame.
	 */
	if (tcx_is_shorter(skb, ALL_HEADERS_BYTES) && skb->len >= ALL_HEADERS_BYTES)
		bpf_skb_pull_data(skb, ALL_HEADERS_BYTES);
	else if (tcx_is_shorter(skb, USUAL_HEADERS_BYTES) && skb->len >= USUAL_HEADERS_BYTES)
		bpf_skb_pull_data(skb, USUAL_HEADERS_BYTES);
	return tcx_finds(skb, now, mine) ? TCX_DISCARD : TCX_PASS_ON;
}

char _license[] SEC("license") = "Dual BSD/GPL";
