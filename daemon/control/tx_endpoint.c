// SPDX-License-Identifier: Apache-2.0
/*
 * Serves the requests of senders: finds the channel, refuses requests that the client has no right to, and acts on mail
 * of the transmit worker, which is about single senders, about a channel, or about the worker itself.
 */
#include "daemon/control/tx_endpoint.h"

#include "daemon/base/log.h"
#include "daemon/control/server.h"
#include "lib/base/nearest.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MAP_US      UINT64_C(5000000) /* in which a client has to map its memory */
#define SENDERS_MAX 4096u             /* of one worker; more than any configuration has */

/* ---- opening --------------------------------------------------------------------------------------- */

/* A stream of that name that this user may receive: others are not told that there is one. */
static bool is_usable_stream(const struct session *session, const char *name)
{
	const struct rx_stream *stream;

	TAILQ_FOREACH (stream, &session->control->rx_streams, link)
		if (strcmp(stream->known->config->name, name) == 0)
			return rights_to_receive(session->control->options.config, stream->known->config,
			                         &session->peer, geteuid(), NULL) == RIGHTS_GRANTED;
	return false;
}

/* The configuration has it, and its interface is not there, or cannot be opened yet. NULL: no, or not for this user. */
static const struct config_channel *find_closed_channel(const struct session *session, const char *name)
{
	const struct config_channel *channel = config_find_channel(session->control->options.config, name);

	if (!channel || rights_to_send(channel, &session->peer, geteuid(), NULL) != RIGHTS_GRANTED)
		return NULL;
	return channel;
}

static struct tx_endpoint *find_open_channel(struct control *control, const char *name)
{
	struct tx_endpoint *tx_endpoint;

	TAILQ_FOREACH (tx_endpoint, &control->tx_endpoints, link)
		if (strcmp(tx_endpoint->endpoint.name, name) == 0 &&
		    (tx_endpoint->endpoint.ending == IBVCAP_DISCONNECT_NONE ||
		     tx_endpoint->endpoint.ending == IBVCAP_DISCONNECT_CHANNEL_FAILED))
			break;
	return tx_endpoint;
}

static int refuse_channel(struct session *session, const char *name)
{
	struct nearest nearest = {.word = name};
	const struct tx_endpoint *channel;

	TAILQ_FOREACH (channel, &session->control->tx_endpoints, link)
		if (rights_to_send(channel->channel->config, &session->peer, geteuid(), NULL) == RIGHTS_GRANTED)
			nearest_offer(&nearest, channel->endpoint.name);
	if (nearest.best && strcmp(nearest.best, name) == 0)
		return session_send_error(session, -ESRCH, "channel '%s' was removed and is ending", name);
	if (is_usable_stream(session, name))
		return session_send_error(
			session, -ESRCH,
			"no channel '%s'; it is a stream, for 'ibvcap recv'; 'ibvcap status' lists those "
			"there are",
			name);
	return session_send_error(session, -ESRCH, "no channel '%s'%s%s%s 'ibvcap status' lists those there are", name,
	                          nearest.best ? ": did you mean '" : "", nearest.best ? nearest.best : "",
	                          nearest.best ? "'?" : ";");
}

int tx_endpoint_open(struct session *session, const struct protocol_open_channel *request)
{
	struct tx_endpoint *tx_endpoint = find_open_channel(session->control, request->channel);
	const struct config_channel *channel =
		tx_endpoint ? tx_endpoint->channel->config : find_closed_channel(session, request->channel);
	struct payer payer;
	struct user_share *share;
	int r = endpoint_admit_connection(session, request->abi_major, request->abi_minor);

	if (r != ENDPOINT_ADMITTED)
		return r;
	if (!tx_endpoint && channel)
		return session_send_error(session, -EAGAIN, "channel '%s' is not open yet: %s", channel->name,
		                          status_closed_why(session->control, channel->interface, false));
	if (!tx_endpoint)
		return refuse_channel(session, request->channel);
	const struct endpoint_limits limits = {channel->max_senders, channel->max_senders_per_user, channel->file,
	                                       channel->line};

	r = endpoint_admit_rights(session, "channel", channel->name,
	                          rights_to_send(channel, &session->peer, geteuid(), &payer), channel->file,
	                          channel->line);
	if (r != ENDPOINT_ADMITTED)
		return r;
	if (tx_endpoint->endpoint.ending == IBVCAP_DISCONNECT_CHANNEL_FAILED)
		return session_send_error(
			session, -EIO,
			"channel '%s': its send queue on device %s failed and cannot go on; ask the administrator to "
			"take the channel out of %s, systemctl reload ibvcapd, put it in again, and reload again",
			channel->name, tx_endpoint->channel->device, channel->file);
	share = endpoint_share(&tx_endpoint->endpoint, &payer);
	r = endpoint_admit_place(session, &tx_endpoint->endpoint, share, &limits);
	if (r != ENDPOINT_ADMITTED)
		return r;
	if (tx_session_new(session, tx_endpoint, share) < 0)
		return session_send_error(session, -ENOMEM, "channel '%s': out of memory", request->channel);
	return 0;
}

int tx_endpoint_mapped(struct session *session)
{
	struct tx_session *tx = (struct tx_session *)session->client;

	if (!tx || !tx->client.endpoint->kind->is_channel || tx->sealed)
		return session_send_error(session, -EPROTO,
		                          "nothing that was given to this connection is to be mapped");
	tx_session_lend(tx);
	return 0;
}

/* ---- the worker's answers ---------------------------------------------------------------------------- */

static void sender_added(struct tx_session *tx, int error)
{
	struct session *session = tx->client.session;
	struct protocol_bare ready;
	int r;

	tx->awaits_answer = false;
	if (error < 0) {
		if (!tx->client.remove_mailed)
			tx_session_free(&tx->client);
		if (!session)
			return;
		r = session_send_error(session, error, "channel '%s': its worker cannot take another sender: %s",
		                       tx->channel, strerror(-error));
	} else {
		if (!session) /* disconnected meanwhile: the sender's removal is on the way */
			return;
		endpoint_serve_client(&tx->client);
		session_resume(session);
		protocol_init(&ready.header, PROTOCOL_READY, sizeof(ready));
		r = session_send(session, &ready.header, NULL, 0);
	}
	if (r < 0)
		session_free(session);
}

/* The worker has dropped the sender already; everything that the sender had submitted has a result. */
static void sender_bad(struct tx_session *tx, const struct mail *mail)
{
	struct session *session = tx->client.session;

	endpoint_log_bad(&tx->client, mail->reason);
	daemon_disconnect(&tx->sender.state->link, mail->reason);
	if (tx->client.remove_mailed) /* MAIL_SENDER_REMOVED is still to come */
		return;
	tx_session_free(&tx->client);
	session_free(session);
}

void tx_endpoint_take_all(struct tx_endpoint *tx_endpoint)
{
	struct endpoint *endpoint = &tx_endpoint->endpoint;
	struct endpoint_client *client, *next;

	endpoint->ended = true;
	if (endpoint->ending == IBVCAP_DISCONNECT_NONE)
		endpoint->ending = IBVCAP_DISCONNECT_SHUTDOWN;
	for (client = LIST_FIRST(&endpoint->clients); client; client = next) {
		struct tx_session *tx = (struct tx_session *)client;

		next = LIST_NEXT(client, link);
		if (client->session) {
			/* A sender that is served finds the reason in its state page; the others have none yet. */
			if (!client->served)
				session_send_error(client->session, -ENODEV, TX_SESSION_CHANNEL_ENDS, tx->channel);
			session_free(client->session);
		} else if (!tx_session_awaits_mail(tx)) {
			tx_session_free(&tx->client); /* now, or after its job */
		}
	}
}

/* The daemon hears of it first, because it must destroy the queue before any memory is freed. */
static void take_tx_queue_mail(struct tx_worker_endpoint *worker, const struct mail *mail)
{
	struct tx_endpoint *tx_endpoint;

	TAILQ_FOREACH (tx_endpoint, &worker->control->tx_endpoints, link)
		if (tx_endpoint->channel->queue == mail->tx_queue)
			break;
	worker->worker->said(worker->worker->context, tx_endpoint ? tx_endpoint->channel : NULL, mail);
	if (!tx_endpoint || (mail->type == MAIL_TX_QUEUE_ADDED && mail->error == 0))
		return;
	if (mail->type != MAIL_TX_QUEUE_REMOVED)
		tx_endpoint->endpoint.ending = IBVCAP_DISCONNECT_CHANNEL_FAILED;
	tx_endpoint_take_all(tx_endpoint);
}

/* Everything that was submitted by then has a result, and the senders are told that it was the last. */
static void tx_worker_ended(struct tx_worker_endpoint *worker, const struct mail *mail)
{
	struct tx_endpoint *tx_endpoint;
	struct endpoint_client *client;

	worker->ended = true;
	TAILQ_FOREACH (tx_endpoint, &worker->control->tx_endpoints, link) {
		struct endpoint *endpoint = &tx_endpoint->endpoint;

		if (tx_endpoint->worker != worker)
			continue;
		endpoint->ended = true;
		if (endpoint->ending == IBVCAP_DISCONNECT_NONE)
			endpoint->ending = IBVCAP_DISCONNECT_SHUTDOWN;
		LIST_FOREACH (client, &endpoint->clients, link)
			if (client->served)
				daemon_disconnect(&((struct tx_session *)client)->sender.state->link, endpoint->ending);
	}
	eventfd_write(worker->worker->doorbell, 1);
	worker->worker->said(worker->worker->context, NULL, mail);
}

/* The session of the sender that the mail is about. */
static struct tx_session *tx_session_of_mail(const struct mail *mail)
{
	return (struct tx_session *)((char *)mail->sender - offsetof(struct tx_session, sender));
}

static void take_tx_mail(struct tx_worker_endpoint *worker, const struct mail *mail)
{
	struct tx_session *tx;

	switch (mail->type) {
	case MAIL_SENDER_ADDED:
		sender_added(tx_session_of_mail(mail), mail->error);
		break;
	case MAIL_SENDER_REMOVED:
		tx = tx_session_of_mail(mail);
		tx->lent = tx->client.remove_mailed = false;
		/* The device may still read the memory of a channel that failed, until its queue is destroyed. */
		if (mail->error == 0 || tx->client.endpoint->ended)
			tx_session_free(&tx->client);
		break;
	case MAIL_SENDER_BAD:
		sender_bad(tx_session_of_mail(mail), mail);
		break;
	case MAIL_TX_QUEUE_ADDED:
	case MAIL_TX_QUEUE_REMOVED:
	case MAIL_TX_QUEUE_FAILED:
		take_tx_queue_mail(worker, mail);
		break;
	case MAIL_STOPPED:
	case MAIL_FAILED:
		tx_worker_ended(worker, mail);
		break;
	default:
		break;
	}
}

static int on_tx_outbox(sd_event_source *, int, uint32_t, void *context)
{
	struct tx_worker_endpoint *worker = context;
	struct mail mail;

	mailbox_clear(worker->worker->outbox);
	while (mailbox_receive(worker->worker->outbox, &mail))
		take_tx_mail(worker, &mail);
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------------ */

int control_add_tx_worker(struct control *control, struct control_tx_worker *tx_worker)
{
	struct tx_worker_endpoint *worker = calloc(1, sizeof(*worker));
	sd_event *event = control->options.event;
	int r;

	if (!worker)
		return -ENOMEM;
	worker->control = control;
	worker->worker = tx_worker;
	tx_worker->endpoint = worker;
	TAILQ_INSERT_TAIL(&control->tx_workers, worker, link);
	r = notifier_new(&worker->notifier, NULL, tx_worker->doorbell, SENDERS_MAX);
	if (r >= 0)
		heartbeat_watch(control->options.heartbeats, notifier_heartbeat(worker->notifier),
		                "interface '%s': its notifier", tx_worker->interface);
	if (r >= 0)
		r = sd_event_add_io(event, &worker->outbox, mailbox_fd(tx_worker->outbox), EPOLLIN, on_tx_outbox,
		                    worker);
	if (r < 0)
		control_remove_tx_worker(tx_worker);
	return r < 0 ? r : 0;
}

void control_remove_tx_worker(struct control_tx_worker *tx_worker)
{
	struct tx_worker_endpoint *worker = tx_worker->endpoint;

	if (!worker)
		return;
	tx_worker->endpoint = NULL;
	TAILQ_REMOVE(&worker->control->tx_workers, worker, link);
	sd_event_source_disable_unref(worker->outbox);
	notifier_free(worker->notifier);
	free(worker);
}

static void check_send_rights(struct session *session)
{
	const struct tx_endpoint *tx_endpoint = (const struct tx_endpoint *)session->client->endpoint;
	const struct config_channel *channel = tx_endpoint->channel->config;

	if (rights_to_send(channel, &session->peer, geteuid(), NULL) != RIGHTS_GRANTED)
		session_revoke(session, "channel", channel->name, "send on it");
}

static const struct endpoint_kind channel_kind = {
	.noun = "channel",
	.client = "sender",
	.peer = "SENDER",
	.places_key = "max_senders",
	.user_key = "max_senders_per_user",
	.until = "the device has sent what it has of theirs",
	.is_channel = true,
	.bad_event = LOG_EVENT_SENDER_BAD,
	.close = tx_session_close,
	.free = tx_session_free,
	.check_rights = check_send_rights,
};

int control_add_channel(struct control *control, struct control_channel *channel)
{
	struct tx_endpoint *tx_endpoint = calloc(1, sizeof(*tx_endpoint));

	if (!tx_endpoint)
		return -ENOMEM;
	endpoint_init(&tx_endpoint->endpoint, &channel_kind, control, channel->config->name);
	tx_endpoint->worker = channel->worker->endpoint;
	tx_endpoint->channel = channel;
	channel->endpoint = tx_endpoint;
	TAILQ_INSERT_TAIL(&control->tx_endpoints, tx_endpoint, link);
	return 0;
}

void control_end_channel(struct control_channel *channel, enum ibvcap_disconnect reason)
{
	if (channel->endpoint)
		channel->endpoint->endpoint.ending = reason;
}

bool control_channel_is_empty(const struct control_channel *channel)
{
	return !channel->endpoint || channel->endpoint->endpoint.n_clients == 0;
}

void control_remove_channel(struct control_channel *channel)
{
	struct tx_endpoint *tx_endpoint = channel->endpoint;
	struct control *control;

	if (!tx_endpoint)
		return;
	channel->endpoint = NULL;
	control = tx_endpoint->endpoint.control;
	TAILQ_REMOVE(&control->tx_endpoints, tx_endpoint, link);
	users_forget_endpoint(&control->users, &tx_endpoint->endpoint);
	free(tx_endpoint);
}

void tx_endpoint_tick(struct tx_endpoint *tx_endpoint, uint64_t now_us)
{
	struct endpoint_client *client, *next;

	for (client = LIST_FIRST(&tx_endpoint->endpoint.clients); client; client = next) {
		struct tx_session *tx = (struct tx_session *)client;

		next = LIST_NEXT(client, link);
		tx_session_retry(tx);
		if (now_us < MAP_US || !tx_session_waits_since(tx, now_us - MAP_US))
			continue;
		session_send_error(client->session, -ETIMEDOUT, "channel '%s': its memory was not mapped within %u s",
		                   tx->channel, (unsigned)(MAP_US / 1000000));
		session_free(client->session);
	}
}
