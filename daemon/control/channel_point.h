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
#include "daemon/control/preparer.h"
#include "daemon/control/sending.h"
#include "lib/ibvcap/wire.h"

#include <stdbool.h>
#include <sys/queue.h>

struct session;

/* One transmit worker. */
struct transmit_point {
	TAILQ_ENTRY(transmit_point) link;
	struct control *control;
	const struct control_transmit *transmit;
	struct notifier *notifier;
	struct preparer *preparer;
	sd_event_source *outbox;
	bool ended; /* the worker is gone: all it had is control's */
};

/* One channel. */
struct channel_point {
	TAILQ_ENTRY(channel_point) link;
	struct transmit_point *transmit;
	const struct control_channel *channel;
	LIST_HEAD(, sending) sendings;
	uint32_t n_sendings;                  /* including those on their way out */
	uint64_t n_bad;                       /* senders put out for what they wrote */
	bool ended;                           /* the worker has it and its senders no more */
	enum ibvcap_disconnect_reason ending; /* why it will be, or has; IBVCAP_REASON_NONE: it will not */
};

/** In the control's list. 0 or -errno. */
int transmit_point_new(struct control *control, const struct control_transmit *transmit);
/** Its channels' points are gone, and the worker's thread has ended, or never ran. */
void transmit_point_free(struct transmit_point *point);

/** In the control's list. 0 or -errno. */
int channel_point_new(struct transmit_point *transmit, const struct control_channel *channel);
/** The worker and its thread have ended: everything is taken from all senders, and that is waited for. */
void channel_point_take_all(struct channel_point *point);
/** It has no sender. */
void channel_point_free(struct channel_point *point);
/** No more senders. */
void channel_point_end(struct channel_point *point, enum ibvcap_disconnect_reason reason);
/** Senders that have left, and whose memory nobody keeps by now, are gone. */
void channel_point_forget_let_go(struct channel_point *point);
/** Every now and then: mail again what found the mailbox full; hang up on who does not map what it was given. */
void channel_point_tick(struct channel_point *point, uint64_t now_us);

/** A client wants to send; it is answered now or when its memory is made. 0, or -errno: hang up. */
int channel_open_request(struct session *session, const struct wire_open_channel *request);

/** It has mapped its memory; it is answered when the worker has answered. 0, or -errno: hang up. */
int channel_mapped_request(struct session *session);

#endif
