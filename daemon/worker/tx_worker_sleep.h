// SPDX-License-Identifier: Apache-2.0
/* What a transmit worker sleeps on: its mailbox, the queues of its channels, the sockets of its senders, and a time. */
#ifndef DAEMON_WORKER_TX_WORKER_SLEEP_H
#define DAEMON_WORKER_TX_WORKER_SLEEP_H

#include <stdint.h>

struct tx_worker_sleep {
	int epoll;
};

/* Descriptors that something can be read from. */
struct tx_worker_woken {
	int fds[16];
	uint32_t n;
};

/** 0 or -errno. */
int tx_worker_sleep_init(struct tx_worker_sleep *sleep);
void tx_worker_sleep_deinit(struct tx_worker_sleep *sleep);

/** fd below 0: nothing to watch, or to forget. 0 or -errno. */
int tx_worker_sleep_watch(struct tx_worker_sleep *sleep, int fd);
void tx_worker_sleep_forget(struct tx_worker_sleep *sleep, int fd);

/** At most that long; UINT64_MAX: until something comes. */
void tx_worker_sleep_wait(struct tx_worker_sleep *sleep, uint64_t timeout_ns, struct tx_worker_woken *woken);

/** Take kicks off a sender's socket. Never blocks; a client that floods it costs one read a wake-up. */
void tx_worker_sleep_empty(struct tx_worker_sleep *sleep, int socket);

#endif
