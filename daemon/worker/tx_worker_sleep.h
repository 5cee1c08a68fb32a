// SPDX-License-Identifier: Apache-2.0
/* The sleep of a transmit worker on its epoll: until mail, a completion event, a sender's kick, or a time. */
#ifndef DAEMON_WORKER_TX_WORKER_SLEEP_H
#define DAEMON_WORKER_TX_WORKER_SLEEP_H

#include "daemon/ring/sender.h"

#include <stdint.h>

/* Descriptors that are readable, and the small epolls of senders that kicked (daemon/ring/sender.h). */
struct tx_worker_woken {
	int fds[16];
	uint32_t n;
};

/** Wake for this descriptor, or no longer. No effect if fd is below 0. 0 or -errno. */
int tx_worker_sleep_watch(int epoll, int fd);
void tx_worker_sleep_forget(int epoll, int fd);

/**
 * Wake for the kicks of this sender, whose small epoll sender_kick_init() has added. The watch itself causes one event.
 * tx_worker_sleep_forget() ends it. 0 or -errno.
 */
int tx_worker_sleep_watch_kicks(int epoll, const struct sender_kick *kick);

/** Sleep at most that long; UINT64_MAX: until a descriptor is readable. */
void tx_worker_sleep_wait(int epoll, uint64_t timeout_ns, struct tx_worker_woken *woken);

#endif
