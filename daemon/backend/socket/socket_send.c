// SPDX-License-Identifier: Apache-2.0
/*
 * Sends with a packet socket: one sendmmsg() takes up to 64 packets from the worker's headers and the senders' payloads
 * to the driver, past the queueing discipline. The kernel copies them, so they have ended when the call returns. To an
 * interface without Ethernet headers a packet goes from its IP header on, with its protocol as the address.
 */
#include "daemon/backend/socket/packet_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BATCH 64
/* The driver had no room: try again after this time, which doubles. Without a link there is none for hours. */
#define ROOM_AGAIN_NS_MIN 50000
#define ROOM_AGAIN_NS_MAX 1000000

/* Where a packet without an Ethernet header goes. The kernel wants room for the interface's own address after it. */
union send_protocol {
	struct sockaddr_ll address;
	uint8_t room[48];
};

struct socket_send {
	struct backend_queue base;
	bool has_ethernet;
	union send_protocol protocols[2]; /* without Ethernet: IPv4, IPv6 */
	int fd;
	int timer_fd; /* what the worker sleeps on; -1: nothing */
	uint32_t slots;
	uint32_t n_posted; /* and not reaped */
	bool waits_for_room;
	uint32_t room_again_ns; /* how long it waits for room, longer each time */
	/* How posted packets ended that are not reaped yet, in runs. */
	struct backend_sent *ended;
	uint32_t n_ended;
	uint32_t first_ended;
};

static struct socket_send *socket_send(const struct backend_queue *base)
{
	return (struct socket_send *)base;
}

/* Run i of those that ended and are not reaped. There are at most as many as slots. */
static struct backend_sent *send_ended(struct socket_send *send, uint32_t i)
{
	return &send->ended[(send->first_ended + i) % send->slots];
}

/* The next n packets ended with this status. */
static void send_note_ended(struct socket_send *send, uint32_t n, enum backend_status status)
{
	struct backend_sent *last = send_ended(send, send->n_ended + send->slots - 1);

	send->n_posted += n;
	if (send->n_ended > 0 && last->status == (uint8_t)status)
		last->n += n;
	else
		*send_ended(send, send->n_ended++) = (struct backend_sent){.n = n, .status = (uint8_t)status};
}

static void send_fill(struct socket_send *send, struct mmsghdr message[BATCH], struct iovec parts[BATCH][2],
                      const struct backend_packet *packet, uint32_t n)
{
	size_t skip = send->has_ethernet ? 0 : ETH_HLEN;

	for (uint32_t i = 0; i < n; i++, packet++) {
		parts[i][0] = (struct iovec){(uint8_t *)packet->headers + skip, packet->header_bytes - skip};
		parts[i][1] = (struct iovec){(void *)packet->payload, packet->payload_bytes};
		message[i] =
			(struct mmsghdr){.msg_hdr = {.msg_iov = parts[i], .msg_iovlen = packet->payload_bytes ? 2 : 1}};
		if (skip) {
			message[i].msg_hdr.msg_name = &send->protocols[packet->headers[skip] >> 4 == 6];
			message[i].msg_hdr.msg_namelen = sizeof(send->protocols[0]);
		}
	}
}

/* Send up to BATCH packets. Returns the number of packets that ended, sent or in error; 0: the driver has no room. */
static uint32_t send_batch(struct socket_send *send, const struct backend_packet *packets, uint32_t n)
{
	struct mmsghdr messages[BATCH];
	struct iovec parts[BATCH][2];
	int sent;

	send_fill(send, messages, parts, packets, n);
	sent = sendmmsg(send->fd, messages, n, MSG_DONTWAIT);
	if (sent > 0) {
		send->room_again_ns = ROOM_AGAIN_NS_MIN;
		send_note_ended(send, (uint32_t)sent, BACKEND_OK);
		return (uint32_t)sent;
	}
	if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)
		return 0;
	atomic_store_explicit(&send->base.error, strerrorname_np(errno), memory_order_relaxed);
	send_note_ended(send, 1, BACKEND_SLOT_ERROR);
	return 1;
}

static int socket_send_post(struct backend_queue *base, const struct backend_packet *packets, uint32_t n)
{
	struct socket_send *send = socket_send(base);
	uint32_t n_free = send->slots - send->n_posted, done = 0;

	if (n > n_free)
		n = n_free;
	send->waits_for_room = false;
	while (done < n) {
		uint32_t taken = send_batch(send, packets + done, n - done < BATCH ? n - done : BATCH);

		done += taken;
		if (taken == 0) {
			send->waits_for_room = true;
			break;
		}
	}
	return (int)done;
}

static int socket_send_reap(struct backend_queue *base, struct backend_sent *sent, uint32_t max)
{
	struct socket_send *send = socket_send(base);
	uint32_t n = send->n_ended < max ? send->n_ended : max;

	for (uint32_t i = 0; i < n; i++) {
		sent[i] = *send_ended(send, i);
		send->n_posted -= sent[i].n;
	}
	send->first_ended = (send->first_ended + n) % send->slots;
	send->n_ended -= n;
	return (int)n;
}

/* ---- sleep --------------------------------------------------------------------------------------- */

static int socket_send_fd(const struct backend_queue *base)
{
	int fd = socket_send(base)->timer_fd;

	return fd >= 0 ? fd : -ENOTSUP;
}

static uint32_t send_nap_ns(const struct socket_send *send)
{
	if (send->waits_for_room)
		return send->room_again_ns;
	return send->n_ended ? ROOM_AGAIN_NS_MIN : 0;
}

/* Packets have ended before send_post() returns, so all that a worker may wait for is room. */
static int socket_send_arm(struct backend_queue *base)
{
	const struct socket_send *send = socket_send(base);
	const struct itimerspec soon = {.it_value.tv_nsec = send_nap_ns(send)};

	if (send->timer_fd < 0)
		return -ENOTSUP;
	return timerfd_settime(send->timer_fd, 0, &soon, NULL) == 0 ? 0 : -errno;
}

static void socket_send_clear(struct backend_queue *base)
{
	struct socket_send *send = socket_send(base);
	uint64_t n;

	if (read(send->timer_fd, &n, sizeof(n)) < 0)
		return; /* the timer has not run out */
	if (send->waits_for_room && send->room_again_ns < ROOM_AGAIN_NS_MAX)
		send->room_again_ns *= 2;
	send->waits_for_room = false;
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* A socket sends at once. */
static int socket_send_start(struct backend_queue *base)
{
	(void)base;
	return 0;
}

static int socket_send_reset(struct backend_queue *base)
{
	struct socket_send *send = socket_send(base);

	send->n_posted = send->n_ended = send->first_ended = 0;
	send->waits_for_room = false;
	return 0;
}

/* Any state. */
static void socket_send_free(struct backend_queue *base)
{
	struct socket_send *send = socket_send(base);

	if (send->timer_fd >= 0)
		close(send->timer_fd);
	if (send->fd >= 0)
		close(send->fd);
	free(send->ended);
	free(send);
}

static const struct backend_ops socket_send_ops = {
	.name = "packet socket",
	.start = socket_send_start,
	.fd = socket_send_fd,
	.arm = socket_send_arm,
	.clear = socket_send_clear,
	.reset = socket_send_reset,
	.send_post = socket_send_post,
	.send_reap = socket_send_reap,
	.destroy_queue = socket_send_free,
};

static int send_set_up(struct socket_send *send, int interface_index, const struct backend_send_options *options)
{
	const struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = interface_index};
	int on = 1;

	send->ended = calloc(options->slots, sizeof(*send->ended));
	if (!send->ended)
		return -ENOMEM;
	for (int i = 0; i < 2; i++) {
		send->protocols[i].address = address;
		send->protocols[i].address.sll_protocol = htons(i ? ETH_P_IPV6 : ETH_P_IP);
	}
	if (setsockopt(send->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) < 0 ||
	    bind(send->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (!options->completion_events)
		return 0;
	send->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	return send->timer_fd < 0 ? -errno : 0;
}

int socket_send_new(const struct socket_send_place *place, const struct backend_send_options *options,
                    struct backend_queue **queue, struct failure *failure)
{
	struct socket_send *send = calloc(1, sizeof(*send));
	int r;

	if (!send)
		return failure_set(failure, EX_OSERR, ENOMEM, "no memory for a send queue");
	*send = (struct socket_send){
		.base = {.ops = &socket_send_ops},
		.has_ethernet = place->has_ethernet,
		.fd = packet_socket_open(place->interface, place->has_ethernet ? SOCK_RAW : SOCK_DGRAM, failure),
		.timer_fd = -1,
		.slots = options->slots,
		.room_again_ns = ROOM_AGAIN_NS_MIN,
	};
	r = send->fd;
	if (r >= 0) {
		r = send_set_up(send, place->index, options);
		if (r < 0)
			failure_set(failure, EX_OSERR, -r, "interface %s: cannot make a send queue: %s",
			            place->interface, strerror(-r));
	}
	if (r < 0)
		socket_send_free(&send->base);
	else
		*queue = &send->base;
	return r < 0 ? r : 0;
}
