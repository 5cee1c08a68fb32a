// SPDX-License-Identifier: Apache-2.0
/*
 * Where senders come and go: what a client asks for is checked, lent to the worker by mail, and freed only when the
 * worker has given it back. All channels of an interface have one worker, and with it one mailbox and one notifier.
 * Control thread only.
 */
#ifndef DAEMON_CONTROL_CHANNEL_POINT_H
#define DAEMON_CONTROL_CHANNEL_POINT_H

#include "daemon/control/control.h"
#include "daemon/control/notifier.h"
#include "daemon/base/background.h"
#include "daemon/control/tx_session.h"
#include "lib/ibvcap/protocol.h"

#include <stdbool.h>
#include <sys/queue.h>

struct session;

/* One transmit worker. */
struct tx_worker_endpoint {
	TAILQ_ENTRY(tx_worker_endpoint) link;
	struct control *control;
	const struct control_tx_worker *worker;
	struct notifier *notifier;
	struct background *memory;
	sd_event_source *outbox;
	bool ended; /* the worker is gone: all it had is control's */
};

/* One channel. */
struct tx_endpoint {
	TAILQ_ENTRY(tx_endpoint) link;
	struct tx_worker_endpoint *worker;
	const struct control_channel *channel;
	LIST_HEAD(, tx_session) sessions;
	uint32_t n_sessions;           /* including those on their way out */
	uint64_t n_bad;                /* senders put out for what they wrote */
	bool ended;                    /* the worker has it and its senders no more */
	enum ibvcap_disconnect ending; /* why it will be, or has; IBVCAP_DISCONNECT_NONE: it will not */
};

/** In the control's list. 0 or -errno. */
int tx_worker_endpoint_new(struct control *control, const struct control_tx_worker *worker);
/** Its channels' points are gone, and the worker's thread has ended, or never ran. */
void tx_worker_endpoint_free(struct tx_worker_endpoint *endpoint);

/** In the control's list. 0 or -errno. */
int tx_endpoint_new(struct tx_worker_endpoint *worker, const struct control_channel *channel);
/** The worker and its thread have ended: everything is taken from all senders, and that is waited for. */
void tx_endpoint_take_all(struct tx_endpoint *endpoint);
/** It has no sender. */
void tx_endpoint_free(struct tx_endpoint *endpoint);
/** No more senders. */
void tx_endpoint_end(struct tx_endpoint *endpoint, enum ibvcap_disconnect reason);
/** Senders that have left, and whose memory nobody keeps by now, are gone. */
void tx_endpoint_free_retained(struct tx_endpoint *endpoint);
/** Every now and then: mail again what found the mailbox full; hang up on who does not map what it was given. */
void tx_endpoint_tick(struct tx_endpoint *endpoint, uint64_t now_us);

/** Disconnect the client if it may no longer send on the channel, by the present configuration. */
void tx_endpoint_check_rights(struct session *session);

/** A client wants to send; it is answered now or when its memory is made. 0, or -errno: hang up. */
int tx_endpoint_open(struct session *session, const struct protocol_open_channel *request);

/** It has mapped its memory; it is answered when the worker has answered. 0, or -errno: hang up. */
int tx_endpoint_mapped(struct session *session);

#endif
