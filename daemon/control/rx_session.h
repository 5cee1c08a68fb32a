// SPDX-License-Identifier: Apache-2.0
/*
 * One consumer of a client: two pages of shared memory, a socket to be woken by, and descriptors of the ring. Control
 * thread only. Its life:
 *
 *   rx_session_new → MAIL_ADD_CONSUMER → MAIL_CONSUMER_ADDED → rx_session_send … rx_session_close →
 *   MAIL_REMOVE_CONSUMER → MAIL_CONSUMER_REMOVED → rx_session_release → (no process has the pages any more) →
 *   rx_session_free
 */
#ifndef DAEMON_CONTROL_RX_SESSION_H
#define DAEMON_CONTROL_RX_SESSION_H

#include "daemon/base/loss_span.h"
#include "daemon/control/endpoint.h"
#include "daemon/ring/rx_ring.h"

#include <stdint.h>
#include <sys/types.h>

struct rx_endpoint;
struct rx_group;

/* State of the log lines about packets that a consumer lost. */
struct rx_skips {
	struct loss_span span;
	uint64_t seen;   /* packets lost at the last look */
	uint64_t before; /* packets lost before the loss that goes on, or was the last */
};

struct rx_session {
	struct endpoint_client client;
	struct ring_consumer consumer;
	struct rx_skips skips;
	struct rx_group *group; /* that shares the queue out; NULL: none */
	int wake_theirs;        /* the client's end of the socket; -1 once it was sent */
	int wake;
	struct rx_session_remains
		*remains; /* holds its shared memory at the end; NULL: its user's thread has that already */
};

static inline struct rx_endpoint *rx_session_endpoint(const struct rx_session *rx)
{
	return (struct rx_endpoint *)rx->client.endpoint;
}

/** The session's client and the notifier know it, but not the worker. 0 or -errno. */
int rx_session_new(struct rx_session **out, struct rx_endpoint *rx_endpoint, struct session *session,
                   struct user_share *share, uint32_t lease_blocks, enum ibvcap_policy policy);

/** For endpoint_kind, too: the worker does not have it, or has ended. */
void rx_session_free(struct endpoint_client *client);

/** For endpoint_kind: disconnect the consumer and take it from the worker. */
void rx_session_close(struct endpoint_client *client);

/** Ask the worker to give the consumer back, if it was not asked yet. */
void rx_session_mail_removal(struct rx_session *rx);

/** The worker has given it back: it is freed, now or when no process has its pages any more. */
void rx_session_release(struct rx_session *rx);

/** Answer the client: PROTOCOL_ATTACHED with its descriptors. -errno: disconnect. */
int rx_session_send(struct rx_session *rx);

/** PROTOCOL_ATTACHED for a tap: descriptors of the ring, of which the worker need not know. -errno: disconnect. */
int rx_session_send_tap(struct session *session, const struct rx_endpoint *rx_endpoint);

/*
 * The last consumer that stopped a stream's queue and is lossless no longer: it was demoted, or it left. The worker
 * counts the packets that lossless consumers cost (IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS). This names the consumer, also
 * when no list of consumers does any more.
 */
struct rx_stall {
	pid_t pid; /* 0: there was none */
	uid_t uid;
	uint64_t until_ns;  /* UTC */
	uint64_t n_demoted; /* consumers, from lossless to lossy */
};

/** The worker has made the consumer lossy. Logs it. */
void rx_stall_note_demoted(struct rx_stall *stall, const struct rx_session *rx);

/** The worker has given the consumer back. No effect if it never stopped the queue, or was demoted before. */
void rx_stall_note_removed(struct rx_stall *stall, const struct rx_session *rx);

#endif
