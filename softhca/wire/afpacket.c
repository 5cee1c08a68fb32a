// SPDX-License-Identifier: Apache-2.0
/*
 * A netdev as the wire: an AF_PACKET socket with a mapped receive ring. This file has all but the reading of the
 * ring, of which there are two kinds (afpacket_v2.c, afpacket_v3.c).
 */
#include "afpacket.h"
#include "complain.h"
#include "link.h"
#include "own_fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define VLAN_TAG_BYTES 4
#define MIN_PAGE_BYTES 4096u
#define HEADROOM_BYTES 16 /* room to put the stripped VLAN tag back in front of the frame */

static void afpacket_restore_vlan(struct wire_frame *f, const struct afpacket_header *h)
{
	uint16_t tpid_be = htons(h->status & TP_STATUS_VLAN_TPID_VALID ? h->vlan_tpid : ETH_P_8021Q);
	uint16_t tci_be = htons(h->vlan_tci);

	memmove(f->data - VLAN_TAG_BYTES, f->data, 2 * ETH_ALEN);
	f->data -= VLAN_TAG_BYTES;
	f->len += VLAN_TAG_BYTES;
	memcpy(f->data + 2 * ETH_ALEN, &tpid_be, 2);
	memcpy(f->data + 2 * ETH_ALEN + 2, &tci_be, 2);
}

static enum wire_addressed afpacket_addressed(const struct sockaddr_ll *from)
{
	switch (from->sll_pkttype) {
	case PACKET_HOST:
		return WIRE_TO_US;
	case PACKET_MULTICAST:
		return WIRE_MULTICAST;
	case PACKET_BROADCAST:
		return WIRE_BROADCAST;
	case PACKET_OUTGOING:
		return WIRE_OUTGOING;
	default:
		return WIRE_TO_OTHER;
	}
}

bool afpacket_frame(struct afpacket *a, struct wire_frame *f, const struct afpacket_header *h)
{
	if (h->snaplen < h->len || h->len > a->longest_bytes || h->len < ETH_HLEN) {
		if (!a->truncated++ && h->len > ETH_HLEN)
			complain("%s: a frame of %u bytes counts as a discard, since it is longer than the MTU when "
			         "the device was opened; the kernel joins packets, of senders with UDP_SEGMENT too; "
			         "on both ends: ethtool -K IF tso off gso off tx-udp-segmentation off gro off lro off",
			         a->netdev, h->len);
		return false;
	}
	*f = (struct wire_frame){
		.data = h->start + h->mac_offset,
		.len = h->len,
		.csum_missing = h->status & TP_STATUS_CSUMNOTREADY,
		.csum_trusted = h->status & (TP_STATUS_CSUMNOTREADY | TP_STATUS_CSUM_VALID),
		.addressed = afpacket_addressed(h->from),
		.realtime_ns = (uint64_t)h->seconds * 1000000000u + h->ns,
	};
	if (h->status & TP_STATUS_VLAN_VALID)
		afpacket_restore_vlan(f, h);
	return true;
}

/* The kernel reports only that something is missing. Touching the memory causes the fault that tells which page
 * (device/fault.h). */
static void afpacket_touch(const struct msghdr *msg)
{
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		const volatile uint8_t *p = msg->msg_iov[i].iov_base;
		size_t bytes = msg->msg_iov[i].iov_len;

		for (size_t at = 0; at < bytes; at += MIN_PAGE_BYTES)
			(void)p[at];
		if (bytes)
			(void)p[bytes - 1];
	}
}

/* Sends with sendmmsg() and not with a transmit ring: on veth both cost the same, nearly all of it in the kernel's
 * path to the peer, and sendmmsg() needs no copy before. Without PACKET_QDISC_BYPASS: veth has no queueing
 * discipline to bypass, and taps on the netdev would not see what is sent (packet(7)). */
static int afpacket_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n)
{
	struct afpacket *a = (struct afpacket *)wire;
	struct mmsghdr msgs[WIRE_SEND_MAX] = {};
	int sent = 0;

	for (int i = 0; i < n; i++) {
		msgs[i].msg_hdr.msg_iov = (struct iovec *)iov[i];
		msgs[i].msg_hdr.msg_iovlen = (size_t)iovcnt[i];
	}
	while (sent < n) {
		/* Not sendmmsg() itself: a sanitizer's version would look into the program's memory. */
		int r = (int)syscall(SYS_sendmmsg, a->fd, msgs + sent, n - sent, MSG_DONTWAIT);

		if (r > 0)
			sent += r;
		else if (errno == EAGAIN || errno == ENOBUFS)
			break; /* the link is busy: the rest stays in the send queue */
		else if (errno == EFAULT && sent)
			/* the frames that went out must be counted before afpacket_touch() cuts the work off */
			break;
		else if (errno == EFAULT)
			afpacket_touch(&msgs[sent++].msg_hdr);
		else
			sent++; /* the link refuses this frame, which is then lost, as on a cable */
	}
	return sent;
}

static void afpacket_wait(struct wire *wire, unsigned int timeout_us)
{
	struct afpacket *a = (struct afpacket *)wire;
	struct timespec ts = {.tv_sec = timeout_us / 1000000, .tv_nsec = (long)(timeout_us % 1000000) * 1000};
	struct pollfd p = {.fd = a->fd, .events = POLLIN};
	socklen_t len = sizeof(int);
	int error;

	ppoll(&p, 1, &ts, NULL);
	if (!(p.revents & POLLERR))
		return;
	/* The netdev went down. The error has to be read, or poll() returns at once from then on. */
	getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	nanosleep(&ts, NULL);
}

static void afpacket_hear_sent(struct wire *wire, bool hear)
{
	struct afpacket *a = (struct afpacket *)wire;
	int ignore = !hear;

	setsockopt(a->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignore, sizeof(ignore));
}

static void afpacket_stats(struct wire *wire, struct wire_stats *stats)
{
	struct afpacket *a = (struct afpacket *)wire;
	struct tpacket_stats ts = {};
	socklen_t len = sizeof(ts);

	pthread_mutex_lock(&a->stats_lock);
	/* The kernel resets its count at each reading. */
	if (!getsockopt(a->fd, SOL_PACKET, PACKET_STATISTICS, &ts, &len))
		a->stats.discards += ts.tp_drops;
	*stats = a->stats;
	pthread_mutex_unlock(&a->stats_lock);
	stats->discards += a->truncated;
}

/* The socket exists as long as a descriptor of it or a mapping of its ring does. */
static void afpacket_forked(struct wire *wire)
{
	struct afpacket *a = (struct afpacket *)wire;

	if (a->ring)
		munmap(a->ring, (size_t)a->n_blocks * AFPACKET_BLOCK_BYTES);
	own_fd_close(a->fd);
	a->ring = NULL;
	a->fd = -1;
}

static void afpacket_close(struct wire *wire)
{
	struct afpacket *a = (struct afpacket *)wire;

	afpacket_forked(wire);
	pthread_mutex_destroy(&a->stats_lock);
	free(a);
}

static int afpacket_map_ring(struct afpacket *a, const struct wire_config *config, const struct afpacket_ring_ops *ops)
{
	int one = 1, reserve = HEADROOM_BYTES;
	struct tpacket_req3 req = {.tp_block_size = AFPACKET_BLOCK_BYTES};
	struct link_facts link;
	int r = link_read(config->netdev, &link);
	size_t req_bytes;
	void *ring;

	if (r)
		return r;
	a->longest_bytes = link.mtu + ETH_HLEN + 2 * VLAN_TAG_BYTES;
	a->n_blocks = (uint32_t)(config->ring_bytes / AFPACKET_BLOCK_BYTES);
	req.tp_block_nr = a->n_blocks;
	req_bytes = ops->shape(a, HEADROOM_BYTES + 16 + a->longest_bytes, &req);
	if (setsockopt(a->fd, SOL_PACKET, PACKET_VERSION, &ops->version, sizeof(int)) ||
	    setsockopt(a->fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof(reserve)) ||
	    setsockopt(a->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(a->fd, SOL_PACKET, PACKET_RX_RING, &req, (socklen_t)req_bytes))
		return -errno;
	ring = mmap(NULL, (size_t)a->n_blocks * AFPACKET_BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (ring == MAP_FAILED)
		return -errno;
	a->ring = ring;
	return 0;
}

int afpacket_open(struct wire **wire, const struct wire_config *config, const struct afpacket_ring_ops *ops)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET};
	struct afpacket *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return -ENOMEM;
	a->ops = (struct wire_ops){.receive = ops->receive,
	                           .release = ops->release,
	                           .send = afpacket_send,
	                           .wait = afpacket_wait,
	                           .hear_sent = afpacket_hear_sent,
	                           .stats = afpacket_stats,
	                           .close = afpacket_close,
	                           .forked = afpacket_forked};
	a->base.ops = &a->ops;
	a->netdev = config->netdev;
	pthread_mutex_init(&a->stats_lock, NULL);
	/* Protocol 0: no frame arrives before the ring is mapped and the socket bound. */
	a->fd = (int)syscall(SYS_socket, AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (a->fd < 0) {
		r = -errno;
		goto fail;
	}
	r = afpacket_map_ring(a, config, ops);
	if (r)
		goto fail;
	addr.sll_protocol = htons(ETH_P_ALL);
	addr.sll_ifindex = (int)if_nametoindex(config->netdev);
	if (!addr.sll_ifindex) {
		r = -ENODEV;
		goto fail;
	}
	if (bind(a->fd, (struct sockaddr *)&addr, sizeof(addr))) {
		r = -errno;
		goto fail;
	}
	*wire = &a->base;
	return 0;
fail:
	afpacket_close(&a->base);
	return r;
}
