// SPDX-License-Identifier: Apache-2.0
/*
 * What each user's lossless consumers of a ring owe (rx_ring.h). It outlives them, so that to leave and come again is no
 * way around the deadline: a user has no more accounts than it had consumers at a time. Control thread only.
 */
#ifndef DAEMON_CONTROL_ACCOUNT_H
#define DAEMON_CONTROL_ACCOUNT_H

#include "daemon/ring/rx_ring.h"

#include <sys/queue.h>
#include <sys/types.h>

struct attach_point;

struct account {
	LIST_ENTRY(account) link;
	uid_t uid;
	struct ring_account ring; /* the worker's while it has a consumer with it */
};

/** For a new consumer: one that a consumer of that user has left, else a new one. The point's. NULL: out of memory. */
struct ring_account *account_take(struct attach_point *point, uid_t uid, uint64_t now_ns);

/** The point has no consumers any more. */
void account_free_all(struct attach_point *point);

#endif
