// SPDX-License-Identifier: Apache-2.0
/*
 * One thread a ring: sleeps on the ring's doorbell and wakes every consumer that asked and whose packets have
 * come, by a byte on its socket or on its futex word. So the worker's wake-up stays one system call, whatever
 * consumers do.
 */
#ifndef DAEMON_CONTROL_NOTIFIER_H
#define DAEMON_CONTROL_NOTIFIER_H

#include "daemon/ring/rx_ring.h"

struct notifier;

/** Starts the thread. ring must outlive the notifier. 0 or -errno. */
int notifier_new(struct notifier **notifier, const struct rx_ring *ring);

/** Stops the thread. NULL is fine. */
void notifier_free(struct notifier *notifier);

/** fd: a socket; stays the caller's, as consumer does. -EAGAIN: too many. */
int notifier_add(struct notifier *notifier, const struct ring_consumer *consumer, int fd);

/** Once it returns, neither page nor its descriptor is used any more. Not there: nothing. */
void notifier_remove(struct notifier *notifier, const struct ibvcap_consumer_page *page);

#endif
