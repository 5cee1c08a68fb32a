// SPDX-License-Identifier: Apache-2.0
/*
 * What each user's lossless consumers of a ring owe (rx_ring.h). It outlives them, so that to leave and come again is no
 * way around the deadline; and all that a user has at a time share one, so that to take turns is none. Control thread
 * only.
 */
#ifndef DAEMON_CONTROL_ACCOUNT_H
#define DAEMON_CONTROL_ACCOUNT_H

#include "daemon/ring/rx_ring.h"

#include <sys/queue.h>
#include <sys/types.h>

struct rx_endpoint;

struct account {
	LIST_ENTRY(account) link;
	uid_t uid;
	struct stall_budget ring; /* the worker's while it has consumers with it */
};

/** For a new consumer: that of its user, who has one here. The point's. NULL: out of memory. */
struct stall_budget *account_take(struct rx_endpoint *endpoint, uid_t uid, uint64_t now_ns);

/** The point has no consumers any more. */
void account_free_all(struct rx_endpoint *endpoint);

#endif
