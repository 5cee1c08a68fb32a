// SPDX-License-Identifier: Apache-2.0
/* The socket of a queue on a card queue: its receive ring, the return of frames, its counts. */
#include "daemon/backend/xdp/xdp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int xdp_socket_init(struct xdp_socket *socket, struct xdp_card_queue *card_queue, struct failure *failure)
{
	int fd = xdp_open_socket(card_queue->backend, failure);

	if (fd < 0)
		return fd;
	socket->card_queue = card_queue;
	socket->fd = fd;
	return 0;
}

/* The kernel gives a socket its ring once: after a failure, only another socket can be tried again. */
static void socket_renew(struct xdp_socket *socket)
{
	struct failure failure;

	xdp_ring_deinit(&socket->receive);
	close(socket->fd);
	socket->fd = xdp_open_socket(socket->card_queue->backend, &failure);
}

int xdp_socket_bind(struct xdp_socket *socket, uint32_t queue, struct failure *failure)
{
	const struct xdp_card_queue *card_queue = socket->card_queue;
	const struct xdp_backend *backend = card_queue->backend;
	int r;

	if (socket->is_bound)
		return 0;
	r = xdp_ring_init(&socket->receive, socket->fd, XDP_RING_RX, backend->depths[queue]);
	if (r == 0)
		r = xdp_bind(socket->fd, card_queue, XDP_SHARED_UMEM, card_queue->anchor_fd);
	if (r == 0)
		r = xdp_program_set_socket(backend->program, queue, card_queue->number, socket->fd);
	if (r < 0) {
		socket_renew(socket);
		return failure_set(failure, EX_OSERR, -r,
		                   "interface %s: cannot make an AF_XDP socket for receive queue %u: %s",
		                   backend->interface.name, card_queue->number, strerror(-r));
	}
	socket->is_bound = true;
	return 0;
}

void xdp_socket_deinit(struct xdp_socket *socket)
{
	if (!socket->card_queue)
		return;
	xdp_ring_deinit(&socket->receive); /* first: see there */
	if (socket->fd >= 0)
		close(socket->fd);
	socket->card_queue = NULL;
}

/* ---- frames ---------------------------------------------------------------------------------------- */

/* With zero-copy the driver asks for it when it has run out of frames. */
static __attribute__((noinline, cold)) void socket_wake_driver(const struct xdp_socket *socket)
{
	recvfrom(socket->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

void xdp_socket_answer_driver(const struct xdp_socket *socket)
{
	if (__builtin_expect(xdp_ring_needs_wakeup(&socket->card_queue->fill), 0))
		socket_wake_driver(socket);
}

void xdp_socket_give_back(struct xdp_socket *socket, bool wait)
{
	struct xdp_card_queue *card_queue = socket->card_queue;

	if (socket->n_returned == 0)
		return;
	if (pthread_mutex_trylock(&card_queue->fill_lock) != 0) {
		if (!wait)
			return;
		pthread_mutex_lock(&card_queue->fill_lock);
	}
	xdp_card_queue_fill(card_queue, socket->returned, socket->n_returned);
	pthread_mutex_unlock(&card_queue->fill_lock);
	socket->n_returned = 0;
	xdp_socket_answer_driver(socket);
}

void xdp_socket_drain(struct xdp_socket *socket)
{
	uint32_t n;

	while ((n = xdp_ring_next_packet(&socket->receive)) > 0)
		for (uint32_t i = 0; i < n; i++)
			xdp_socket_return_frame(socket, xdp_ring_descriptor(&socket->receive, socket->receive.next++));
	xdp_ring_release(&socket->receive);
	xdp_socket_give_back(socket, true);
}

/* ---- counts ---------------------------------------------------------------------------------------- */

int xdp_socket_read_drops(const struct xdp_socket *socket, struct xdp_socket_drops *drops)
{
	struct xdp_statistics statistics;
	socklen_t bytes = sizeof(statistics);

	if (getsockopt(socket->fd, SOL_XDP, XDP_STATISTICS, &statistics, &bytes) < 0)
		return -errno;
	*drops = (struct xdp_socket_drops){statistics.rx_dropped, statistics.rx_ring_full};
	return 0;
}

/* Neither poll() nor epoll reports it. */
bool xdp_socket_is_unbound(const struct xdp_socket *socket)
{
	return recvfrom(socket->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL) < 0 && errno == ENXIO;
}
