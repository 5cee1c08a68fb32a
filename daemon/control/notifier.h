// SPDX-License-Identifier: Apache-2.0
/*
 * Wakes every client of a ring, or of a transmit worker, that asked and whose packets have come or gone, by a byte on
 * its socket or on its futex word: so the worker's wake-up stays one system call on the doorbell, whatever clients do.
 * How long a wake takes is in the client's hands. Control waits for none, but when the ring or the worker goes. Whose
 * clients' wakes take long together is woken by a second thread, with those like it, until that has leaked away: what
 * the others wait for a user is a thousandth of the time, beside 50 µs a wake.
 */
#ifndef DAEMON_CONTROL_NOTIFIER_H
#define DAEMON_CONTROL_NOTIFIER_H

#include "daemon/ring/rx_ring.h"
#include "daemon/ring/sender.h"

#include <sys/types.h>

struct notifier;

/** Starts the threads. ring must outlive the notifier. 0 or -errno. */
int notifier_new(struct notifier **notifier, const struct rx_ring *ring);

/** The same for up to max senders; doorbell: the eventfd that is rung for them. It must outlive the notifier. */
int notifier_new_of_senders(struct notifier **notifier, int doorbell, uint32_t max);

/** Stops the threads; waits for a wake that is under way: milliseconds, for what one can come to. NULL is fine. */
void notifier_free(struct notifier *notifier);

/** Have both threads gone round since this was last asked? Rings for them to do so again. True at first. */
bool notifier_is_alive(struct notifier *notifier);

/** fd: a socket, or -1. Both stay the caller's until notifier_dispose(). uid: whose it is. -EAGAIN: too many. */
int notifier_add(struct notifier *notifier, const struct ring_consumer *consumer, int fd, uid_t uid);
int notifier_add_sender(struct notifier *notifier, const struct sender *sender, uid_t uid);

/** No wake of it begins any more; one may be under way, with its page and descriptor. Not there: nothing. */
void notifier_remove(struct notifier *notifier, const void *page);

/**
 * Remove it, free its two segments and close the descriptor (-1: none): now, or when the wake that is under way ends.
 * Also of a consumer that was never added.
 */
void notifier_dispose(struct notifier *notifier, struct ring_consumer *consumer, int fd);
/** Likewise a sender's three segments and its socket. */
void notifier_dispose_sender(struct notifier *notifier, struct sender *sender);

#endif
