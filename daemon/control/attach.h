// SPDX-License-Identifier: Apache-2.0
/*
 * Where consumers come and go: what a client asks for is checked, lent to the worker by mail, and freed
 * only when the worker has given it back. Control thread only.
 */
#ifndef DAEMON_CONTROL_ATTACH_H
#define DAEMON_CONTROL_ATTACH_H

#include "daemon/control/account.h"
#include "daemon/control/attachment.h"
#include "daemon/control/control.h"
#include "daemon/control/loss.h"
#include "daemon/control/notifier.h"
#include "lib/ibvcap/wire.h"

#include <stdbool.h>
#include <sys/queue.h>

struct session;

/* Where the consumers of one ring come and go. */
struct attach_point {
	TAILQ_ENTRY(attach_point) link;
	struct control *control;
	const struct control_ring *ring;
	struct notifier *notifier;
	sd_event_source *outbox;
	LIST_HEAD(, attachment) attachments;
	LIST_HEAD(, account) accounts;
	uint32_t n_attachments;               /* including those on their way out */
	uint64_t n_bad;                       /* consumers put out for what they wrote */
	uint64_t n_demoted;                   /* from lossless to lossy */
	bool ended;                           /* the worker is gone */
	enum ibvcap_disconnect_reason ending; /* why it will be; IBVCAP_REASON_NONE: it will not */

	struct loss_memory loss;
	/* status.c's: the reading that the worker was mailed, if its mailbox was not full. */
	uint64_t matched_mailed;
	bool is_mailed;
};

/** In the control's list. 0 or -errno. */
int attach_point_new(struct control *control, const struct control_ring *ring);
/** The worker's thread has ended, or never ran. */
void attach_point_free(struct attach_point *point);
/** Tell the consumers why it will end; attach no more. */
void attach_point_end(struct attach_point *point, enum ibvcap_disconnect_reason reason);
/** Hang up on its consumers: the worker has ended. */
void attach_point_hang_up(struct attach_point *point);
/** The epoch of its ring. */
uint64_t attach_point_epoch(const struct attach_point *point);
/** Mail again what found the mailbox full. */
void attach_point_retry(struct attach_point *point);

/** A client asks to attach; it is answered now or when the worker has answered. 0, or -errno: hang up. */
int attach_request(struct session *session, const struct wire_attach *request);

/** The client has gone: take the attachment from the worker. It is freed later. */
void attach_hang_up(struct attachment *attachment);

#endif
