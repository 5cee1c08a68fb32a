// SPDX-License-Identifier: Apache-2.0
/*
 * One thread a ring: sleeps on the ring's wake word and writes one byte to the pipe of every consumer
 * that asked for its pipe and whose packets have come. So the worker's wake-up stays one futex call,
 * however many consumers poll a descriptor.
 */
#ifndef DAEMON_CONTROL_NOTIFIER_H
#define DAEMON_CONTROL_NOTIFIER_H

#include <ibvcap/layout.h>

struct notifier;

/** Starts the thread. ring must outlive the notifier. 0 or -errno. */
int notifier_new(struct notifier **notifier, struct ibvcap_ring *ring);

/** Stops the thread. NULL is fine. */
void notifier_free(struct notifier *notifier);

/** fd: write end of a non-blocking pipe; stays the caller's, as page does. -EAGAIN: too many. */
int notifier_add(struct notifier *notifier, const struct ibvcap_consumer_page *page, int fd);

/** Once it returns, neither page nor its descriptor is used any more. Not there: nothing. */
void notifier_remove(struct notifier *notifier, const struct ibvcap_consumer_page *page);

#endif
