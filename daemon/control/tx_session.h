// SPDX-License-Identifier: Apache-2.0
/*
 * One sender of a client: its memory, a socket for its wake-ups and an eventfd for its kicks. Control thread only. Its
 * life:
 *
 *   tx_session_new → [make] → PROTOCOL_OPENED → (PROTOCOL_MAPPED) → tx_session_lend → [seal] → MAIL_ADD_SENDER →
 *   (MAIL_SENDER_ADDED) → PROTOCOL_READY … tx_session_close → MAIL_REMOVE_SENDER → (MAIL_SENDER_REMOVED) →
 *   tx_session_free → [break] → (no process has the memory any more)
 *
 * The steps in brackets are jobs of the user's thread (user.h): they take time in proportion to the memory, and the
 * client can make them take longer. A sender whose client leaves meanwhile is freed after the job.
 */
#ifndef DAEMON_CONTROL_TX_SESSION_H
#define DAEMON_CONTROL_TX_SESSION_H

#include "daemon/base/background.h"
#include "daemon/control/endpoint.h"
#include "daemon/ring/sender.h"
#include "lib/base/failure.h"

#include <stdbool.h>
#include <stdint.h>

struct tx_endpoint;

#define TX_SESSION_CHANNEL_ENDS "channel '%s': it ends"

/* The job that has the sender at present: control does not touch the sender meanwhile. */
enum tx_session_job {
	TX_SESSION_NO_JOB,
	TX_SESSION_MAKE,  /* the memory, the socket and the eventfd */
	TX_SESSION_SEAL,  /* the memory, and register it with the device */
	TX_SESSION_BREAK, /* give everything back */
};

struct tx_session {
	struct endpoint_client client;
	struct sender sender;
	uint64_t opened_at_us;
	int theirs;         /* the client's end of the socket; -1 once it was sent */
	bool sealed;        /* the client has mapped the memory, and waits for the worker */
	bool lent;          /* the worker has it, or was asked to take it */
	bool awaits_answer; /* MAIL_SENDER_ADDED is still to come */

	enum tx_session_job doing;
	struct background_job job;
	/* For the job, which may outlive the configuration. */
	char channel[IBVCAP_CHANNEL_NAME_MAX];
	struct sender_options options;
	int result;
	struct failure failure;
};

static inline struct tx_endpoint *tx_session_endpoint(const struct tx_session *tx)
{
	return (struct tx_endpoint *)tx->client.endpoint;
}

/** The session's client; its memory is made, and the client gets its answer. 0 or -ENOMEM. */
int tx_session_new(struct session *session, struct tx_endpoint *tx_endpoint, struct user_share *share);

/** The client has mapped it: seal it, register it and mail it to the worker, or tell the client why not. */
void tx_session_lend(struct tx_session *tx);

/** For endpoint_kind, too: neither worker nor device has it: free it, now or after its job. */
void tx_session_free(struct endpoint_client *client);

/** For endpoint_kind: disconnect the sender; it is freed now, or when the worker has given it back. */
void tx_session_close(struct endpoint_client *client);

/** Mail it to the worker, or its removal, if the mailbox was full. */
void tx_session_retry(struct tx_session *tx);

/** Does it wait, since before that time, for its client to map the memory? */
bool tx_session_waits_since(const struct tx_session *tx, uint64_t us);

/** Is mail about it still to come from the worker? Until then it is not freed. */
bool tx_session_awaits_mail(const struct tx_session *tx);

#endif
