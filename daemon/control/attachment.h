// SPDX-License-Identifier: Apache-2.0
/*
 * What one attached client has: two pages, a socket to be woken by, and descriptors of the ring. Control thread only.
 *
 *   attachment_new → MAIL_CONSUMER_ADDED → attachment_send … attachment_release → (its client keeps the pages no more)
 *   → attachment_free
 */
#ifndef DAEMON_CONTROL_ATTACHMENT_H
#define DAEMON_CONTROL_ATTACHMENT_H

#include "daemon/control/kept.h"
#include "daemon/control/rights.h"
#include "daemon/ring/rx_ring.h"

#include <stdbool.h>
#include <sys/queue.h>

struct attach_point;
struct session;

struct attachment {
	LIST_ENTRY(attachment) link;
	struct ring_consumer consumer;
	struct attach_point *point;
	struct session *session; /* NULL: hung up, and on its way out */
	pid_t pid;
	uid_t uid;
	int wake_theirs; /* the client's end, until it was sent */
	int wake;
	bool served; /* the worker counts its leases, and the client was told so */
	bool remove_mailed;
	bool released; /* there is nothing left of it but what its client keeps: */
	struct kept kept;
};

/** In the point's list and the notifier's, but not the worker's yet. 0 or -errno. */
int attachment_new(struct attachment **out, struct attach_point *point, const struct peer *peer, uint32_t lease_blocks,
                   enum ibvcap_policy policy);

/** The worker does not have it, or has ended. */
void attachment_free(struct attachment *attachment);

/** The worker has given it back: it is freed, now or when its client has let go of its pages. */
void attachment_release(struct attachment *attachment);

/** Those of the point that were released, and that nobody keeps by now, are freed. */
void attachment_forget_let_go(struct attach_point *point);

/** Answer the client: WIRE_ATTACHED with its descriptors. -errno: hang up. */
int attachment_send(struct attachment *attachment);

/** WIRE_ATTACHED for a tap: the ring's descriptors, and nothing that the worker would have to know of. */
int attachment_send_tap(struct session *session, const struct attach_point *point);

#endif
