// SPDX-License-Identifier: Apache-2.0
/*
 * Wakes every consumer of a ring that asked and whose packets have come, by a byte on its socket or on its futex word:
 * so the worker's wake-up stays one system call on the ring's doorbell, whatever consumers do. How long a wake takes
 * is in the client's hands. Control waits for none, but when the ring goes. Whose consumers' wakes take long together is
 * woken by a second thread, with those like it, until that has leaked away: what the others wait for a user is a
 * thousandth of the time, beside 50 µs a wake.
 */
#ifndef DAEMON_CONTROL_NOTIFIER_H
#define DAEMON_CONTROL_NOTIFIER_H

#include "daemon/ring/rx_ring.h"

#include <sys/types.h>

struct notifier;

/** Starts the threads. ring must outlive the notifier. 0 or -errno. */
int notifier_new(struct notifier **notifier, const struct rx_ring *ring);

/** Stops the threads; waits for a wake that is under way: milliseconds, for what one can come to. NULL is fine. */
void notifier_free(struct notifier *notifier);

/** fd: a socket, or -1. Both stay the caller's until notifier_dispose(). uid: whose it is. -EAGAIN: too many. */
int notifier_add(struct notifier *notifier, const struct ring_consumer *consumer, int fd, uid_t uid);

/** No wake of it begins any more; one may be under way, with its page and descriptor. Not there: nothing. */
void notifier_remove(struct notifier *notifier, const struct ibvcap_consumer_page *page);

/**
 * Remove it, free its two segments and close the descriptor (-1: none): now, or when the wake that is under way ends.
 * Also of a consumer that was never added.
 */
void notifier_dispose(struct notifier *notifier, struct ring_consumer *consumer, int fd);

#endif
