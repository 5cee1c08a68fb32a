// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a client's requests one by one, within the limits on messages, and sends answers without blocking. Closes the
 * connection when the client leaves, dies, breaks a rule or does not read.
 */
#include "daemon/control/session.h"

#include "daemon/base/log.h"
#include "daemon/control/endpoint.h"
#include "daemon/control/peer.h"
#include "daemon/control/loop.h"
#include "daemon/control/server.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define OVERDUE_US UINT64_C(5000000) /* a client that reads a reply more slowly is disconnected */

/* ---- sending ------------------------------------------------------------------------------------- */

int session_send(struct session *session, const struct protocol_header *header, const int *fds, unsigned n_fds)
{
	return protocol_send(session->fd, header, fds, n_fds);
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
	if (session->io) /* NULL: the client was refused before its socket was watched */
		sd_event_source_set_io_events(session->io, EPOLLIN);
}

static int flush_on(struct session *session)
{
	int r = reply_flush(&session->reply, session->fd);

	if (r < 0)
		return r;
	sd_event_source_set_io_events(session->io, r ? EPOLLIN : EPOLLOUT);
	if (r)
		sd_event_source_set_enabled(session->overdue, SD_EVENT_OFF);
	return 0;
}

int session_send_reply(struct session *session, struct reply *reply)
{
	session->reply = *reply;
	*reply = (struct reply){0};
	loop_arm(session->overdue, OVERDUE_US);
	return flush_on(session);
}

/* ---- receiving ----------------------------------------------------------------------------------- */

/* Counts one connection or request of the user. root has no limit. */
static bool is_user_over_limit(struct session *session)
{
	const struct config *config = session->control->options.config;

	return rate_exceeds(&session->user->messages, loop_now_us(session->control->options.event),
	                    config->max_messages_per_s_per_user) &&
	       session->peer.uid != 0;
}

/* Counts a request. Returns the limit that it exceeds, or NULL. */
static const char *over_limit(struct session *session)
{
	uint64_t now_us = loop_now_us(session->control->options.event);

	session->asked_at_us = now_us;
	if (rate_exceeds(&session->messages, now_us, session->control->options.config->max_messages_per_s))
		return "more messages a second than max_messages_per_s allows";
	if (is_user_over_limit(session))
		return "more connections and messages a second than max_messages_per_s_per_user allows";
	return NULL;
}

int session_refuse(struct session *session, int error, const char *what)
{
	struct control *control = session->control;

	if (loop_should_log(++control->n_malformed))
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_CLIENT_BAD,
		                                .peer = "CLIENT",
		                                .pid = session->peer.pid,
		                                .uid = session->peer.uid},
		            "control socket: %s from process %d of user %u: hung up (%llu so far)", what,
		            (int)session->peer.pid, (unsigned)session->peer.uid,
		            (unsigned long long)control->n_malformed);
	session_send_error(session, error, "%s%s%s", what,
	                   error == -EAGAIN ? "; the administrator can raise it in " : "",
	                   error == -EAGAIN ? control->options.config->file : "");
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

static int session_receive(struct session *session)
{
	union protocol_message message;
	unsigned n_fds = 0;
	const char *what;
	int r = protocol_recv(session->fd, &message, NULL, &n_fds);

	if (r == -EAGAIN)
		return 0;
	if (r == 0)
		return -ECONNRESET;
	if (r == -EPROTO)
		return session_refuse(session, r, "a malformed message");
	if (r < 0)
		return r;
	what = over_limit(session);
	if (what)
		return session_refuse(session, -EAGAIN, what);
	/* The request is at work: until session_resume() the loop watches for a disconnect only. */
	sd_event_source_set_io_events(session->io, 0);
	return session->control->on_request(session, &message);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct session *session = context;
	int r = 0;

	(void)source;
	(void)fd;
	if (events & (EPOLLHUP | EPOLLERR))
		r = -ECONNRESET;
	else if (events & EPOLLOUT)
		r = flush_on(session);
	else if (events & EPOLLIN)
		r = session_receive(session);
	if (r < 0)
		session_free(session);
	return 0;
}

/* The client's process has ended; another process may still have the socket open. */
static int on_death(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct session *session = context;

	(void)source;
	(void)fd;
	(void)events;
	session_free(session);
	return 0;
}

static int on_overdue(sd_event_source *source, uint64_t time_us, void *context)
{
	(void)source;
	(void)time_us;
	session_free(context);
	return 0;
}

bool session_is_in_use(const struct session *session)
{
	return session->client || session->tapped;
}

void session_revoke(struct session *session, const char *kind, const char *name, const char *what)
{
	log_message(LOG_INFO,
	            &(struct log_about){.event = LOG_EVENT_RIGHTS_LOST,
	                                .peer = "CLIENT",
	                                .pid = session->peer.pid,
	                                .uid = session->peer.uid},
	            "%s '%s': process %d of user %u may not %s any more: disconnected", kind, name,
	            (int)session->peer.pid, (unsigned)session->peer.uid, what);
	session->reason = IBVCAP_DISCONNECT_RIGHTS;
	session_free(session);
}

void session_close_idle(struct session *session, uint64_t now_us)
{
	const struct config *config = session->control->options.config;
	bool waits = session->wants_status || session->in_refresh || session->reply.bytes ||
	             session->control->reconfiguring == session;

	if (session_is_in_use(session) || waits ||
	    now_us - session->asked_at_us < config->idle_timeout_s * UINT64_C(1000000))
		return;
	session_send_error(session, -ETIMEDOUT, "neither attached nor asked anything for %u s (idle_timeout_s)",
	                   config->idle_timeout_s);
	session_free(session);
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* Refuses the client before its first request if its user has too many connections or makes too many. */
static int admit(struct session *session)
{
	struct control *control = session->control;
	const struct config *config = control->options.config;
	struct user *user = user_enter(&control->users, user_key_of(&session->peer));
	const char *what = NULL;

	session->user = user;
	if (!user)
		return -ENOMEM;
	if (user->n_sessions > config->max_clients_per_user && user->key.uid != 0)
		what = "more connections of one user than max_clients_per_user allows";
	else if (is_user_over_limit(session))
		what = "more connections and messages a second than max_messages_per_s_per_user allows";
	return what ? session_refuse(session, -EAGAIN, what) : 0;
}

static int watch_client(struct session *session)
{
	sd_event *event = session->control->options.event;
	int r = sd_event_add_io(event, &session->io, session->fd, EPOLLIN, on_io, session);

	if (r < 0)
		return r;
	session->pidfd = peer_open_pidfd(session->fd, &session->peer);
	if (session->pidfd >= 0) {
		r = sd_event_add_io(event, &session->death, session->pidfd, EPOLLIN, on_death, session);
		if (r < 0)
			return r;
	}
	return loop_add_timer(session->control->options.event, &session->overdue, on_overdue, session);
}

int session_new(struct control *control, int fd)
{
	struct session *session = calloc(1, sizeof(*session));
	int r;

	if (!session) {
		close(fd);
		return -ENOMEM;
	}
	session->control = control;
	session->fd = fd;
	session->pidfd = -1;
	session->asked_at_us = loop_now_us(control->options.event);
	LIST_INSERT_HEAD(&control->sessions, session, link);
	control->n_sessions++;
	/* Cheap checks first: a client that connects again and again is refused before the expensive calls. */
	r = peer_read(fd, &session->peer);
	if (r == 0)
		r = admit(session);
	if (r == 0)
		r = peer_read_groups(fd, &session->peer, &session->groups);
	if (r == 0)
		r = watch_client(session);
	log_debug("control socket: process %d of user %u: %s", (int)session->peer.pid, (unsigned)session->peer.uid,
	          r < 0 ? strerror(-r) : "connected");
	if (r < 0)
		session_free(session);
	return r;
}

void session_free(struct session *session)
{
	if (!session)
		return;
	log_debug("control socket: process %d of user %u: disconnected", (int)session->peer.pid,
	          (unsigned)session->peer.uid);
	LIST_REMOVE(session, link);
	session->control->n_sessions--;
	if (session->control->reconfiguring == session)
		session->control->reconfiguring = NULL;
	if (session->client)
		session->client->endpoint->kind->close(session->client);
	user_leave(session->user);
	sd_event_source_disable_unref(session->io);
	sd_event_source_disable_unref(session->death);
	sd_event_source_disable_unref(session->overdue);
	if (session->pidfd >= 0)
		close(session->pidfd);
	close(session->fd);
	reply_deinit(&session->reply);
	free(session->groups);
	free(session);
}
