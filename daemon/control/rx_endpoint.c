// SPDX-License-Identifier: Apache-2.0
/*
 * Serves the requests of consumers: finds the stream, refuses requests that the client has no right to, mails the
 * consumer to the worker, and answers the client when the worker has answered.
 */
#include "daemon/control/rx_endpoint.h"

#include "daemon/base/log.h"
#include "daemon/control/rx_group.h"
#include "daemon/control/rx_lend.h"
#include "daemon/control/server.h"
#include "lib/base/nearest.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- the request --------------------------------------------------------------------------------- */

/* A channel of that name that this user may send on: others are not told that there is one. */
static bool is_usable_channel(const struct session *session, const char *name)
{
	const struct tx_endpoint *channel;

	TAILQ_FOREACH (channel, &session->control->tx_endpoints, link)
		if (strcmp(channel->endpoint.name, name) == 0)
			return rights_to_send(channel->channel->config, &session->peer, geteuid(), NULL) ==
			       RIGHTS_GRANTED;
	return false;
}

/* The configuration has it, and its interface is not there, or cannot be opened yet. NULL: no, or not for this user. */
static const struct config_stream *find_closed_stream(const struct session *session, const char *name)
{
	const struct config *config = session->control->options.config;
	const struct config_stream *stream = config_find_stream(config, name);

	if (!stream || rights_to_receive(config, stream, &session->peer, geteuid(), NULL) != RIGHTS_GRANTED)
		return NULL;
	return stream;
}

/* The name of a stream that this user may read, if one was meant; or NULL. */
static const char *find_meant_stream(const struct session *session, const char *name)
{
	const struct config *config = session->control->options.config;
	struct nearest nearest = {.word = name};
	const struct rx_stream *stream;

	TAILQ_FOREACH (stream, &session->control->rx_streams, link)
		if (rights_to_receive(config, stream->known->config, &session->peer, geteuid(), NULL) == RIGHTS_GRANTED)
			nearest_offer(&nearest, stream->known->config->name);
	return nearest.best;
}

static int refuse_stream(struct session *session, const char *name)
{
	const char *meant = find_meant_stream(session, name);

	if (meant && strcmp(meant, name) == 0) /* no other one has the name: rx_endpoint_attach() */
		return session_send_error(session, -ESRCH, "stream '%s' was removed and is ending", name);
	if (is_usable_channel(session, name))
		return session_send_error(
			session, -ESRCH,
			"no stream '%s'; it is a channel, for 'ibvcap send'; 'ibvcap status' lists those "
			"there are",
			name);
	return session_send_error(session, -ESRCH, "no stream '%s'%s%s%s 'ibvcap status' lists those there are", name,
	                          meant ? ": did you mean '" : "", meant ? meant : "", meant ? "'?" : ";");
}

/* A stream that is removed and added again is there twice: the one that goes on is attached to. */
static struct rx_stream *find_rx_stream(const struct control *control, const char *name)
{
	struct rx_stream *stream;

	TAILQ_FOREACH (stream, &control->rx_streams, link)
		if (stream->queues[0]->endpoint.ending == IBVCAP_DISCONNECT_NONE &&
		    strcmp(stream->known->config->name, name) == 0)
			break;
	return stream;
}

int rx_endpoint_attach(struct session *session, const struct protocol_attach *request)
{
	struct rx_stream *stream = find_rx_stream(session->control, request->stream);
	const struct config_stream *config = config_find_stream(session->control->options.config, request->stream);
	const struct config_stream *closed = stream ? NULL : find_closed_stream(session, request->stream);
	int r = endpoint_admit_connection(session, request->abi_major, request->abi_minor);

	if (r != ENDPOINT_ADMITTED)
		return r;
	if (config && config->payload_is_lent)
		return rx_lend_ask(session, config, request);
	if (closed)
		return session_send_error(session, -EAGAIN, "stream '%s' is not open yet: %s", closed->name,
		                          status_closed_why(session->control, closed->interface, false));
	if (!stream)
		return refuse_stream(session, request->stream);
	if (request->group[0])
		return rx_group_join(session, stream, request);
	if (request->queue >= stream->n_queues)
		return session_send_error(session, -EINVAL, "stream '%s' has no queue %u: it has %u, from 0",
		                          request->stream, request->queue, stream->n_queues);
	return rx_admit(session, stream->queues[request->queue], request, NULL);
}

/* ---- the worker's answers ------------------------------------------------------------------------ */

static void consumer_added(struct rx_session *rx, int error)
{
	struct session *session = rx->client.session;
	const struct endpoint *endpoint = rx->client.endpoint;
	struct rx_group *group = rx->group;
	int r;

	if (!session) /* disconnected meanwhile: the consumer's removal is on the way */
		return;
	if (error < 0) {
		rx_group_take_back(rx);
		rx_session_free(&rx->client);
		r = session_send_error(session, error, "stream '%s': its worker cannot take another consumer: %s",
		                       endpoint->name, strerror(-error));
	} else {
		endpoint_serve_client(&rx->client);
		if (endpoint->ending != IBVCAP_DISCONNECT_NONE)
			daemon_disconnect(&rx->consumer.state->link, endpoint->ending);
		session_resume(session);
		rx_group_note_told(rx);
		r = rx_session_send(rx);
	}
	if (r < 0)
		session_free(session);
	rx_group_balance(group);
}

/* The consumer is the control thread's again. */
static void consumer_removed(struct rx_session *rx)
{
	struct rx_group *group = rx_group_take_back(rx);

	const struct rx_endpoint *rx_endpoint = rx_session_endpoint(rx);
	const struct control_options *options = &rx_endpoint->endpoint.control->options;

	if (rx_endpoint->stream->config->payload_is_lent)
		options->lender_left(options->context);
	rx_stall_note_removed(&rx_session_endpoint(rx)->stall, rx);
	rx_session_release(rx);
	rx_group_balance(group); /* the place is free now */
}

/* The worker has taken the consumer off the ring already. */
static void consumer_bad(struct rx_session *rx, const struct mail *mail)
{
	struct session *session = rx->client.session;

	endpoint_log_bad(&rx->client, mail->reason);
	daemon_disconnect(&rx->consumer.state->link, mail->reason);
	if (rx->client.remove_mailed) /* MAIL_CONSUMER_REMOVED is still to come */
		return;
	consumer_removed(rx);
	session_free(session);
}

static struct rx_session *rx_session_of_mail(const struct mail *mail)
{
	return (struct rx_session *)((char *)mail->consumer - offsetof(struct rx_session, consumer));
}

static void take_rx_mail(struct rx_endpoint *rx_endpoint, const struct mail *mail)
{
	const struct control_options *options = &rx_endpoint->endpoint.control->options;
	struct endpoint_client *client;

	switch (mail->type) {
	case MAIL_CONSUMER_ADDED:
		consumer_added(rx_session_of_mail(mail), mail->error);
		break;
	case MAIL_CONSUMER_REMOVED:
		consumer_removed(rx_session_of_mail(mail));
		break;
	case MAIL_CONSUMER_DEMOTED:
		rx_stall_note_demoted(&rx_endpoint->stall, rx_session_of_mail(mail));
		break;
	case MAIL_CONSUMER_BAD:
		consumer_bad(rx_session_of_mail(mail), mail);
		break;
	case MAIL_STOPPED:
	case MAIL_FAILED:
		rx_endpoint->endpoint.ended = true;
		rx_endpoint->has_failed = mail->type == MAIL_FAILED;
		rx_readings_end(rx_endpoint);
		/* The queue has ended. Take it back from its consumers, so that no group waits for it. */
		LIST_FOREACH (client, &rx_endpoint->endpoint.clients, link)
			rx_group_balance(rx_group_take_back((struct rx_session *)client));
		options->worker_ended(options->context, rx_endpoint->stream, rx_endpoint->index, mail->error);
		break;
	default:
		break;
	}
}

static int on_rx_outbox(sd_event_source *, int, uint32_t, void *context)
{
	struct rx_endpoint *rx_endpoint = context;
	struct mail mail;

	mailbox_clear(rx_endpoint->queue->outbox);
	while (mailbox_receive(rx_endpoint->queue->outbox, &mail))
		take_rx_mail(rx_endpoint, &mail);
	return 0;
}

/* ---- the endpoint ----------------------------------------------------------------------------------- */

static void check_receive_rights(struct session *session)
{
	const struct rx_session *rx = (const struct rx_session *)session->client;
	const struct endpoint *endpoint = rx ? rx->client.endpoint : session->tapped;
	const struct config_stream *stream = ((const struct rx_endpoint *)endpoint)->stream->config;

	if (rights_to_receive(session->control->options.config, stream, &session->peer, geteuid(), NULL) !=
	    RIGHTS_GRANTED)
		session_revoke(session, "stream", stream->name, "receive it");
	else if (rx && consumer_load_policy(rx->consumer.state) == IBVCAP_POLICY_LOSSLESS &&
	         !rights_to_be_lossless(stream, &session->peer, NULL))
		session_revoke(session, "stream", stream->name, "be lossless");
}

static const struct endpoint_kind stream_kind = {
	.noun = "stream",
	.client = "consumer",
	.peer = "CONSUMER",
	.places_key = "max_consumers",
	.user_key = "max_consumers_per_user",
	.until = "the worker has given their leases back",
	.bad_event = LOG_EVENT_CONSUMER_BAD,
	.close = rx_session_close,
	.free = rx_session_free,
	.check_rights = check_receive_rights,
};

static void rx_endpoint_free(struct rx_endpoint *rx_endpoint)
{
	struct endpoint *endpoint = &rx_endpoint->endpoint;

	sd_event_source_disable_unref(rx_endpoint->outbox);
	while (!LIST_EMPTY(&endpoint->clients))
		rx_session_free(LIST_FIRST(&endpoint->clients));
	users_forget_endpoint(&endpoint->control->users, endpoint);
	notifier_free(rx_endpoint->notifier);
	free(rx_endpoint);
}

/* The next queue of the stream, which owns it, also on failure. */
static int rx_endpoint_new(struct control *control, struct rx_stream *of)
{
	struct rx_endpoint *rx_endpoint = calloc(1, sizeof(*rx_endpoint));
	sd_event *event = control->options.event;
	int r;

	if (!rx_endpoint)
		return -ENOMEM;
	endpoint_init(&rx_endpoint->endpoint, &stream_kind, control, of->known->config->name);
	rx_endpoint->stream = of->known;
	rx_endpoint->index = of->n_queues;
	rx_endpoint->queue = of->known->queues[of->n_queues];
	rx_endpoint->is_matched_mailed = true;
	of->queues[of->n_queues++] = rx_endpoint;
	r = notifier_new(&rx_endpoint->notifier, rx_endpoint->queue->ring, rx_endpoint->queue->ring->doorbell,
	                 RX_RING_CONSUMERS_MAX);
	if (r >= 0)
		heartbeat_watch(control->options.heartbeats, notifier_heartbeat(rx_endpoint->notifier),
		                "stream '%s': its notifier", rx_endpoint->endpoint.name);
	if (r >= 0)
		r = sd_event_add_io(event, &rx_endpoint->outbox, mailbox_fd(rx_endpoint->queue->outbox), EPOLLIN,
		                    on_rx_outbox, rx_endpoint);
	return r < 0 ? r : 0;
}

static void hang_up_clients(const struct endpoint *endpoint)
{
	struct session *session, *next;

	for (session = LIST_FIRST(&endpoint->control->sessions); session; session = next) {
		next = LIST_NEXT(session, link);
		if (session->tapped == endpoint || (session->client && session->client->endpoint == endpoint))
			session_free(session);
	}
}

void rx_endpoint_retry(struct rx_endpoint *rx_endpoint)
{
	struct endpoint_client *client;

	LIST_FOREACH (client, &rx_endpoint->endpoint.clients, link)
		if (!client->session && !client->is_retained)
			rx_session_mail_removal((struct rx_session *)client);
}

/* ---- the stream ------------------------------------------------------------------------------------- */

int control_add_stream(struct control *control, struct control_stream *known)
{
	struct rx_stream *stream = calloc(1, sizeof(*stream));
	int r = 0;

	if (!stream)
		return -ENOMEM;
	stream->control = control;
	stream->known = known;
	known->stream = stream;
	TAILQ_INSERT_TAIL(&control->rx_streams, stream, link);
	while (r == 0 && stream->n_queues < known->n_queues)
		r = rx_endpoint_new(control, stream);
	rx_readings_note_interface(known);
	known->matched->taken = rx_readings_take;
	known->matched->taken_context = stream;
	if (r < 0)
		control_remove_stream(known);
	return r;
}

void control_end_stream(struct control_stream *known, enum ibvcap_disconnect reason)
{
	const struct endpoint_client *client;
	struct rx_stream *stream = known->stream;

	if (!stream)
		return;
	for (uint32_t i = 0; i < stream->n_queues; i++)
		stream->queues[i]->endpoint.ending = reason;
	rx_groups_end(stream);
	for (uint32_t i = 0; i < stream->n_queues; i++)
		LIST_FOREACH (client, &stream->queues[i]->endpoint.clients, link)
			if (client->session)
				daemon_disconnect(&((const struct rx_session *)client)->consumer.state->link, reason);
}

void control_remove_stream(struct control_stream *known)
{
	struct rx_stream *stream = known->stream;

	if (!stream)
		return;
	known->stream = NULL;
	for (uint32_t i = 0; i < stream->n_queues; i++)
		stream->queues[i]->endpoint.ended = true;
	rx_groups_end(stream);
	for (uint32_t i = 0; i < stream->n_queues; i++)
		hang_up_clients(&stream->queues[i]->endpoint);
	TAILQ_REMOVE(&stream->control->rx_streams, stream, link);
	rx_groups_free(stream);
	known->matched->taken = NULL;
	while (stream->n_queues > 0)
		rx_endpoint_free(stream->queues[--stream->n_queues]);
	free(stream);
}
