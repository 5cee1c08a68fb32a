// SPDX-License-Identifier: Apache-2.0
/*
 * One sender that a client has: its memory, a socket for kicks and wake-ups, and whose it is at present. Control thread
 * only.
 *
 *   tx_session_new → [make] → PROTOCOL_OPENED → (PROTOCOL_MAPPED) → tx_session_lend → [seal] → (MAIL_SENDER_ADDED) → PROTOCOL_READY …
 *   → tx_session_hang_up → (MAIL_SENDER_REMOVED) → tx_session_free → [break] → (its client keeps the memory no more)
 *
 * What is in brackets takes its time, and is done in the background; who hangs up meanwhile is freed after that.
 */
#ifndef DAEMON_CONTROL_SENDING_H
#define DAEMON_CONTROL_SENDING_H

#include "daemon/base/failure.h"
#include "daemon/control/retained_memory.h"
#include "daemon/base/background.h"
#include "daemon/ring/sender.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct tx_endpoint;
struct session;

#define TX_SESSION_CHANNEL_ENDS "channel '%s': it ends"

/* What its job is at present; the sender is not to be touched meanwhile. */
enum tx_session_job {
	TX_SESSION_NO_JOB,
	TX_SESSION_MAKE,     /* its memory */
	TX_SESSION_SEAL,     /* it, and let the device read it */
	TX_SESSION_BREAK,    /* give it all back */
	TX_SESSION_RETAINED, /* none: there is nothing left of it but what its client keeps */
};

struct tx_session {
	LIST_ENTRY(tx_session) link;
	struct sender sender;
	struct tx_endpoint *endpoint;
	struct session *session; /* NULL: hung up, and on its way out */
	pid_t pid;
	uid_t uid;
	uint64_t opened_at_us;
	int theirs;         /* the client's end of the socket, until it was sent */
	bool sealed;        /* its client has mapped it, and waits for the worker */
	bool lent;          /* to the worker, or the worker was asked to take it */
	bool served;        /* the worker has taken it, and the client was told so */
	bool awaits_answer; /* MAIL_SENDER_ADDED is to come */
	bool remove_mailed; /* MAIL_SENDER_REMOVED is to come */
	struct retained_memory retained;

	enum tx_session_job doing;
	struct background_job job;
	/* The job's, and what it needs of a configuration that may be gone by then. */
	char channel[IBVCAP_CHANNEL_NAME_MAX];
	struct sender_options options;
	int result;
	struct failure failure;
};

/** In the point's list; the memory is made, and the client is told. 0 or -ENOMEM. */
int tx_session_new(struct session *session, struct tx_endpoint *endpoint);

/** The client has mapped it: it is sealed, registered and mailed to the worker, or the client told why not. */
void tx_session_lend(struct tx_session *tx);

/** Neither worker nor device has it, or will: it is gone as soon as may be, a kept one if its client has let go. */
void tx_session_free(struct tx_session *tx);

/** Mail it to the worker, or its removal, if the mailbox was full. */
void tx_session_retry(struct tx_session *tx);

/** Has it been opened, and waits for its client to map it, since before then? */
bool tx_session_waits_since(const struct tx_session *tx, uint64_t us);

/** Is the worker still to say something of it? Until then it is not freed. */
bool tx_session_awaits_mail(const struct tx_session *tx);

#endif
