// SPDX-License-Identifier: Apache-2.0
/*
 * Sends with a packet socket: one sendmmsg() takes up to 64 packets from the worker's headers and the senders' payloads
 * to the driver, past the queueing discipline. The kernel copies them, so they have ended when the call returns.
 */
#include "daemon/backend/packet/af_packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BATCH 64
/* The driver had no room: try again after this time, which doubles. Without a link there is none for hours. */
#define ROOM_AGAIN_NS_MIN 50000
#define ROOM_AGAIN_NS_MAX 1000000

/* Run i of those that ended and are not reaped. There are at most as many as slots. */
static struct backend_sent *send_ended(struct af_packet_send *send, uint32_t i)
{
	return &send->ended[(send->first_ended + i) % send->slots];
}

/* The next n packets ended with this status. */
static void send_note_ended(struct af_packet_send *send, uint32_t n, enum backend_status status)
{
	struct backend_sent *last = send_ended(send, send->n_ended + send->slots - 1);

	send->n_posted += n;
	if (send->n_ended > 0 && last->status == (uint8_t)status)
		last->n += n;
	else
		*send_ended(send, send->n_ended++) = (struct backend_sent){.n = n, .status = (uint8_t)status};
}

static void send_fill(struct mmsghdr message[BATCH], struct iovec parts[BATCH][2], const struct backend_packet *packet,
                      uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, packet++) {
		parts[i][0] = (struct iovec){(void *)packet->headers, packet->header_bytes};
		parts[i][1] = (struct iovec){(void *)packet->payload, packet->payload_bytes};
		message[i] =
			(struct mmsghdr){.msg_hdr = {.msg_iov = parts[i], .msg_iovlen = packet->payload_bytes ? 2 : 1}};
	}
}

/* Send up to BATCH packets. Returns the number of packets that ended, sent or in error; 0: the driver has no room. */
static uint32_t send_batch(struct af_packet_send *send, const struct backend_packet *packets, uint32_t n)
{
	struct mmsghdr messages[BATCH];
	struct iovec parts[BATCH][2];
	int sent;

	send_fill(messages, parts, packets, n);
	sent = sendmmsg(send->queue.fd, messages, n, MSG_DONTWAIT);
	if (sent > 0) {
		send->room_again_ns = ROOM_AGAIN_NS_MIN;
		send_note_ended(send, (uint32_t)sent, BACKEND_OK);
		return (uint32_t)sent;
	}
	if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)
		return 0;
	atomic_store_explicit(&send->queue.base.error, strerrorname_np(errno), memory_order_relaxed);
	send_note_ended(send, 1, BACKEND_SLOT_ERROR);
	return 1;
}

int af_packet_send_post(struct backend_queue *base, const struct backend_packet *packets, uint32_t n)
{
	struct af_packet_send *send = af_packet_send(base);
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

int af_packet_send_reap(struct backend_queue *base, struct backend_sent *sent, uint32_t max)
{
	struct af_packet_send *send = af_packet_send(base);
	uint32_t n = send->n_ended < max ? send->n_ended : max;

	for (uint32_t i = 0; i < n; i++) {
		sent[i] = *send_ended(send, i);
		send->n_posted -= sent[i].n;
	}
	send->first_ended = (send->first_ended + n) % send->slots;
	send->n_ended -= n;
	return (int)n;
}

static uint32_t send_nap_ns(const struct af_packet_send *send)
{
	if (send->waits_for_room)
		return send->room_again_ns;
	return send->n_ended ? ROOM_AGAIN_NS_MIN : 0;
}

/* Packets have ended before send_post() returns, so all that a worker may wait for is room. */
int af_packet_send_arm(const struct af_packet_send *send)
{
	const struct itimerspec soon = {.it_value.tv_nsec = send_nap_ns(send)};

	return timerfd_settime(send->queue.wake_fd, 0, &soon, NULL) == 0 ? 0 : -errno;
}

void af_packet_send_clear(struct af_packet_send *send)
{
	uint64_t n;

	if (read(send->queue.wake_fd, &n, sizeof(n)) < 0)
		return; /* the timer has not run out */
	if (send->waits_for_room && send->room_again_ns < ROOM_AGAIN_NS_MAX)
		send->room_again_ns *= 2;
	send->waits_for_room = false;
}

void af_packet_send_reset(struct af_packet_send *send)
{
	send->n_posted = send->n_ended = send->first_ended = 0;
	send->waits_for_room = false;
}

void af_packet_send_free(struct af_packet_send *send)
{
	if (!send)
		return;
	if (send->queue.wake_fd >= 0)
		close(send->queue.wake_fd);
	if (send->queue.fd >= 0)
		close(send->queue.fd);
	free(send->ended);
	free(send);
}

static int send_set_up(struct af_packet_send *send, const struct backend_send_options *options)
{
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = send->queue.backend->index};
	int on = 1;

	send->ended = calloc(options->slots, sizeof(*send->ended));
	if (!send->ended)
		return -ENOMEM;
	if (setsockopt(send->queue.fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) < 0 ||
	    bind(send->queue.fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (!options->completion_events)
		return 0;
	send->queue.wake_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	return send->queue.wake_fd < 0 ? -errno : 0;
}

int af_packet_create_send_queue(struct backend *base, const struct backend_send_options *options,
                                struct backend_queue **queue, struct failure *failure)
{
	struct af_packet *backend = (struct af_packet *)base;
	struct af_packet_send *send = calloc(1, sizeof(*send));
	int r;

	if (!send)
		return failure_set(failure, EX_OSERR, ENOMEM, "no memory for a send queue");
	*send = (struct af_packet_send){
		.queue = {.base = {.ops = base->ops}, .backend = backend, .wake_fd = -1, .sends = true},
		.slots = options->slots,
		.room_again_ns = ROOM_AGAIN_NS_MIN,
	};
	send->queue.fd = af_packet_open_socket(backend, failure);
	r = send->queue.fd;
	if (r >= 0) {
		r = send_set_up(send, options);
		if (r < 0)
			failure_set(failure, EX_OSERR, -r, "interface %s: cannot make a send queue: %s",
			            backend->interface, strerror(-r));
	}
	if (r < 0)
		af_packet_send_free(send);
	else
		*queue = &send->queue.base;
	return r < 0 ? r : 0;
}
