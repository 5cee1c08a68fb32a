// SPDX-License-Identifier: Apache-2.0
/*
 * A netdev as wire: an AF_PACKET socket with a TPACKET_V2 receive ring. V2 and not V3, because
 * V3 hands over whole blocks and a lone frame waits for the block's timer.
 */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define VLAN_TAG_BYTES 4
#define HEADROOM_BYTES 16 /* the stripped VLAN tag is put back in front of the frame */
#define BLOCK_BYTES (1u << 20)
#define BURST 64

struct afpacket {
	struct wire base;
	int fd;
	uint8_t *ring;
	size_t ring_bytes;
	uint32_t frame_bytes, frames_per_block, n_frames;
	uint32_t next;     /* slot to look at */
	uint32_t n_taken;  /* slots of the burst not yet given back, ending before `next` */
	pthread_mutex_t stats_lock;
	struct wire_stats stats;
	_Atomic uint64_t truncated;
};

static struct tpacket2_hdr *slot(const struct afpacket *a, uint32_t i)
{
	return (void *)(a->ring + (size_t)(i / a->frames_per_block) * BLOCK_BYTES +
			(size_t)(i % a->frames_per_block) * a->frame_bytes);
}

static void restore_vlan(struct wire_frame *f, const struct tpacket2_hdr *h)
{
	uint16_t tpid_be = htons(h->tp_status & TP_STATUS_VLAN_TPID_VALID ? h->tp_vlan_tpid
									  : ETH_P_8021Q);
	uint16_t tci_be = htons(h->tp_vlan_tci);

	memmove(f->data - VLAN_TAG_BYTES, f->data, 2 * ETH_ALEN);
	f->data -= VLAN_TAG_BYTES;
	f->len += VLAN_TAG_BYTES;
	memcpy(f->data + 2 * ETH_ALEN, &tpid_be, 2);
	memcpy(f->data + 2 * ETH_ALEN + 2, &tci_be, 2);
}

static enum wire_addressed addressed(const struct tpacket2_hdr *h)
{
	const struct sockaddr_ll *sll =
		(const void *)((const uint8_t *)h + TPACKET_ALIGN(sizeof(*h)));

	switch (sll->sll_pkttype) {
	case PACKET_HOST:
		return WIRE_TO_US;
	case PACKET_MULTICAST:
		return WIRE_MULTICAST;
	case PACKET_BROADCAST:
		return WIRE_BROADCAST;
	default:
		return WIRE_TO_OTHER;
	}
}

static int afpacket_receive(struct wire *wire, struct wire_frame *frames, int max)
{
	struct afpacket *a = (struct afpacket *)wire;
	int n = 0;

	while (n < max && a->n_taken < a->n_frames) {
		struct tpacket2_hdr *h = slot(a, a->next);
		uint32_t status = __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);

		if (!(status & TP_STATUS_USER))
			break;
		a->next = a->next + 1 == a->n_frames ? 0 : a->next + 1;
		a->n_taken++;
		__builtin_prefetch(slot(a, a->next));
		if (h->tp_snaplen < h->tp_len || h->tp_len < ETH_HLEN) {
			/* Longer than the link's MTU allowed when the ring was made. */
			a->truncated++;
			continue;
		}
		struct wire_frame *f = &frames[n++];
		f->data = (uint8_t *)h + h->tp_mac;
		f->len = h->tp_len;
		f->csum_trusted = status & (TP_STATUS_CSUMNOTREADY | TP_STATUS_CSUM_VALID);
		f->addressed = addressed(h);
		f->realtime_ns = (uint64_t)h->tp_sec * 1000000000u + h->tp_nsec;
		if (status & TP_STATUS_VLAN_VALID)
			restore_vlan(f, h);
	}
	return n;
}

static void afpacket_release(struct wire *wire)
{
	struct afpacket *a = (struct afpacket *)wire;
	uint32_t i = (a->next + a->n_frames - a->n_taken) % a->n_frames;

	for (; a->n_taken; a->n_taken--) {
		__atomic_store_n(&slot(a, i)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		i = i + 1 == a->n_frames ? 0 : i + 1;
	}
}

static int afpacket_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt,
			 int n)
{
	struct afpacket *a = (struct afpacket *)wire;
	struct mmsghdr msgs[BURST] = {};
	int sent = 0;

	for (int i = 0; i < n && i < BURST; i++) {
		msgs[i].msg_hdr.msg_iov = (struct iovec *)iov[i];
		msgs[i].msg_hdr.msg_iovlen = (size_t)iovcnt[i];
	}
	if (n > BURST)
		n = BURST;
	while (sent < n) {
		/* Not sendmmsg(): a sanitizer would look into the program's memory. */
		int r = (int)syscall(SYS_sendmmsg, a->fd, msgs + sent, n - sent, MSG_DONTWAIT);

		if (r > 0)
			sent += r;
		else if (errno == EAGAIN || errno == ENOBUFS)
			break; /* the link is busy: the rest stays in the send queue */
		else
			sent++; /* this frame the link refuses: lost, as on a cable */
	}
	return sent;
}

static void afpacket_wait(struct wire *wire, unsigned int timeout_us)
{
	struct afpacket *a = (struct afpacket *)wire;
	struct timespec ts = {.tv_sec = timeout_us / 1000000,
			      .tv_nsec = (long)(timeout_us % 1000000) * 1000};

	struct pollfd p = {.fd = a->fd, .events = POLLIN};
	socklen_t len = sizeof(int);
	int error;

	ppoll(&p, 1, &ts, NULL);
	if (!(p.revents & POLLERR))
		return;
	/* The netdev went down. The error must be taken, or poll() will not wait any more. */
	getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	nanosleep(&ts, NULL);
}

static void afpacket_stats(struct wire *wire, struct wire_stats *stats)
{
	struct afpacket *a = (struct afpacket *)wire;
	struct tpacket_stats ts = {};
	socklen_t len = sizeof(ts);

	pthread_mutex_lock(&a->stats_lock);
	/* The kernel's count starts anew at each reading. */
	if (!getsockopt(a->fd, SOL_PACKET, PACKET_STATISTICS, &ts, &len))
		a->stats.discards += ts.tp_drops;
	*stats = a->stats;
	pthread_mutex_unlock(&a->stats_lock);
	stats->discards += a->truncated;
}

static void afpacket_close(struct wire *wire)
{
	struct afpacket *a = (struct afpacket *)wire;

	if (!a)
		return;
	if (a->ring)
		munmap(a->ring, a->ring_bytes);
	if (a->fd >= 0)
		syscall(SYS_close, a->fd);
	pthread_mutex_destroy(&a->stats_lock);
	free(a);
}

static const struct wire_ops afpacket_ops = {
	.receive = afpacket_receive,
	.release = afpacket_release,
	.send = afpacket_send,
	.wait = afpacket_wait,
	.stats = afpacket_stats,
	.close = afpacket_close,
};

static int get_mtu(int fd, const char *netdev)
{
	struct ifreq ifr = {};

	strncpy(ifr.ifr_name, netdev, IFNAMSIZ - 1);
	return ioctl(fd, SIOCGIFMTU, &ifr) ? -errno : ifr.ifr_mtu;
}

static int map_ring(struct afpacket *a, const struct wire_config *config)
{
	int version = TPACKET_V2, one = 1, reserve = HEADROOM_BYTES;
	int mtu = get_mtu(a->fd, config->netdev);
	struct tpacket_req req = {.tp_block_size = BLOCK_BYTES};

	if (mtu < 0)
		return mtu;
	uint32_t need = TPACKET_ALIGN(TPACKET2_HDRLEN) + HEADROOM_BYTES + 16 +
			(uint32_t)mtu + ETH_HLEN + 2 * VLAN_TAG_BYTES;
	a->frame_bytes = (need + 127) & ~127u;
	if (a->frame_bytes < 2048)
		a->frame_bytes = 2048;
	a->frames_per_block = BLOCK_BYTES / a->frame_bytes;
	req.tp_frame_size = a->frame_bytes;
	req.tp_block_nr = (uint32_t)(config->ring_bytes / BLOCK_BYTES);
	if (!req.tp_block_nr)
		req.tp_block_nr = 1;
	a->n_frames = req.tp_frame_nr = req.tp_block_nr * a->frames_per_block;
	a->ring_bytes = (size_t)req.tp_block_nr * BLOCK_BYTES;
	if (setsockopt(a->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(a->fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof(reserve)) ||
	    setsockopt(a->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(a->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
		return -errno;
	a->ring = mmap(NULL, a->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (a->ring == MAP_FAILED) {
		a->ring = NULL;
		return -errno;
	}
	return 0;
}

int wire_afpacket_open(struct wire **wire, const struct wire_config *config)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET};
	struct afpacket *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return -ENOMEM;
	a->base.ops = &afpacket_ops;
	pthread_mutex_init(&a->stats_lock, NULL);
	/* Protocol 0: nothing arrives before the ring is mapped and the netdev bound. */
	a->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (a->fd < 0) {
		r = -errno;
		goto fail;
	}
	r = map_ring(a, config);
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
