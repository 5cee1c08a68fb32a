// SPDX-License-Identifier: Apache-2.0
/*
 * The way of a frame through the device: filters it by its destination MAC, looks it up in the flow tables,
 * describes it for completions and delivers it to receive queues. Frames that the device sends come here too, for
 * sniffers and loopback.
 */
#include "steer.h"

#include "../wire/complain.h"
#include "../wire/dma.h"
#include "clock.h"
#include "mcast.h"
#include "qp.h"

#include <linux/if_ether.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RING_DELAY_NS 1000000000ull
#define MAX_SENT_BYTES    65536
#define DELAY_DROP_NS     100000000ull /* mlx5_ib: MLX5_MAX_DELAY_DROP_TIMEOUT_MS */
#define HEADROOM_BYTES    16           /* of struct wire_frame */

static void steer_check_csums(struct rx_info *info, const struct packet *p, const struct wire_frame *f)
{
	info->checked = HW_CQE_L2_OK;
	info->hdr_type = 0;
	if (!p->l3_offset)
		return;
	if (p->key.ip_version == 6) {
		info->hdr_type |= HW_CQE_L3_IPV6;
		info->checked |= HW_CQE_L3_OK;
	} else {
		info->hdr_type |= HW_CQE_L3_IPV4;
		if (packet_ipv4_csum_ok(p, f->data))
			info->checked |= HW_CQE_L3_OK;
	}
	if (!p->l4_offset)
		return;
	info->hdr_type |= p->key.ip_proto == 17 ? HW_CQE_L4_UDP : HW_CQE_L4_TCP;
	if (!p->key.fragment && (f->csum_trusted || packet_l4_csum_ok(p, f->data)))
		info->checked |= HW_CQE_L4_OK;
}

/* C-VLAN stripping: the tag is taken out of the frame and put into the completion. */
static void steer_deliver(struct rq *rq, const struct wire_frame *f, const struct packet *p, struct rx_info *info,
                          uint32_t times)
{
	if (rq->strip_cvlan && p->key.cvlan) {
		uint8_t macs[12];

		memcpy(macs, f->data, 12);
		memmove(f->data + 4, f->data, 12);
		info->vlan_tci_be = p->key.vlan_tci;
		info->hdr_type |= HW_CQE_CVLAN_STRIPPED;
		rq_receive(rq, f->unwritten ? NULL : f->data + 4, f->len - 4, info, times);
		/* Puts the tag back, since another queue may want the frame as it was. Its type is known. */
		memmove(f->data, macs, 12);
		f->data[12] = 0x81;
		f->data[13] = 0x00;
		memcpy(f->data + 14, &p->key.vlan_tci, 2);
		info->vlan_tci_be = 0;
		info->hdr_type &= (uint8_t)~HW_CQE_CVLAN_STRIPPED;
		return;
	}
	rq_receive(rq, f->unwritten ? NULL : f->data, f->len, info, times);
}

/* The arrival time on the device's clock, never later than now. A step of CLOCK_REALTIME must not show in it. now_ns
 * is the begin of the turn, since when the frame may have come. */
static uint64_t steer_arrival_ns(const struct device *d, const struct wire_frame *f, uint64_t now_ns)
{
	uint64_t raw = f->realtime_ns - (uint64_t)d->realtime_offset_ns;

	if (raw > now_ns)
		now_ns = clock_raw_ns();
	return raw > now_ns || raw + MAX_RING_DELAY_NS < now_ns ? now_ns : raw;
}

/* Would the kernel's own steering rules take the frame for the netdev? */
static bool steer_netdev_takes(struct device *d, const struct wire_frame *f, uint64_t now_ns)
{
	switch (f->addressed) {
	case WIRE_TO_US:
	case WIRE_BROADCAST:
		return true;
	case WIRE_MULTICAST:
		return mcast_joined(d->mcast, f->data, steer_arrival_ns(d, f, now_ns));
	default:
		return mcast_promiscuous(d->mcast);
	}
}

/* A frame on its way through the tables. */
struct passage {
	struct device *device;
	struct wire_frame *frame;
	struct packet packet;
	struct rx_info info;
	uint64_t now_ns;
	bool described; /* all fields but the tag are set */
	uint32_t times; /* the frame counts as so many equal ones */
	bool delayed;   /* with asks: a queue that delays drops has no buffer */
	bool asks;      /* nothing is delivered; `times` becomes the number of frames that there are buffers for */
};

static void steer_describe(struct passage *x)
{
	struct device *d = x->device;
	uint64_t ns;

	if (x->described)
		return;
	if (x->frame->csum_missing) {
		/* No wire has a frame without a checksum: the sender is on this host and its offloads are on. */
		if (!d->told_missing_csum)
			complain("%s: the sender leaves checksums to a network card, so frames come without; on its "
			         "end: ethtool -K IF tx off",
			         d->config.netdev);
		d->told_missing_csum = true;
	}
	steer_check_csums(&x->info, &x->packet, x->frame);
	/* The offset between the clocks is not exact, but the device's own clock must never go back. */
	ns = steer_arrival_ns(d, x->frame, x->now_ns);
	if (ns < d->last_arrival_ns)
		ns = d->last_arrival_ns;
	d->last_arrival_ns = ns;
	x->info.timestamp = clock_cycles(ns, d->config.profile->core_clock_khz);
	if (d->config.real_time)
		x->info.real_time = clock_real_time_stamp(ns + (uint64_t)d->realtime_offset_ns);
	x->described = true;
}

static void steer_ask(struct passage *x, const struct flow_entry *e)
{
	struct flow_rule *r;

	TAILQ_FOREACH (r, &e->rules, entry_link) {
		if (e->action != FLOW_FORWARD || !flow_delivers(&x->device->steering, r))
			continue;
		struct rq *rq = qp_receive_queue(r->qp, &x->packet, &x->info.rx_hash_be);
		uint32_t room = rq_room(rq);

		x->delayed |= !room && rq_delays(rq);
		if (room < x->times)
			x->times = room;
	}
}

static void steer_give(struct passage *x, const struct flow_entry *e)
{
	struct flow_rule *r;

	if (x->asks) {
		steer_ask(x, e);
		return;
	}
	steer_describe(x);
	x->info.flow_tag = e->tag;
	TAILQ_FOREACH (r, &e->rules, entry_link) {
		if (r->counter) {
			r->counter->packets += x->times;
			r->counter->bytes += (uint64_t)x->frame->len * x->times;
		}
		if (e->action == FLOW_FORWARD && flow_delivers(&x->device->steering, r)) {
			struct rq *rq = qp_receive_queue(r->qp, &x->packet, &x->info.rx_hash_be);

			steer_deliver(rq, x->frame, &x->packet, &x->info, x->times);
		}
	}
}

/* Looks the frame up in tables `table` to `end` - 1. True if a rule kept it. */
static bool steer_walk(struct passage *x, unsigned int table, unsigned int end)
{
	const struct flow_steering *s = &x->device->steering;
	struct flow_entry *e;

	for (; (e = flow_lookup(s, &x->packet.key, &table, end)); table++) {
		steer_give(x, e);
		if (e->action == FLOW_MISS)
			return false;
		if (flow_traps(TAILQ_FIRST(&e->rules)))
			return true;
	}
	return false;
}

/* The kernel's own rules come before the leftovers' rules. */
static void steer_walk_received(struct passage *x)
{
	struct device *d = x->device;

	if (!steer_walk(x, 0, FLOW_TABLE_LEFTOVERS) && d->steering.occupied >> FLOW_TABLE_LEFTOVERS & 1 &&
	    !steer_netdev_takes(d, x->frame, x->now_ns))
		steer_walk(x, FLOW_TABLE_LEFTOVERS, FLOW_TABLE_SNIFFER);
}

static void steer_begin(struct passage *x, struct device *d, struct wire_frame *f, uint64_t now_ns)
{
	*x = (struct passage){.device = d, .frame = f, .now_ns = now_ns, .times = 1};
	packet_read_headers(&x->packet, f->data, f->len);
}

/* Walks the tables for the number of buffers, and delivers nothing. */
static void steer_ask_queues(struct passage *x)
{
	x->times = UINT32_MAX;
	x->asks = true;
	steer_walk(x, FLOW_TABLE_SNIFFER, FLOW_N_TABLES);
	steer_walk_received(x);
	x->asks = false;
}

/* The driver sets the timer anew at once when it has run out (mlx5_ib: delay_drop_handler), and so the next frame may
 * wait as long. */
bool steer_waits(struct device *d, struct wire_frame *f, uint64_t now_ns)
{
	struct passage x;

	steer_begin(&x, d, f, now_ns);
	steer_ask_queues(&x);
	if (!x.delayed) {
		d->delayed_at_ns = 0;
		return false;
	}
	if (!d->delayed_at_ns)
		d->delayed_at_ns = now_ns;
	if (now_ns < d->delayed_at_ns + DELAY_DROP_NS)
		return true;
	d->delayed_at_ns = 0;
	return false;
}

/* How often a frame of the generator comes: as often as all queues that get it have buffers. */
static uint32_t steer_ask_times(struct passage *x)
{
	steer_ask_queues(x);
	if (x->times == UINT32_MAX)
		return 0; /* no queue gets it */
	return x->times < x->frame->up_to ? x->times : x->frame->up_to;
}

void steer_count(struct device *d, const struct wire_frame *f, uint32_t times)
{
	if (d->ledger.shared && !d->ledger.counts_received)
		return;
	d->counters.rx_packets += times;
	d->counters.rx_bytes += (uint64_t)f->len * times;
}

/* IEEE 802.3: the sender of a short frame on a wire pads it. A netdev without a wire does not. */
static void steer_pad(struct device *d, struct wire_frame *f)
{
	if (f->len >= ETH_ZLEN)
		return;
	memset(d->short_frame, 0, sizeof(d->short_frame));
	memcpy(d->short_frame + HEADROOM_BYTES, f->data, f->len);
	f->data = d->short_frame + HEADROOM_BYTES;
	f->len = ETH_ZLEN;
}

uint32_t steer(struct device *d, struct wire_frame *f, uint64_t now_ns)
{
	uint32_t times = f->up_to ? 0 : 1;
	struct passage x;

	steer_pad(d, f);
	if (f->addressed == WIRE_OUTGOING) {
		steer_begin(&x, d, f, now_ns);
		steer_walk(&x, FLOW_TABLE_SNIFFER, FLOW_N_TABLES);
		return times;
	}
	/* A real device's MAC drops all other frames before steering, without counting them. */
	if (!d->steering.occupied || (d->config.l2_filter && !steer_netdev_takes(d, f, now_ns))) {
		steer_count(d, f, times);
		return times;
	}
	steer_begin(&x, d, f, now_ns);
	if (f->up_to)
		x.times = times = steer_ask_times(&x);
	steer_count(d, f, times);
	if (!times)
		return 0;
	steer_walk(&x, FLOW_TABLE_SNIFFER, FLOW_N_TABLES);
	steer_walk_received(&x);
	return times;
}

void steer_rules_changed(struct device *d)
{
	bool sniffed = d->steering.occupied >> FLOW_TABLE_SNIFFER & 1, hears = sniffed || d->take != steer;

	if (hears != d->hears_sent && d->wire->ops->hear_sent)
		d->wire->ops->hear_sent(d->wire, hears);
	d->sniffed = sniffed;
	d->hears_sent = hears;
}

/* A second context turns on the port's local loopback (mlx5_ib: mlx5_ib_enable_lb counts transport domains, of which
 * each context has one; verbs-rules.md "Flow rules"). No source says that the MAC's filter applies to looped frames,
 * so it does not here. */
static bool steer_loops_back(const struct device *d, enum wire_addressed addressed)
{
	bool group = addressed == WIRE_MULTICAST || addressed == WIRE_BROADCAST;
	bool own = addressed == WIRE_TO_US;

	switch (d->config.loopback) {
	case LOOPBACK_AUTO:
		return d->n_contexts > 1 && (group || own);
	case LOOPBACK_OWN_MAC:
		return own;
	case LOOPBACK_MULTICAST:
		return group;
	case LOOPBACK_BOTH:
		return group || own;
	default:
		return false;
	}
}

static enum wire_addressed steer_sent_to(const struct device *d, const struct iovec *iov, int n)
{
	static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	uint8_t destination[6] = {0};
	size_t have = 0;

	for (int i = 0; i < n && have < sizeof(destination); i++) {
		size_t room = sizeof(destination) - have;
		size_t bytes = iov[i].iov_len < room ? iov[i].iov_len : room;

		dma_copy(destination + have, iov[i].iov_base, bytes);
		have += bytes;
	}
	if (!memcmp(destination, broadcast, sizeof(broadcast)))
		return WIRE_BROADCAST;
	if (destination[0] & 1)
		return WIRE_MULTICAST;
	return memcmp(destination, mcast_own_mac(d->mcast), 6) ? WIRE_TO_OTHER : WIRE_TO_US;
}

static bool steer_gather_sent(struct device *d, struct wire_frame *f, const struct iovec *iov, int n)
{
	if (!d->sent_copy)
		d->sent_copy = malloc(HEADROOM_BYTES + MAX_SENT_BYTES);
	if (!d->sent_copy)
		return false;
	*f = (struct wire_frame){.data = d->sent_copy + HEADROOM_BYTES};
	for (int i = 0; i < n; i++) {
		if (f->len + iov[i].iov_len > MAX_SENT_BYTES)
			return false;
		dma_copy(f->data + f->len, iov[i].iov_base, iov[i].iov_len);
		f->len += (uint32_t)iov[i].iov_len;
	}
	return true;
}

void steer_sent(struct device *d, const struct iovec *iov, int n)
{
	struct wire_frame f;
	struct passage x;
	enum wire_addressed addressed;
	bool loops;

	if (!d->steering.occupied)
		return;
	addressed = steer_sent_to(d, iov, n);
	loops = steer_loops_back(d, addressed);
	if ((!d->sniffed && !loops) || !steer_gather_sent(d, &f, iov, n))
		return;
	f.addressed = addressed;
	steer_begin(&x, d, &f, clock_raw_ns());
	steer_walk(&x, FLOW_TABLE_SNIFFER, FLOW_N_TABLES);
	if (loops)
		steer_walk_received(&x);
}
