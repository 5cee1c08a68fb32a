// SPDX-License-Identifier: Apache-2.0
/* Makes and closes the eventfd and the small epoll of a sender. */
#include "daemon/ring/sender_kick.h"

#include "daemon/base/fd.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * A read takes 1 from the counter, so no client reads it down to 0. The small epoll stays readable for ever, and the
 * worker's epoll reports each kick: a client that kicks and reads in turn could otherwise wake the worker uncounted.
 */
#define COUNTER_START (UINT64_C(1) << 63)

static int sender_kick_make(struct sender_kick *kick, int workers_epoll)
{
	struct epoll_event kicked = {.events = EPOLLIN | EPOLLET};
	struct epoll_event disabled;

	kick->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (kick->eventfd < 0 || eventfd_write(kick->eventfd, COUNTER_START) < 0)
		return -errno;
	kick->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (kick->epoll < 0 || epoll_ctl(kick->epoll, EPOLL_CTL_ADD, kick->eventfd, &kicked) < 0)
		return -errno;
	disabled = (struct epoll_event){.data.fd = kick->epoll};
	return epoll_ctl(workers_epoll, EPOLL_CTL_ADD, kick->epoll, &disabled) < 0 ? -errno : 0;
}

int sender_kick_init(struct sender_kick *kick, int workers_epoll)
{
	int r;

	*kick = (struct sender_kick)SENDER_KICK_INIT;
	r = sender_kick_make(kick, workers_epoll);
	if (r < 0)
		sender_kick_deinit(kick);
	return r;
}

void sender_kick_deinit(struct sender_kick *kick)
{
	fd_close(&kick->epoll);
	fd_close(&kick->eventfd);
}
