// SPDX-License-Identifier: Apache-2.0
/*
 * The descriptor that ibvcap_rx_fd() returns: an epoll set with the wake socket, the connection whose answer the handle
 * waits for, and a timer for the next attempt to reattach. It stays the same when the epoch changes.
 */
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/owner.h"
#include "lib/ibvcap/rx.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

int rx_poll_watch(int poll_fd, int fd, const char *stream)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return error_set(-errno, "stream '%s': cannot add a descriptor to the epoll set: %s", stream,
		                 strerror(errno));
	return 0;
}

int rx_poll_add(const struct rx_reattach *reattach, int fd)
{
	return reattach->poll_fd < 0 || fd < 0 ? 0 : rx_poll_watch(reattach->poll_fd, fd, reattach->stream);
}

void rx_poll_remove(const struct rx_reattach *reattach, int fd)
{
	if (reattach->poll_fd >= 0)
		epoll_ctl(reattach->poll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* close() alone would leave it in the set if a child process has inherited it. */
void rx_poll_close(struct rx_reattach *reattach, int *fd)
{
	if (*fd < 0)
		return;
	rx_poll_remove(reattach, *fd);
	close(*fd);
	*fd = -1;
}

void rx_poll_set_timer(const struct rx_reattach *reattach, uint64_t at_ns)
{
	const struct itimerspec when = {.it_value = {(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)}};

	if (reattach->timer_fd >= 0)
		timerfd_settime(reattach->timer_fd, at_ns ? TFD_TIMER_ABSTIME : 0, &when, NULL);
}

void rx_poll_deinit(struct rx_reattach *reattach)
{
	if (reattach->timer_fd >= 0)
		close(reattach->timer_fd);
	if (reattach->poll_fd >= 0)
		close(reattach->poll_fd);
	reattach->timer_fd = reattach->poll_fd = -1;
}

int rx_poll_open(struct ibvcap_rx *rx)
{
	struct rx_reattach *reattach = &rx->reattach;
	int r = owner_check(rx->owner, reattach->stream);

	if (r < 0)
		return r;
	if (reattach->poll_fd >= 0)
		return reattach->poll_fd;
	reattach->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	reattach->poll_fd = reattach->timer_fd < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (reattach->poll_fd < 0)
		r = error_set(-errno, "stream '%s': cannot create a descriptor for poll(): %s", reattach->stream,
		              strerror(errno));
	if (r == 0)
		r = rx_poll_add(reattach, reattach->timer_fd);
	if (r == 0)
		r = rx_poll_add(reattach, rx->waiter.socket);
	if (r == 0)
		r = rx_poll_add(reattach, reattach->client.socket);
	if (r < 0) {
		rx_poll_deinit(reattach);
		return r;
	}
	/* Packets may be there: readable until the first look, which leaves a request if there are none. */
	rx_poll_set_timer(reattach, 1);
	rx->waiter.uses_fd = rx->waiter.fd_armed = rx->fd_fires = true;
	return reattach->poll_fd;
}
