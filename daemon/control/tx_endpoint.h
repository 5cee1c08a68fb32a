// SPDX-License-Identifier: Apache-2.0
/*
 * A channel as control offers it to senders, and the transmit worker that serves it. A sender that a client asks for is
 * checked, its memory is made and sealed, it is lent to the worker by mail, and it is freed only when the worker has
 * given it back. All channels of an interface have one worker, and with it one mailbox and one notifier. Control thread
 * only.
 */
#ifndef DAEMON_CONTROL_TX_ENDPOINT_H
#define DAEMON_CONTROL_TX_ENDPOINT_H

#include "daemon/control/control.h"
#include "daemon/control/endpoint.h"
#include "daemon/control/notifier.h"
#include "lib/ibvcap/protocol.h"

#include <stdbool.h>
#include <sys/queue.h>

struct tx_worker_endpoint {
	TAILQ_ENTRY(tx_worker_endpoint) link;
	struct control *control;
	struct control_tx_worker *worker;
	struct notifier *notifier;
	sd_event_source *outbox;
	bool ended; /* the worker is gone: everything that it had is control's */
};

struct tx_endpoint {
	struct endpoint endpoint;
	TAILQ_ENTRY(tx_endpoint) link;
	struct tx_worker_endpoint *worker;
	struct control_channel *channel;
};

/**
 * The worker has nothing of the channel any more: free the memory of all senders, except those of which mail is still
 * to come. users_drain() waits for it.
 */
void tx_endpoint_take_all(struct tx_endpoint *tx_endpoint);
/**
 * At each tick: mail again what found the mailbox full; disconnect clients that do not map the memory that they got.
 */
void tx_endpoint_tick(struct tx_endpoint *tx_endpoint, uint64_t now_us);

/** A client wants to send; it is answered now, or when its memory is made. 0, or -errno: disconnect. */
int tx_endpoint_open(struct session *session, const struct protocol_open_channel *request);

/** The client has mapped its memory; it is answered when the worker has answered. 0, or -errno: disconnect. */
int tx_endpoint_mapped(struct session *session);

#endif
