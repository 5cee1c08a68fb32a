/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The programs of the packet backend. packet_steer chooses the packet socket that gets a frame, of the sockets of an
 * interface that are one fanout group: so the kernel looks at a frame once, however many queues there are. Behind the
 * packet sockets packet_drop drops the frame, if its flow asks for that, so that the kernel's network stack neither
 * handles nor answers it.
 */
struct flow_load;
#define FLOW_KEY_LOADS
#include "flow_find.h"

#include <bpf/bpf_endian.h>

/* From <linux/if_packet.h>. */
#define PACKET_OUTGOING 4
#define PACKET_LOOPBACK 5

#define ETHERNET_BYTES      14
#define USUAL_HEADERS_BYTES 42 /* Ethernet, IPv4 and UDP */

/* The socket with index 0 takes no frame. */
#define INDEX_OF_NO_QUEUE 0

/* From enum tcx_action_base, which headers before Linux 6.6 lack. */
#define TCX_PASS_ON (-1)
#define TCX_DISCARD 2

/*
 * State of the present frame. Each CPU gives a frame to the packet sockets, then to packet_drop, then the next frame.
 */
struct packet_work {
	struct packet_verdict verdict;
	__u8 first[USUAL_HEADERS_BYTES]; /* first bytes of the frame */
	__u8 others[40];                 /* for flow_key_load() */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet_work);
} works SEC(".maps");

struct flow_load {
	struct __sk_buff *skb;
	struct packet_work *work;
	const __u8 *bytes; /* result of the last flow_key_load() */
	__u32 n_first;     /* bytes of the frame in work->first */
	__u32 before_data; /* bytes of the frame before what skb->data points to: its Ethernet header, or nothing */
};

/* Most frames are read by one call. It reads no more than the first piece of a frame, which may be as short. */
static __always_inline void packet_read_first(struct flow_load *load)
{
	if (load->before_data &&
	    bpf_skb_load_bytes_relative(load->skb, 0, load->work->first, USUAL_HEADERS_BYTES, BPF_HDR_START_MAC) == 0)
		load->n_first = USUAL_HEADERS_BYTES;
}

static __always_inline bool flow_key_load(flow_source source, flow_position at, __u32 n)
{
	if (source->n_first && __builtin_constant_p(at) && at + n <= USUAL_HEADERS_BYTES) {
		source->bytes = source->work->first + at;
		return true;
	}
	source->bytes = source->work->others;
	if (at < source->before_data)
		return bpf_skb_load_bytes_relative(source->skb, at, source->work->others, n, BPF_HDR_START_MAC) == 0;
	return bpf_skb_load_bytes(source->skb, at - source->before_data, source->work->others, n) == 0;
}

static __always_inline const __u8 *flow_key_loaded(flow_source source)
{
	return source->bytes;
}

static __always_inline bool packet_read_frame(struct flow_load *load, bool has_ethernet, struct flow_headers *headers,
                                              bool wide)
{
	const struct __sk_buff *skb = load->skb;
	struct flow_key *key = &headers->key;
	bool tag_gone = skb->vlan_present;
	flow_position ip;
	__u16 ethertype;

	if (!has_ethernet) {
		load->before_data = 0;
		return flow_key_read_ip(0, load, bpf_ntohs((__u16)skb->protocol), headers, wide);
	}
	if (tag_gone && bpf_ntohs((__u16)skb->vlan_proto) == 0x8100) {
		key->vlan_be = bpf_htons(skb->vlan_tci & 0x0fff);
		key->fields = FLOW_KEY_VLAN;
	}
	packet_read_first(load);
	if (!flow_key_read_ethernet(0, load, tag_gone, headers, wide, &ip, &ethertype))
		return false;
	if (ip == ETHERNET_BYTES)
		return flow_key_read_ip(ETHERNET_BYTES, load, ethertype, headers, wide);
	/* Behind a tag, offsets are computed; the verifier admits computed offsets as arguments of calls only. */
	load->n_first = 0;
	return flow_key_read_ip(ip, load, ethertype, headers, wide);
}

static __always_inline bool packet_finds(struct flow_load *load, const struct flow_settings *now,
                                         struct flow_scratch *mine)
{
	bool is_read = flow_needs_wide(now) ? packet_read_frame(load, !now->no_ethernet, &mine->frame, true)
	                                    : packet_read_frame(load, !now->no_ethernet, &mine->frame, false);

	return is_read && flow_find(mine, now);
}

static __always_inline __u32 packet_fanout_index(struct __sk_buff *skb, const struct flow_settings *now,
                                                 struct flow_scratch *mine, struct packet_work *work)
{
	struct flow_load load = {.skb = skb, .work = work, .before_data = ETHERNET_BYTES};

	work->verdict.drops = 0;
	if (!packet_finds(&load, now, mine))
		return INDEX_OF_NO_QUEUE;
	work->verdict.fanout_index = mine->target.queue;
	work->verdict.drops = mine->target.drops;
	return mine->target.queue;
}

/*
 * Returns the fanout index of the socket that gets the frame. Each pointer is tested by an if of its own, because the
 * verifier of Linux 6.1 does not follow the code that the compiler makes of a combined test.
 */
SEC("socket")
int packet_steer(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const struct flow_settings *now;
	struct flow_scratch *mine;
	struct packet_work *work;

	/* Sockets of a group get what this host sends, too. A frame that it sends to itself comes once more. */
	if (skb->pkt_type == PACKET_OUTGOING || skb->pkt_type == PACKET_LOOPBACK)
		return INDEX_OF_NO_QUEUE;
	now = bpf_map_lookup_elem(&settings, &zero);
	if (!now)
		return INDEX_OF_NO_QUEUE;
	work = bpf_map_lookup_elem(&works, &zero);
	if (!work)
		return INDEX_OF_NO_QUEUE;
	mine = flow_scratch_get();
	return mine ? (int)packet_fanout_index(skb, now, mine, work) : INDEX_OF_NO_QUEUE;
}

SEC("tc")
int packet_drop(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct packet_work *work = bpf_map_lookup_elem(&works, &zero);
	__u32 drops;

	(void)skb;
	if (!work)
		return TCX_PASS_ON;
	drops = work->verdict.drops;
	work->verdict.drops = 0;
	return drops ? TCX_DISCARD : TCX_PASS_ON;
}

char _license[] SEC("license") = "Dual BSD/GPL";
