// SPDX-License-Identifier: Apache-2.0
/*
 * The descriptor that ibvcap_rx_fd() returns: an epoll set. Of each queue it has the wake socket, the connection whose
 * answer the queue waits for, and a timer for the next attempt to reattach. It stays the same when the epoch changes.
 */
#include "lib/base/fd.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/rx/rx_queue.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

int rx_poll_add(const struct rx_queue *queue, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (!queue->waiter.uses_fd || fd < 0 || epoll_ctl(queue->shared->poll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
		return 0;
	return error_set(-errno, "stream '%s': cannot add a descriptor to the epoll set: %s", queue->shared->stream,
	                 strerror(errno));
}

void rx_poll_remove(const struct rx_queue *queue, int fd)
{
	if (queue->waiter.uses_fd)
		epoll_ctl(queue->shared->poll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* close() alone would leave it in the set if a child process has inherited it. */
void rx_poll_close(const struct rx_queue *queue, int *fd)
{
	if (*fd < 0)
		return;
	rx_poll_remove(queue, *fd);
	fd_close(fd);
}

void rx_poll_set_timer(const struct rx_queue *queue, uint64_t at_ns)
{
	const struct itimerspec when = {.it_value = {(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)}};

	if (queue->reattach.timer_fd >= 0)
		timerfd_settime(queue->reattach.timer_fd, at_ns ? TFD_TIMER_ABSTIME : 0, &when, NULL);
}

int rx_poll_begin(struct rx_queue *queue)
{
	int r;

	queue->reattach.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (queue->reattach.timer_fd < 0)
		return error_set(-errno, "stream '%s': cannot create a descriptor for poll(): %s",
		                 queue->shared->stream, strerror(errno));
	queue->waiter.uses_fd = true;
	r = rx_poll_add(queue, queue->reattach.timer_fd);
	if (r == 0)
		r = rx_poll_add(queue, queue->waiter.socket);
	if (r == 0)
		r = rx_poll_add(queue, queue->reattach.client.socket);
	if (r < 0) {
		rx_poll_close(queue, &queue->reattach.timer_fd);
		queue->waiter.uses_fd = false;
		return r;
	}
	/* Packets may be there: readable until the first look, which leaves a request if there are none. */
	rx_poll_set_timer(queue, 1);
	queue->waiter.fd_armed = queue->fd_fires = true;
	return 0;
}
