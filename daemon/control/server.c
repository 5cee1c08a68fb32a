// SPDX-License-Identifier: Apache-2.0
/*
 * Control as the daemon sees it: accepts clients, hands their requests to what serves them, and does at each tick what
 * must be done again and again.
 */
#include "daemon/control/server.h"

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/control/id_name.h"
#include "daemon/control/rx_group.h"
#include "daemon/control/rx_lend.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_US UINT64_C(100000)

/* ---- accepting -------------------------------------------------------------------------------- */

/* Many clients may wait at once, and one of them may be root: a few are accepted in each turn of the loop. */
#define ACCEPTS_MAX 16

static int on_client(sd_event_source *source, int listening_fd, uint32_t, void *context)
{
	struct control *control = context;

	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(listening_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			session_new(control, fd);
			continue;
		}
		/* Without descriptors or memory the loop would call this again at once: wait for the next tick. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			sd_event_source_set_enabled(source, SD_EVENT_OFF);
		break;
	}
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------------ */

/* The text has a line for each mistake. Returns the bytes of as many whole lines as an answer has room for. */
static int count_bytes_that_fit(const char *text)
{
	static const size_t room = PROTOCOL_TEXT_MAX - 80;
	size_t bytes = strlen(text);

	if (bytes <= room)
		return (int)bytes;
	for (bytes = room; bytes && text[bytes] != '\n'; bytes--)
		;
	return (int)(bytes ? bytes : room);
}

static int answer_reconfiguration(struct session *session, int error, const char *text)
{
	int n = count_bytes_that_fit(text);

	if (error < 0)
		return session_send_error(session, error, "%.*s%s; nothing was changed", n, text,
		                          text[n] ? "\nmore mistakes are in the daemon's log" : "");
	return session_send_done(session, text);
}

void control_reconfigured(struct control *control, int error, const char *text)
{
	struct session *session = control->reconfiguring;

	control->reconfiguring = NULL;
	if (session && answer_reconfiguration(session, error, text) < 0)
		session_free(session);
}

/* A refusal is answered at once, everything else by control_reconfigured(). */
static int begin_reconfiguration(struct session *session, const struct protocol_reconfigure *change)
{
	const struct control_options *options = &session->control->options;
	struct failure failure = {.text = ""};
	int r;

	if (!rights_to_change(&session->peer, geteuid()))
		return session_send_error(
			session, -EACCES,
			"the configuration is not for user %s to change: only for root and the daemon's user",
			id_of_user(session->peer.uid).text);
	r = options->reconfigure(options->context, change, &failure);
	if (r < 0)
		return answer_reconfiguration(session, r, failure.text);
	session->control->reconfiguring = session;
	return 0;
}

static int handle_request(struct session *session, const union protocol_message *message)
{
	switch (message->header.type) {
	case PROTOCOL_ATTACH:
		return rx_endpoint_attach(session, &message->attach);
	case PROTOCOL_LENT:
		return rx_lend_take(session, &message->lent);
	case PROTOCOL_OPEN_CHANNEL:
		return tx_endpoint_open(session, &message->open_channel);
	case PROTOCOL_MAPPED:
		return tx_endpoint_mapped(session);
	case PROTOCOL_STATUS:
		return status_request(session);
	case PROTOCOL_RECONFIGURE:
		return begin_reconfiguration(session, &message->change);
	default:
		return session_refuse(session, -EPROTO, "a message that is not a request");
	}
}

/* ---- the tick ------------------------------------------------------------------------------------ */

static void close_idle_clients(struct control *control)
{
	uint64_t now_us = loop_now_us(control->options.event);
	struct session *session, *next;

	for (session = LIST_FIRST(&control->sessions); session; session = next) {
		next = LIST_NEXT(session, link);
		if (session_has_died(session))
			session_free(session);
		else
			session_close_idle(session, now_us);
	}
	users_forget(&control->users, now_us);
}

static void warn_of_stuck_users(struct control *control)
{
	const struct user *user;
	struct payer_text payer;

	while ((user = users_find_stuck(&control->users))) {
		payer = payer_describe(&user->payer, user->payer.id);
		log_warning("control: %s has clients that keep a thread of the daemon in a system call, for more than "
		            "%u s so far: other clients of the same account wait, and connections that are refused "
		            "stay open; end the processes of that account",
		            payer.who, (unsigned)(USERS_STUCK_US / 1000000));
	}
}

static void warn_of_late_users(struct control *control)
{
	static const struct log_about about = {.event = LOG_EVENT_WAKE_BUDGET};
	struct user *user;

	while ((user = users_find_late(&control->users)))
		if (loop_should_log(user->n_late))
			log_message(
				LOG_WARNING, &about,
				"control: %s has clients that take more CPU time to be woken than one account may take "
				"from others: they are woken later (for %llu ms so far)",
				payer_describe(&user->payer, user->payer.id).who,
				(unsigned long long)(user->n_late * TICK_US / 1000));
}

static void tick_rx_stream(struct rx_stream *stream, uint64_t now_us)
{
	rx_groups_tick(stream, now_us);
	if (rx_stream_runs(stream)) {
		reading_ask(stream->known->matched);
		reading_ask_often(stream->known->interface_lost);
	}
	for (uint32_t i = 0; i < stream->n_queues; i++)
		if (!stream->queues[i]->endpoint.ended)
			rx_endpoint_retry(stream->queues[i]);
}

static int on_tick(sd_event_source *source, uint64_t, void *context)
{
	struct control *control = context;
	struct rx_stream *stream;
	struct tx_endpoint *channel;

	TAILQ_FOREACH (stream, &control->rx_streams, link)
		tick_rx_stream(stream, loop_now_us(control->options.event));
	TAILQ_FOREACH (channel, &control->tx_endpoints, link)
		tx_endpoint_tick(channel, loop_now_us(control->options.event));
	rx_lends_open(control);
	close_idle_clients(control);
	warn_of_stuck_users(control);
	warn_of_late_users(control);
	dropped_sockets_close(&control->dropped);
	if (control->listening)
		sd_event_source_set_enabled(control->listening, SD_EVENT_ON);
	loop_arm(source, TICK_US);
	return 0;
}

static int on_memory_gone(sd_event_source *, int, uint32_t, void *context)
{
	struct control *control = context;
	const struct rx_stream *stream;
	struct tx_endpoint *channel;

	retained_watch_read(&control->retained);
	TAILQ_FOREACH (stream, &control->rx_streams, link)
		for (uint32_t i = 0; i < stream->n_queues; i++)
			endpoint_free_retained(&stream->queues[i]->endpoint);
	TAILQ_FOREACH (channel, &control->tx_endpoints, link)
		endpoint_free_retained(&channel->endpoint);
	return 0;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static int set_up_control(struct control *control)
{
	int r = status_init(control);

	if (r < 0)
		return r;
	r = loop_add_timer(control->options.event, &control->tick, on_tick, control);
	if (r < 0)
		return r;
	loop_arm(control->tick, TICK_US);
	r = rx_readings_init(control);
	if (r < 0)
		return r;
	return sd_event_add_io(control->options.event, &control->listening, control->options.listener->fd, EPOLLIN,
	                       on_client, control);
}

int control_new(struct control **control, const struct control_options *options, struct failure *failure)
{
	struct control *c = calloc(1, sizeof(*c));
	int r = -ENOMEM;

	if (c) {
		c->options = *options;
		c->on_request = handle_request;
		LIST_INIT(&c->sessions);
		LIST_INIT(&c->users.list);
		c->users.event = c->options.event;
		TAILQ_INIT(&c->rx_streams);
		TAILQ_INIT(&c->tx_workers);
		TAILQ_INIT(&c->tx_endpoints);
		TAILQ_INIT(&c->interfaces);
		TAILQ_INIT(&c->lends);
		r = retained_watch_init(&c->retained);
		if (r == 0)
			r = sd_event_add_io(c->options.event, &c->memory_gone, c->retained.inotify, EPOLLIN,
			                    on_memory_gone, c);
		if (r < 0)
			log_warning(
				"control: cannot watch the memory that clients keep after they left (%s): a place is "
				"free before the memory of its last client is; raise fs.inotify.max_user_instances",
				strerror(-r));
		r = set_up_control(c);
	}
	if (r < 0) {
		control_free(c);
		return failure_set(failure, EX_OSERR, -r, "control socket '%s': cannot be served: %s",
		                   options->listener->path, strerror(-r));
	}
	*control = c;
	return 0;
}

/* ---- adding and removing interfaces ------------------------------------------------------------------------- */

void control_add_interface(struct control *control, struct control_interface *interface)
{
	TAILQ_INSERT_TAIL(&control->interfaces, interface, link);
}

void control_remove_interface(struct control *control, struct control_interface *interface)
{
	TAILQ_REMOVE(&control->interfaces, interface, link);
}

void control_set_config(struct control *control, const struct config *config)
{
	struct session *session, *next;
	const struct endpoint *endpoint;

	control->options.config = config;
	for (session = LIST_FIRST(&control->sessions); session; session = next) {
		next = LIST_NEXT(session, link);
		endpoint = session->client ? session->client->endpoint : session->tapped;
		if (endpoint)
			endpoint->kind->check_rights(session);
	}
}

void control_stop_accepting(struct control *control)
{
	control->listening = sd_event_source_disable_unref(control->listening);
}

bool control_free(struct control *control)
{
	struct rx_stream *stream;
	struct tx_worker_endpoint *worker;
	struct tx_endpoint *channel;

	if (!control)
		return true;
	control->listening = sd_event_source_disable_unref(control->listening);
	sd_event_source_disable_unref(control->tick);
	sd_event_source_disable_unref(control->look);
	sd_event_source_disable_unref(control->memory_gone);
	TAILQ_FOREACH (stream, &control->rx_streams, link)
		for (uint32_t i = 0; i < stream->n_queues; i++)
			stream->queues[i]->endpoint.ended = true; /* nothing is mailed any more */
	TAILQ_FOREACH (worker, &control->tx_workers, link)
		worker->ended = true;
	TAILQ_FOREACH (channel, &control->tx_endpoints, link)
		tx_endpoint_take_all(channel);
	while (!LIST_EMPTY(&control->sessions))
		session_free(LIST_FIRST(&control->sessions));
	dropped_sockets_close(&control->dropped);
	status_deinit(control);
	while (!TAILQ_EMPTY(&control->rx_streams))
		control_remove_stream(TAILQ_FIRST(&control->rx_streams)->known);
	if (!users_drain(&control->users)) {
		log_warning("control: a client keeps a thread of the daemon in a system call: what that thread works "
		            "on is left to the kernel, which frees it when the daemon ends");
		return false;
	}
	while (!TAILQ_EMPTY(&control->tx_endpoints))
		control_remove_channel(TAILQ_FIRST(&control->tx_endpoints)->channel);
	while (!TAILQ_EMPTY(&control->tx_workers))
		control_remove_tx_worker(TAILQ_FIRST(&control->tx_workers)->worker);
	users_deinit(&control->users);
	retained_watch_deinit(&control->retained);
	free(control);
	return true;
}
