/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The XDP program: a frame that matches a flow goes to the socket of the flow's queue on the card queue. Without
 * such a socket the frame is dropped and counted. The kernel gets every other frame unchanged. The flow may be for a
 * group of queues: then a hash of the frame's headers chooses one of them.
 */
#include "flow_find.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); /* the daemon sets it: queues * max_card_queues */
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* the daemon sets it: queues */
	__type(key, __u32);
	__type(value, struct flow_counts);
} counts SEC(".maps");

/* It stays 0 with a driver that has no room for metadata. */
static __always_inline void xdp_put_time(struct xdp_md *context)
{
	__u64 *tai_ns;

	if (bpf_xdp_adjust_meta(context, -(int)sizeof(*tai_ns)))
		return;
	tai_ns = (__u64 *)(long)context->data_meta;
	if ((const __u8 *)(tai_ns + 1) > (const __u8 *)(long)context->data)
		return;
	*tai_ns = bpf_ktime_get_tai_ns();
}

static __always_inline bool xdp_read_frame(const __u8 *frame, const __u8 *end, const struct flow_settings *now,
                                           struct flow_scratch *mine)
{
	return flow_needs_wide(now) ? flow_key_read_frame(frame, end, 0, &mine->frame, true)
	                            : flow_key_read_frame(frame, end, 0, &mine->frame, false);
}

/*
 * The kernel does not redirect a frame to a socket of another card queue, and counts that nowhere. Hence the check of
 * the card queue: without it, card queue max_card_queues would be card queue 0 of the next queue.
 */
static __always_inline int xdp_steer(struct xdp_md *context)
{
	const __u8 *frame = (const __u8 *)(long)context->data;
	const __u8 *end = (const __u8 *)(long)context->data_end;
	__u32 zero = 0, card_queue = context->rx_queue_index;
	const struct flow_settings *now = bpf_map_lookup_elem(&settings, &zero);
	struct flow_scratch *mine = flow_scratch_get();
	struct flow_counts *count;

	if (!now || !mine || !xdp_read_frame(frame, end, now, mine) || !flow_find(mine, now))
		return XDP_PASS;
	count = bpf_map_lookup_elem(&counts, &mine->target.queue);
	if (!count)
		return XDP_PASS;
	count->matched++;
	if (mine->target.has_time)
		xdp_put_time(context);
	/* The last argument is the result if the slot is empty. */
	if (card_queue < now->n_card_queues &&
	    bpf_redirect_map(&sockets, mine->target.queue * now->max_card_queues + card_queue, XDP_DROP) ==
	            XDP_REDIRECT)
		return XDP_REDIRECT;
	count->no_socket++;
	return XDP_DROP;
}

/*
 * Twins: veth runs a program on the queues that it had when the program was attached. Changing the link's program to
 * the same one has no effect; changing it to the other one makes it run on all queues.
 */
SEC("xdp.frags")
int xdp_steer_a(struct xdp_md *context)
{
	return xdp_steer(context);
}

SEC("xdp.frags")
int xdp_steer_b(struct xdp_md *context)
{
	return xdp_steer(context);
}

char _license[] SEC("license") = "Dual BSD/GPL";
