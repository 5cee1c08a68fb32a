// SPDX-License-Identifier: Apache-2.0
/*
 * What one attached client has: two pages, a socket to be woken by, and descriptors of the ring. Control thread only.
 *
 *   rx_session_new → MAIL_CONSUMER_ADDED → rx_session_send … rx_session_release → (its client keeps the pages no more)
 *   → rx_session_free
 */
#ifndef DAEMON_CONTROL_ATTACHMENT_H
#define DAEMON_CONTROL_ATTACHMENT_H

#include "daemon/control/retained_memory.h"
#include "daemon/control/rights.h"
#include "daemon/ring/rx_ring.h"

#include <stdbool.h>
#include <sys/queue.h>

struct rx_endpoint;
struct session;

struct rx_session {
	LIST_ENTRY(rx_session) link;
	struct ring_consumer consumer;
	struct rx_endpoint *endpoint;
	struct session *session; /* NULL: hung up, and on its way out */
	pid_t pid;
	uid_t uid;
	int wake_theirs; /* the client's end, until it was sent */
	int wake;
	bool served; /* the worker counts its leases, and the client was told so */
	bool remove_mailed;
	bool released; /* there is nothing left of it but what its client keeps: */
	struct retained_memory retained;
};

/** In the point's list and the notifier's, but not the worker's yet. 0 or -errno. */
int rx_session_new(struct rx_session **out, struct rx_endpoint *endpoint, const struct peer *peer,
                   uint32_t lease_blocks, enum ibvcap_policy policy);

/** The worker does not have it, or has ended. */
void rx_session_free(struct rx_session *rx);

/** For session.on_close: take the consumer from the worker; the rx_session is freed when the worker gave it back. */
void rx_session_hang_up(struct session *session);

/** Ask the worker for the consumer, if it was not asked yet; a full mailbox is tried again at the next tick. */
void rx_session_mail_removal(struct rx_session *rx);

/** The worker has given it back: it is freed, now or when its client has let go of its pages. */
void rx_session_release(struct rx_session *rx);

/** Those of the point that were released, and that nobody keeps by now, are freed. */
void rx_endpoint_free_retained(struct rx_endpoint *endpoint);

/** Answer the client: PROTOCOL_ATTACHED with its descriptors. -errno: hang up. */
int rx_session_send(struct rx_session *rx);

/** PROTOCOL_ATTACHED for a tap: the ring's descriptors, and nothing that the worker would have to know of. */
int rx_session_send_tap(struct session *session, const struct rx_endpoint *endpoint);

#endif
