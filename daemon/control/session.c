// SPDX-License-Identifier: Apache-2.0
/*
 * Takes a client's requests one by one, within the limits on messages, and answers them. Ends when the client leaves,
 * dies, breaks a rule or does not read.
 */
#include "daemon/control/session.h"

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/control/endpoint.h"
#include "daemon/control/id_name.h"
#include "daemon/control/peer.h"
#include "daemon/control/server.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUPS_AT_CONNECT 1024 /* read before a client is counted */

/* Places beyond max_clients for root and the daemon's user: other clients cannot lock the administrator out. */
#define RESERVED_CLIENTS 8

/* ---- sending ------------------------------------------------------------------------------------- */

int session_send(struct session *session, const struct protocol_header *header, const int *fds, unsigned n_fds)
{
	struct reply reply = {0};
	int r = reply_append(&reply, header);

	/* An empty reply sends nothing: it only closes the descriptors. */
	return connection_send(session->connection, &reply, fds, n_fds) < 0 ? -ENOMEM : r;
}

int session_send_error(struct session *session, int error, const char *format, ...)
{
	struct protocol_error message = {.error = error};
	va_list arguments;

	protocol_init(&message.header, PROTOCOL_ERROR, sizeof(message));
	va_start(arguments, format);
	vsnprintf(message.text, sizeof(message.text), format, arguments);
	va_end(arguments);
	session_resume(session);
	return session_send(session, &message.header, NULL, 0);
}

void session_resume(struct session *session)
{
	connection_receive(session->connection);
}

int session_send_reply(struct session *session, struct reply *reply)
{
	session_resume(session);
	return connection_send(session->connection, reply, NULL, 0);
}

/* ---- receiving ----------------------------------------------------------------------------------- */

/* Counts the client as one that is disconnected because it broke a rule. */
static void log_refusal(struct session *session, const char *what)
{
	struct control *control = session->control;

	if (loop_should_log(++control->n_malformed))
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_CLIENT_BAD,
		                                .peer = "CLIENT",
		                                .pid = session->peer.pid,
		                                .uid = session->peer.uid},
		            "control socket: hung up on process %d of user %s: %s (%llu so far)",
		            (int)session->peer.pid, id_of_user(session->peer.uid).text, what,
		            (unsigned long long)control->n_malformed);
}

/* Counts one connection or request of the payer. root has no limit. */
static bool is_user_over_limit(struct session *session)
{
	const struct config *config = session->control->options.config;

	return rate_exceeds(&session->user->messages, loop_now_us(session->control->options.event),
	                    config->max_messages_per_s_per_user) &&
	       !payer_is_root(&session->user->payer);
}

/* Counts the client as one that exceeds a limit of the configuration, and tells it so. Returns -EAGAIN: disconnect. */
static int refuse_over_limit(struct session *session, const char *what, const char *remedy)
{
	log_refusal(session, what);
	session_send_error(session, -EAGAIN, "%s; ask the administrator to raise it%s in %s", what, remedy,
	                   session->control->options.config->file);
	return -EAGAIN;
}

/* Refuses a client because its payer is over a limit. exceeded: the things that key limits. */
static int refuse_payer(struct session *session, const char *exceeded, const char *key)
{
	struct payer_text payer = payer_describe(&session->user->payer, session->peer.uid);
	char what[288];

	snprintf(what, sizeof(what), "%s has more %s than %s allows", payer.who, exceeded, key);
	return refuse_over_limit(session, what, payer.remedy);
}

/* Counts a request. 0, or -EAGAIN: it exceeds a limit, and the client was told so. */
static int count_request(struct session *session)
{
	const struct config *config = session->control->options.config;
	uint64_t now_us = loop_now_us(session->control->options.event);

	session->asked_at_us = now_us;
	if (rate_exceeds(&session->messages, now_us, config->max_messages_per_s))
		return refuse_over_limit(session, "more messages a second than max_messages_per_s allows", "");
	if (is_user_over_limit(session))
		return refuse_payer(session, "connections and messages a second", "max_messages_per_s_per_user");
	return 0;
}

int session_refuse(struct session *session, int error, const char *what)
{
	log_refusal(session, what);
	session_send_error(session, error, "%s", what);
	return error;
}

int session_send_done(struct session *session, const char *text)
{
	struct protocol_done done = {0};

	protocol_init(&done.header, PROTOCOL_DONE, sizeof(done));
	snprintf(done.text, sizeof(done.text), "%s", text);
	session_resume(session);
	return session_send(session, &done.header, NULL, 0);
}

/* Until session_resume(), only a disconnect comes. */
static void on_session_event(void *context, int result, const union protocol_message *message)
{
	struct session *session = context;
	int r = -ECONNRESET;

	if (result == 1)
		r = count_request(session);
	if (r == 0)
		r = session->control->on_request(session, message);
	else if (result == -EPROTO)
		r = session_refuse(session, result, "a malformed message");
	if (r < 0)
		session_free(session);
}

bool session_is_in_use(const struct session *session)
{
	return session->client || session->tapped || session->wait;
}

void session_revoke(struct session *session, const char *kind, const char *name, const char *what)
{
	log_message(LOG_INFO,
	            &(struct log_about){.event = LOG_EVENT_RIGHTS_LOST,
	                                .peer = "CLIENT",
	                                .pid = session->peer.pid,
	                                .uid = session->peer.uid},
	            "%s '%s': process %d of user %s may not %s any more: disconnected", kind, name,
	            (int)session->peer.pid, id_of_user(session->peer.uid).text, what);
	session->reason = IBVCAP_DISCONNECT_RIGHTS;
	session_free(session);
}

bool session_has_died(const struct session *session)
{
	struct pollfd process = {.fd = session->pidfd, .events = POLLIN};

	return session->pidfd >= 0 && poll(&process, 1, 0) > 0;
}

void session_close_idle(struct session *session, uint64_t now_us)
{
	const struct config *config = session->control->options.config;
	bool waits = session->wants_status || session->in_refresh || connection_is_sending(session->connection) ||
	             session->control->reconfiguring == session;

	if ((session_is_in_use(session) && !(session->wait && session->wait->is_for_client)) || waits ||
	    now_us - session->asked_at_us < config->idle_timeout_s * UINT64_C(1000000))
		return;
	session_send_error(session, -ETIMEDOUT, "neither attached nor asked anything for %u s (idle_timeout_s)",
	                   config->idle_timeout_s);
	session_free(session);
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* All clients together. */
static int refuse_for_want_of_place(struct session *session)
{
	struct control *control = session->control;
	const struct config *config = control->options.config;

	session_send_error(session, -EAGAIN,
	                   "all %u clients the daemon is configured for (max_clients) are connected; try again, or ask "
	                   "the administrator to raise it in %s",
	                   config->max_clients, config->file);
	if (loop_should_log(++control->n_refused))
		log_message(LOG_WARNING, &(struct log_about){.event = LOG_EVENT_CLIENT_REFUSED},
		            "control socket: a client was refused, max_clients = %u are connected (%llu so far)",
		            config->max_clients, (unsigned long long)control->n_refused);
	return -EAGAIN;
}

/* Refuses the client before its first request if the daemon or the payer is over a limit. */
static int admit(struct session *session)
{
	const struct config *config = session->control->options.config;
	const struct user *user = session->user;
	bool may_change = rights_to_change(&session->peer, geteuid());

	if (user->users->n_sessions > config->max_clients + (may_change ? RESERVED_CLIENTS : 0))
		return refuse_for_want_of_place(session);
	if (user->n_sessions > config->max_clients_per_user && !payer_is_root(&user->payer))
		return refuse_payer(session, "connections", "max_clients_per_user");
	if (is_user_over_limit(session))
		return refuse_payer(session, "connections and messages a second", "max_messages_per_s_per_user");
	return 0;
}

/*
 * Cheap checks first: a client that connects again and again is refused before the expensive calls. So this ignores the
 * groups of a client that has more than GROUPS_AT_CONNECT: unless its user is named, its payer is PAYER_UNNAMED.
 */
static int identify_client(struct session *session, int fd)
{
	struct control *control = session->control;
	struct payer payer;
	int r = peer_read(fd, &session->peer);

	if (r == 0)
		r = peer_read_groups(fd, &session->peer, &session->groups, GROUPS_AT_CONNECT);
	if (r < 0)
		return r;
	payer = rights_payer(control->options.config, &session->peer, geteuid());
	session->user = user_enter(&control->users, &payer);
	if (!session->user)
		return -ENOMEM;
	if (!user_is_swamped(session->user))
		return 0;
	user_leave(session->user, false);
	return -EBUSY;
}

static int connect_session(struct session *session, int fd)
{
	int r = admit(session);

	if (r < 0) {
		connection_refuse(session->connection);
		return r;
	}
	if (!session->groups)
		r = peer_read_groups(fd, &session->peer, &session->groups, UINT32_MAX);
	if (r < 0)
		return r;
	session->pidfd = peer_open_pidfd(fd, &session->peer);
	session_resume(session);
	return 0;
}

static int make_session(struct session **out, struct control *control, int fd)
{
	struct session *session = calloc(1, sizeof(*session));
	int r;

	if (!session)
		return -ENOMEM;
	session->control = control;
	session->pidfd = -1;
	session->asked_at_us = loop_now_us(control->options.event);
	r = identify_client(session, fd);
	if (r < 0) {
		free(session->groups);
		free(session);
		return r;
	}
	LIST_INSERT_HEAD(&control->sessions, session, link);
	*out = session;
	return 0;
}

int session_new(struct control *control, int fd)
{
	struct session *session;
	int r = make_session(&session, control, fd);

	if (r < 0) {
		dropped_sockets_add(&control->dropped, fd); /* no user's thread is to close it */
		return r;
	}
	r = connection_new(&session->connection, session->user, fd, on_session_event, session);
	if (r < 0) {
		user_leave(session->user, false);
		dropped_sockets_add(&control->dropped, fd);
	} else {
		r = connect_session(session, fd);
	}
	log_debug("control socket: process %d of user %u: %s", (int)session->peer.pid, (unsigned)session->peer.uid,
	          r < 0 ? strerror(-r) : "connected");
	if (r < 0)
		session_free(session);
	return r < 0 ? r : 0;
}

void session_free(struct session *session)
{
	if (!session)
		return;
	log_debug("control socket: process %d of user %u: disconnected", (int)session->peer.pid,
	          (unsigned)session->peer.uid);
	LIST_REMOVE(session, link);
	if (session->control->reconfiguring == session)
		session->control->reconfiguring = NULL;
	if (session->client)
		session->client->endpoint->kind->close(session->client);
	if (session->wait)
		session->wait->abandon(session->wait);
	if (session->pidfd >= 0)
		close(session->pidfd);
	connection_close(session->connection);
	free(session->groups);
	free(session);
}
