// SPDX-License-Identifier: Apache-2.0
/*
 * Where consumers come and go: what a client asks for is checked, lent to the worker by mail, and freed
 * only when the worker has given it back. Control thread only.
 */
#ifndef DAEMON_CONTROL_ATTACH_H
#define DAEMON_CONTROL_ATTACH_H

#include "daemon/control/attachment.h"
#include "daemon/control/control.h"
#include "daemon/control/notifier.h"
#include "lib/ibvcap/wire.h"

#include <stdbool.h>
#include <sys/queue.h>

struct session;

/* Where the consumers of one ring come and go. */
struct attach_point {
	struct control *control;
	struct control_ring *ring;
	uint32_t index;
	struct notifier *notifier;
	sd_event_source *outbox;
	LIST_HEAD(, attachment) attachments;
	uint32_t n_attachments; /* including those on their way out */
	uint64_t n_bad;         /* consumers put out for what they wrote */
	bool ended;             /* the worker is gone */
};

/** In place; point must not move afterwards. 0 or -errno. */
int attach_point_init(struct attach_point *point, struct control *control, uint32_t index);
/** The worker's thread has ended. Any state, also all zero. */
void attach_point_deinit(struct attach_point *point);
/** Mail again what found the mailbox full. */
void attach_point_retry(struct attach_point *point);

/** A client asks to attach; it is answered now or when the worker has answered. 0, or -errno: hang up. */
int attach_request(struct session *session, const struct wire_attach *request);

/** The client has gone: take the attachment from the worker. It is freed later. */
void attach_hang_up(struct attachment *attachment);

#endif
