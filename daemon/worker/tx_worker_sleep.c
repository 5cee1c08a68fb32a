// SPDX-License-Identifier: Apache-2.0
/* Watches descriptors by an epoll, and sleeps on it with a timeout of ns. */
#include "daemon/worker/tx_worker_sleep.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>

#define EVENTS_MAX (sizeof(((struct tx_worker_woken *)0)->fds) / sizeof(int))

int tx_worker_sleep_watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (fd < 0)
		return 0;
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int tx_worker_sleep_watch_kicks(int epoll, const struct sender_kick *kick)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = kick->epoll};

	if (kick->epoll < 0)
		return 0;
	return epoll_ctl(epoll, EPOLL_CTL_MOD, kick->epoll, &event) < 0 ? -errno : 0;
}

void tx_worker_sleep_forget(int epoll, int fd)
{
	if (fd >= 0)
		epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

void tx_worker_sleep_wait(int epoll, uint64_t timeout_ns, struct tx_worker_woken *woken)
{
	const struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
	                                 .tv_nsec = (long)(timeout_ns % 1000000000)};
	struct pollfd poller = {.fd = epoll, .events = POLLIN};
	struct epoll_event events[EVENTS_MAX];
	int n = 0;

	/* epoll_wait() sleeps for milliseconds, and epoll_pwait2() is not in every kernel. */
	if (ppoll(&poller, 1, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL) > 0)
		n = epoll_wait(epoll, events, EVENTS_MAX, 0);
	woken->n = 0;
	for (int i = 0; i < n; i++)
		woken->fds[woken->n++] = events[i].data.fd;
}
