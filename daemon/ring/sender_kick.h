// SPDX-License-Identifier: Apache-2.0
/*
 * The descriptors by which one sender wakes the transmit worker. The client gets the eventfd and writes 1 to it; the
 * daemon never reads or writes it again, so a writer's system call wakes the worker in the writer's own time.
 *
 * A client can hang a million watches on the eventfd and so hold the lock of its wait queue for a second. A thread that
 * adds or removes a watch takes that lock. So the worker's epoll does not watch the eventfd. It watches a small epoll,
 * which no client has, and the small epoll watches the eventfd.
 */
#ifndef DAEMON_RING_SENDER_KICK_H
#define DAEMON_RING_SENDER_KICK_H

struct sender_kick {
	int eventfd; /* the client's, too; -1: none */
	int epoll;   /* the small one; readable from the start, it reports each kick as an edge; -1: none */
};

#define SENDER_KICK_INIT                   \
	{                                  \
		.eventfd = -1, .epoll = -1 \
	}

/**
 * Make both and add the small epoll to the epoll on which the worker sleeps, without events: the worker enables it. To
 * be called before the client gets the eventfd, and not by the worker: to nest an epoll takes a lock of the whole
 * system, which any process can keep for long. 0 or -errno.
 */
int sender_kick_init(struct sender_kick *kick, int workers_epoll);

/** Takes the lock of the eventfd's wait queue: it may take as long as the client likes. */
void sender_kick_deinit(struct sender_kick *kick);

#endif
