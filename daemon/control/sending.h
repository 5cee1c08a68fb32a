// SPDX-License-Identifier: Apache-2.0
/*
 * One sender that a client has: its memory, a socket for kicks and wake-ups, and whose it is at present. Control thread
 * only.
 *
 *   sending_new → WIRE_OPENED → (WIRE_MAPPED) → sending_lend → (MAIL_SENDER_ADDED) → WIRE_READY …
 *   → sending_hang_up → (MAIL_SENDER_REMOVED) → sending_free
 */
#ifndef DAEMON_CONTROL_SENDING_H
#define DAEMON_CONTROL_SENDING_H

#include "daemon/base/fault.h"
#include "daemon/control/rights.h"
#include "daemon/ring/sender.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct channel_point;
struct session;

struct sending {
	LIST_ENTRY(sending) link;
	struct sender sender;
	struct channel_point *point;
	struct session *session; /* NULL: hung up, and on its way out */
	pid_t pid;
	uid_t uid;
	uint64_t opened_at_us;
	int theirs;	    /* the client's end of the socket, until it was sent */
	bool lent;	    /* to the worker, or the worker was asked to take it */
	bool served;	    /* the worker has taken it, and the client was told so */
	bool awaits_answer; /* MAIL_SENDER_ADDED is to come */
	bool remove_mailed; /* MAIL_SENDER_REMOVED is to come */
};

/** In the point's list. Fault: what there is too little of, and the command to get it. */
int sending_new(struct sending **sending, struct channel_point *point, const struct peer *peer, struct fault *fault);

/** Neither worker nor device has it. Its memory goes when no wake of it is under way any more. */
void sending_free(struct sending *sending);

/** WIRE_OPENED with its descriptors. -errno: hang up. */
int sending_send_opened(struct sending *sending);

/** The client has mapped it: seal, register, and mail it to the worker. On failure it is as before. */
int sending_lend(struct sending *sending, struct fault *fault);

/** The client has gone: nothing more is taken of it. It is freed now, or when the worker has given it back. */
void sending_hang_up(struct sending *sending);

/** Mail its removal again, if the mailbox was full. */
void sending_retry(struct sending *sending);

/** Is the worker still to say something of it? Until then it is not freed. */
bool sending_awaits_mail(const struct sending *sending);

#endif
