// SPDX-License-Identifier: Apache-2.0
/*
 * One client at the control socket. A session works on at most one request at a time; further requests of the client
 * wait in its socket. The control thread does not touch the socket (connection.h). A client that does not read its
 * answers in time is disconnected. A session knows nothing of streams and channels: it hands each request to control's
 * on_request(), and before it ends it calls close() of the kind of its endpoint. Control thread only.
 */
#ifndef DAEMON_CONTROL_SESSION_H
#define DAEMON_CONTROL_SESSION_H

#include "daemon/control/connection.h"
#include "daemon/control/reply.h"
#include "daemon/control/rights.h"
#include "daemon/control/user.h"
#include "lib/ibvcap/protocol.h"

#include <ibvcap/layout.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct control;
struct endpoint;
struct endpoint_client;

/* An event that a request waits for. Other clients decide how long that takes, or the client itself. */
struct session_wait {
	bool is_for_client;                         /* which counts as idle */
	void (*abandon)(struct session_wait *wait); /* the session ends */
};

struct session {
	LIST_ENTRY(session) link;
	struct control *control;
	struct connection *connection;
	int pidfd; /* -1: the kernel gave none */
	struct peer peer;
	gid_t *groups;
	struct endpoint_client *client; /* its consumer or sender; NULL: it has none */
	const struct endpoint *tapped;  /* NULL: it is no tap */
	struct session_wait *wait;      /* NULL: it does not wait */
	enum ibvcap_disconnect
		reason;    /* told to the consumer or sender; IBVCAP_DISCONNECT_NONE: the endpoint chooses */
	bool wants_status; /* the client asked for a status, and no refresh has begun since */
	bool in_refresh;   /* the refresh that is under way answers the client */
	struct user *user;
	struct rate messages; /* of this connection */
	uint64_t asked_at_us; /* time of the last request, or of connecting */
};

/** Takes the connected socket over, also on failure. 0 or -errno. */
int session_new(struct control *control, int fd);

/** Disconnect the client and give back what it had attached or opened. Safe in on_request(). NULL is fine. */
void session_free(struct session *session);

/** Does the client receive a stream or send on a channel by this connection, or wait for a queue? */
bool session_is_in_use(const struct session *session);

/**
 * Disconnect the client because a right that it uses was taken from it; kind: "stream" or "channel"; what: the right.
 */
void session_revoke(struct session *session, const char *kind, const char *name, const char *what);

/**
 * Has the client's process ended? Another process may still have the socket open. The loop does not watch the pidfd:
 * all watches of a process are on one list, whose lock the kernel holds while it calls thousands of them.
 */
bool session_has_died(const struct session *session);

/** Disconnect the client if it uses nothing and has asked for nothing for idle_timeout_s. */
void session_close_idle(struct session *session, uint64_t now_us);

/** Send one message with descriptors, which are closed, also on failure. -errno: disconnect. */
int session_send(struct session *session, const struct protocol_header *header, const int *fds, unsigned n_fds);

/** Answer a request with PROTOCOL_ERROR; error is a negative errno. 0, or -errno: disconnect. */
int session_send_error(struct session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Answer a request with PROTOCOL_DONE. 0, or -errno: disconnect. */
int session_send_done(struct session *session, const char *text);

/** Answer a request with many messages, as fast as the client reads; takes its bytes over. -errno: disconnect. */
int session_send_reply(struct session *session, struct reply *reply);

/** The request was answered: read the next one. */
void session_resume(struct session *session);

/** The client broke a rule: count it, log it, and tell the client. Returns error, a negative errno: disconnect. */
int session_refuse(struct session *session, int error, const char *what);

#endif
