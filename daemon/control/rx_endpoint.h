// SPDX-License-Identifier: Apache-2.0
/*
 * Where consumers come and go: what a client asks for is checked, lent to the worker by mail, and freed
 * only when the worker has given it back. Control thread only.
 */
#ifndef DAEMON_CONTROL_ATTACH_H
#define DAEMON_CONTROL_ATTACH_H

#include "daemon/control/account.h"
#include "daemon/control/rx_session.h"
#include "daemon/control/control.h"
#include "daemon/control/loss.h"
#include "daemon/control/notifier.h"
#include "lib/ibvcap/protocol.h"

#include <stdbool.h>
#include <sys/queue.h>

struct session;

/* Where the consumers of one ring come and go. */
struct rx_endpoint {
	TAILQ_ENTRY(rx_endpoint) link;
	struct control *control;
	const struct control_stream *stream;
	struct notifier *notifier;
	sd_event_source *outbox;
	LIST_HEAD(, rx_session) sessions;
	LIST_HEAD(, account) accounts;
	uint32_t n_sessions;           /* including those on their way out */
	uint64_t n_bad;                /* consumers put out for what they wrote */
	uint64_t n_demoted;            /* from lossless to lossy */
	bool ended;                    /* the worker is gone */
	enum ibvcap_disconnect ending; /* why it will be; IBVCAP_DISCONNECT_NONE: it will not */

	struct loss_memory loss;
	/* status.c's: the reading that the worker was mailed, if its mailbox was not full. */
	uint64_t matched_mailed;
	bool is_mailed;
};

/** In the control's list. 0 or -errno. */
int rx_endpoint_new(struct control *control, const struct control_stream *stream);
/** The worker's thread has ended, or never ran. */
void rx_endpoint_free(struct rx_endpoint *endpoint);
/** Tell the consumers why it will end; attach no more. */
void rx_endpoint_end(struct rx_endpoint *endpoint, enum ibvcap_disconnect reason);
/** Hang up on its consumers: the worker has ended. */
void rx_endpoint_hang_up(struct rx_endpoint *endpoint);
/** Mail again what found the mailbox full. */
void rx_endpoint_retry(struct rx_endpoint *endpoint);

/** A client asks to attach; it is answered now or when the worker has answered. 0, or -errno: hang up. */
int rx_endpoint_attach(struct session *session, const struct protocol_attach *request);

/** Disconnect the client if it may no longer receive the stream, or no longer be lossless, by the present configuration. */
void rx_endpoint_check_rights(struct session *session);

#endif
