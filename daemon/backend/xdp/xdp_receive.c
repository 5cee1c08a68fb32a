// SPDX-License-Identifier: Apache-2.0
/*
 * The hot path: copies each packet from its frames to the oldest posted slot and gives the frames back. No allocation,
 * no system call, and no lock but that of the fill ring, which is held for some stores.
 *
 * While no slot is posted, packets stay in the receive rings, and when one is full the kernel drops and counts them.
 */
#include "daemon/backend/xdp/xdp.h"

#include "lib/base/time.h"
#include "lib/frame/frame_checksum.h"

#include <errno.h>
#include <sys/epoll.h>

#define PACKETS_AT_ONCE 64 /* of one socket, before it is the next one's turn */

/* UTC. A packet without a time of its own gets the present time. */
static uint64_t receive_packet_time(const struct xdp_receive *receive, const uint8_t *frame)
{
	uint64_t tai_ns = xdp_program_packet_time(frame);

	if (tai_ns == 0)
		return time_utc_ns();
	return tai_ns - atomic_load_explicit(&receive->tai_offset_ns, memory_order_relaxed);
}

/* The headers are in the first frame. */
static __attribute__((noinline)) uint32_t receive_find_packet_tag(const struct xdp_receive *receive,
                                                                  const uint8_t *frame, uint32_t bytes)
{
	struct flow_headers headers = {0};

	return flow_key_read_frame(frame, frame + bytes, 0, &headers, true) ? flow_tags_find(receive->tags, &headers)
	                                                                    : 0;
}

/* A sender on this machine leaves the checksum to a card, and the kernel tells an AF_XDP socket nothing of that. */
static __attribute__((noinline)) uint8_t receive_look_for_partial_checksum(const uint8_t *frame, uint32_t bytes)
{
	struct frame_checksum checksum;

	return frame_find_checksum(frame, bytes, &checksum) && frame_checksum_is_partial(frame, &checksum)
	               ? BACKEND_EVENT_CHECKSUM_PARTIAL
	               : 0;
}

static inline __attribute__((always_inline)) void receive_take_packet(struct xdp_receive *receive,
                                                                      struct xdp_socket *socket, uint32_t n_descriptors,
                                                                      struct backend_event *event, const bool has_card)
{
	const uint8_t *frames = socket->card_queue->frames;
	struct xdp_ring *ring = &socket->receive;
	uint64_t time_ns = 0;
	uint32_t bytes = 0, tag = 0;
	uint8_t flags = 0;

	if (receive->tags)
		tag = receive_find_packet_tag(receive, frames + xdp_ring_descriptor(ring, ring->next)->addr,
		                              xdp_ring_descriptor(ring, ring->next)->len);
	if (receive->timestamps)
		time_ns = receive_packet_time(receive, frames + xdp_ring_descriptor(ring, ring->next)->addr);
	if (!has_card)
		flags = receive_look_for_partial_checksum(frames + xdp_ring_descriptor(ring, ring->next)->addr,
		                                          xdp_ring_descriptor(ring, ring->next)->len);
	for (uint32_t i = 0; i < n_descriptors; i++) {
		const struct xdp_desc *descriptor = xdp_ring_descriptor(ring, ring->next++);

		posted_rows_copy(&receive->rows, bytes, frames + descriptor->addr, descriptor->len);
		bytes += descriptor->len;
		xdp_socket_return_frame(socket, descriptor);
	}
	posted_rows_end(&receive->rows, bytes, event);
	event->timestamp_raw = time_ns;
	event->tag = tag;
	if (!has_card)
		event->flags = flags;
}

/* ---- waking the worker ------------------------------------------------------------------------------ */

int xdp_watch_socket(const struct xdp_receive *receive, struct xdp_socket *socket)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = socket};
	int r = 0;

	if (socket->is_watched)
		return 0;
	/* Before the call, because after it the worker's thread reads and writes is_watched. */
	socket->is_watched = true;
	if (epoll_ctl(receive->wake_fd, EPOLL_CTL_ADD, socket->fd, &event) < 0) {
		r = -errno;
		socket->is_watched = false;
	}
	return r;
}

/*
 * A socket in an epoll costs the receiving CPU a tenth of the time of each packet. So the epoll has a socket only from
 * arm() until it brings a packet.
 */
static __attribute__((noinline, cold)) void receive_unwatch_socket(const struct xdp_receive *receive,
                                                                   struct xdp_socket *socket)
{
	if (socket->is_watched)
		epoll_ctl(receive->wake_fd, EPOLL_CTL_DEL, socket->fd, NULL);
	socket->is_watched = false;
}

/* ---- polling --------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) uint32_t receive_take_packets(struct xdp_receive *receive,
                                                                           struct xdp_socket *socket,
                                                                           struct backend_event *events, uint32_t max,
                                                                           const bool has_card)
{
	uint32_t n = 0, n_descriptors;

	while (n < max && receive->rows.n_posted > 0) {
		n_descriptors = xdp_ring_next_packet(&socket->receive);
		if (n_descriptors == 0)
			break;
		receive_take_packet(receive, socket, n_descriptors, &events[n++], has_card);
	}
	if (n > 0) {
		uint64_t n_taken = atomic_load_explicit(&receive->n_taken, memory_order_relaxed) + n;

		/* Before the release: a thread that finds the ring empty must find these packets in n_taken. */
		atomic_store_explicit(&receive->n_taken, n_taken, memory_order_relaxed);
		xdp_ring_release(&socket->receive);
		if (__builtin_expect(socket->is_watched, false))
			receive_unwatch_socket(receive, socket);
	}
	xdp_socket_give_back(socket, false);
	return n;
}

int xdp_poll(struct backend_queue *base, struct backend_event *events, uint32_t max)
{
	struct xdp_receive *receive = xdp_receive(base);
	uint32_t n = 0, n_sockets = atomic_load_explicit(&receive->n_sockets, memory_order_acquire);

	for (uint32_t i = 0; i < n_sockets && n < max; i++) {
		uint32_t room = max - n < PACKETS_AT_ONCE ? max - n : PACKETS_AT_ONCE;
		struct xdp_socket *socket = &receive->sockets[receive->turn];

		/* A packet of a card costs no test. */
		n += receive->backend->interface.has_device
		             ? receive_take_packets(receive, socket, &events[n], room, true)
		             : receive_take_packets(receive, socket, &events[n], room, false);
		receive->turn = receive->turn + 1 < n_sockets ? receive->turn + 1 : 0;
	}
	backend_use_take(&base->use, n);
	return (int)n;
}

/* ---- sleeping -------------------------------------------------------------------------------------- */

/*
 * A socket is readable while its ring has a packet. Without a posted slot the packet stays in the ring, and the worker
 * would wake again at once: then the next post() arms.
 */
int xdp_arm(struct backend_queue *base)
{
	struct xdp_receive *receive = xdp_receive(base);
	int r = 0;

	if (receive->wake_fd < 0)
		return -ENOTSUP;
	receive->arm_due = receive->rows.n_posted == 0;
	for (uint32_t i = 0; i < receive->n_sockets && r == 0; i++) {
		struct xdp_socket *socket = &receive->sockets[i];

		xdp_socket_give_back(socket, true); /* others may need the frames while this worker sleeps */
		xdp_socket_answer_driver(socket);
		if (receive->arm_due)
			receive_unwatch_socket(receive, socket);
		else
			r = xdp_watch_socket(receive, socket);
	}
	return r;
}

void xdp_clear(struct backend_queue *base)
{
	const struct xdp_receive *receive = xdp_receive(base);
	struct epoll_event event;

	while (receive->wake_fd >= 0 && epoll_wait(receive->wake_fd, &event, 1, 0) == 1)
		receive_unwatch_socket(receive, event.data.ptr);
}

int xdp_post(struct backend_queue *base, const struct backend_run *run)
{
	struct xdp_receive *receive = xdp_receive(base);
	int n = posted_rows_add(&receive->rows, run);

	backend_use_post(&base->use, (uint32_t)n);
	if (receive->arm_due && n > 0) /* the worker is about to sleep, and packets may be in a ring already */
		xdp_arm(base);
	return n;
}
