// SPDX-License-Identifier: Apache-2.0
/* What a transmit worker sleeps on: its mailbox, the queues of its channels, the sockets of its senders, and a time. */
#ifndef DAEMON_WORKER_TRANSMIT_SLEEP_H
#define DAEMON_WORKER_TRANSMIT_SLEEP_H

#include <stdint.h>

struct transmit_sleep {
	int epoll;
};

/* Descriptors that something can be read from. */
struct transmit_woken {
	int fds[16];
	uint32_t n;
};

/** 0 or -errno. */
int transmit_sleep_init(struct transmit_sleep *sleep);
void transmit_sleep_deinit(struct transmit_sleep *sleep);

/** fd below 0: nothing to watch, or to forget. 0 or -errno. */
int transmit_sleep_watch(struct transmit_sleep *sleep, int fd);
void transmit_sleep_forget(struct transmit_sleep *sleep, int fd);

/** At most that long; UINT64_MAX: until something comes. */
void transmit_sleep_wait(struct transmit_sleep *sleep, uint64_t timeout_ns, struct transmit_woken *woken);

/** Take kicks off a sender's socket. Never blocks; a client that floods it costs one read a wake-up. */
void transmit_sleep_empty(struct transmit_sleep *sleep, int socket);

#endif
