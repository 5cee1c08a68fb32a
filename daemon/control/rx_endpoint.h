// SPDX-License-Identifier: Apache-2.0
/*
 * One queue of a stream as control offers it to consumers. A consumer that a client asks for is checked, lent to the
 * queue's worker by mail, and freed only when the worker has given it back. Control thread only.
 */
#ifndef DAEMON_CONTROL_RX_ENDPOINT_H
#define DAEMON_CONTROL_RX_ENDPOINT_H

#include "daemon/control/control.h"
#include "daemon/control/endpoint.h"
#include "daemon/control/loss.h"
#include "daemon/control/notifier.h"
#include "daemon/control/rx_stall.h"
#include "lib/ibvcap/protocol.h"

#include <stdbool.h>
#include <sys/queue.h>

struct rx_endpoint {
	struct endpoint endpoint;
	TAILQ_ENTRY(rx_endpoint) link;
	const struct control_stream *stream;
	struct notifier *notifier;
	sd_event_source *outbox;
	sd_event_source *over_budget;
	struct rx_stall stall;
	LIST_HEAD(, rx_group) groups; /* of the stream's first queue: of the whole stream */

	struct loss_memory loss;
	bool has_failed;        /* the device's queue, so that the worker has ended */
	bool is_matched_mailed; /* the worker knows the last reading, or gets it by mail */
};

/** Adds it to control's list. 0 or -errno. */
int rx_endpoint_new(struct control *control, const struct control_stream *stream);
/** The worker's thread has ended, or never ran. */
void rx_endpoint_free(struct rx_endpoint *rx_endpoint);
/** Tell the consumers why the stream will end; accept no more of them. */
void rx_endpoint_end(struct rx_endpoint *rx_endpoint, enum ibvcap_disconnect reason);
/** Disconnect its consumers and taps: the worker has ended. */
void rx_endpoint_hang_up(struct rx_endpoint *rx_endpoint);
/** Mail again the removals that found the mailbox full. */
void rx_endpoint_retry(struct rx_endpoint *rx_endpoint);

/** Mail the last reading of the flow counter to the worker, unless that was done. False: its mailbox is full. */
bool rx_endpoint_mail_matched(struct rx_endpoint *rx_endpoint);
/** Has the worker accounted for all packets that the last reading of the flow counter counted? */
bool rx_endpoint_is_settled(const struct rx_endpoint *rx_endpoint);

/** A client asks to attach; it is answered now, or when the worker has answered. 0, or -errno: disconnect. */
int rx_endpoint_attach(struct session *session, const struct protocol_attach *request);

#endif
