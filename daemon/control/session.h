// SPDX-License-Identifier: Apache-2.0
/*
 * One client's connection. It has at most one request at work: what it sends meanwhile waits in its
 * socket. Nothing is ever sent with blocking; a client that does not read is hung up.
 */
#ifndef DAEMON_CONTROL_SESSION_H
#define DAEMON_CONTROL_SESSION_H

#include "daemon/control/readers.h"
#include "daemon/control/reply.h"
#include "daemon/control/rights.h"
#include "daemon/control/users.h"
#include "lib/ibvcap/protocol.h"

#include <ibvcap/layout.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct rx_endpoint;
struct rx_session;
struct control;
struct tx_session;

struct session {
	LIST_ENTRY(session) link;
	struct control *control;
	int fd;
	int pidfd; /* -1: none could be had */
	struct peer peer;
	gid_t *groups;
	sd_event_source *io;
	sd_event_source *death;
	sd_event_source *overdue; /* armed while a reply waits for the client to read */
	struct rx_session *rx;
	enum ibvcap_disconnect
		reason;         /* to put its consumer or sender out; IBVCAP_DISCONNECT_NONE: the ordinary ones */
	uint32_t reader;        /* its place among those who were given a ring; 0: none */
	enum reader_end ending; /* how it came, if not by us, that it ends */
	struct tx_session *tx;  /* NULL: it has no channel open */
	const struct rx_endpoint *tapped; /* NULL: none; it has no attachment then */
	struct reply reply;
	bool wants_status; /* asked, and its refresh is not begun */
	bool in_refresh;   /* asked, and waits for the refresh that is at work */
	struct user *user; /* NULL: it came no further */
	struct rate messages;
	uint64_t asked_at_us; /* when it last sent something, or came */
};

/** Takes the connected socket over, also on failure. 0 or -errno. */
int session_new(struct control *control, int fd);

/** Hang up; gives the attachment back. Safe from the session's own handlers. NULL is fine. */
void session_free(struct session *session);

/** Hang up if it may no longer do what it is attached for. */
void session_hang_up_unentitled(struct session *session);

/** Hang up if it has neither attached nor opened nor asked anything for idle_timeout_s. */
void session_hang_up_idle(struct session *session, uint64_t now_us);

/** Send one message now. -errno: hang up. */
int session_send(struct session *session, const struct protocol_header *header, const int *fds, unsigned n_fds);

/** Answer a request with PROTOCOL_ERROR; error is a negative errno. 0, or -errno: hang up. */
int session_send_error(struct session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** How the change that it asked for ended. 0, or -errno: hang up. */
int session_send_changed(struct session *session, int error, const char *text);

/** Send a reply of many messages as fast as the client reads; takes its bytes over. -errno: hang up. */
int session_send_reply(struct session *session, struct reply *reply);

/** The request at work was answered: read the next. */
void session_resume(struct session *session);

/** Handle one checked message; 0, or -errno: hang up. The fuzzer's way in. */
int session_handle(struct session *session, const union protocol_message *message);

#endif
