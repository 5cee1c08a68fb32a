// SPDX-License-Identifier: Apache-2.0
/*
 * A thread that wakes the clients of one stream, or of one transmit worker. The worker rings one doorbell, so that it
 * spends one system call on all clients and no client can slow it down. The notifier then wakes each client that asked
 * for it and whose packets have come (or gone): by a byte on the client's socket, or by the client's futex word.
 *
 * A client decides how long its own wake-up takes, and the other clients wait meanwhile. So each wake-up is charged to
 * the client's user while another user has a client here, and a client whose user is over the wake budget (user.h) is
 * woken later: when the debt is repaid that far. On a slow machine, where wake-ups of all take long, a reader is so
 * woken less often, and finds more packets. root is never charged. Control never waits for a wake-up, except in
 * notifier_free().
 */
#ifndef DAEMON_CONTROL_NOTIFIER_H
#define DAEMON_CONTROL_NOTIFIER_H

#include "daemon/base/heartbeat.h"
#include "daemon/ring/rx_ring.h"
#include "daemon/ring/sender.h"

struct notifier;
struct user;

/**
 * Start the thread, for up to max consumers of the ring; NULL: for senders. doorbell: the eventfd that is rung for
 * them. Both must outlive the notifier. 0 or -errno.
 */
int notifier_new(struct notifier **notifier, const struct rx_ring *ring, int doorbell, uint32_t max);

/**
 * Stop the thread, and give one reference up. Waits for a wake-up that is under way, for milliseconds. NULL: no effect.
 */
void notifier_free(struct notifier *notifier);

/** For heartbeat_watch(); notifier_free() ends the watch. */
struct heartbeat *notifier_heartbeat(struct notifier *notifier);

/**
 * A socket to wake a client by. Each end has its own open file description, so a client cannot change the flags of our
 * end; its end only receives, so it cannot send descriptors. 0 or -errno.
 */
int notifier_make_socket(int *ours, int *theirs);

/**
 * The consumer and fd (a socket, or -1) stay the caller's, which frees them after notifier_remove_and_wait(). user is
 * charged with the wake-ups; NULL: nobody is. -EAGAIN: there are too many.
 */
int notifier_add(struct notifier *notifier, const struct ring_consumer *consumer, int fd, struct user *user);
int notifier_add_sender(struct notifier *notifier, const struct sender *sender, struct user *user);

/** Begin no more wake-up of it; one may be under way, with its page and descriptor. No effect if it was not added. */
void notifier_remove(struct notifier *notifier, const void *page);

/** notifier_remove(), and wait until no wake-up of it is under way: that may take long. Any thread. */
void notifier_remove_and_wait(struct notifier *notifier, const void *page);

/** Keep the notifier's memory for notifier_remove_and_wait(), until notifier_unref(). Any thread. */
struct notifier *notifier_ref(struct notifier *notifier);
void notifier_unref(struct notifier *notifier);

#endif
