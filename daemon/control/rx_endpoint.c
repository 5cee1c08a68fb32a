// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rx_endpoint.h"

#include "daemon/base/log.h"
#include "daemon/control/quota.h"
#include "daemon/control/loop.h"
#include "daemon/control/server.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- the request --------------------------------------------------------------------------------- */

static struct rx_endpoint *find_point(struct control *control, const char *stream, uint32_t queue, bool *has_stream)
{
	struct rx_endpoint *endpoint;

	*has_stream = false;
	TAILQ_FOREACH (endpoint, &control->rx_endpoints, link) {
		if (endpoint->ending != IBVCAP_DISCONNECT_NONE || strcmp(endpoint->stream->config->name, stream) != 0)
			continue;
		*has_stream = true;
		if (endpoint->stream->queue == queue)
			return endpoint;
	}
	return NULL;
}

/* True: the refusal was sent, with *sent as the result of that. */
static bool is_refused_by_rights(struct session *session, const struct config_stream *stream, int *sent)
{
	switch (rights_to_receive(stream, &session->peer, geteuid())) {
	case RIGHTS_GRANTED:
		return false;
	case RIGHTS_DAEMONS_USER:
		*sent = session_send_error(
			session, -EACCES,
			"stream '%s': refused to user %u, which is the daemon's own: it could write the "
			"ring; attach as another user",
			stream->name, (unsigned)session->peer.uid);
		return true;
	case RIGHTS_NOT_LISTED:
		break;
	}
	*sent = session_send_error(
		session, -EACCES,
		"stream '%s': not for user %u; the administrator names users and groups in the stream's "
		"configuration",
		stream->name, (unsigned)session->peer.uid);
	return true;
}

static bool is_refused_by_quota(struct session *session, const struct rx_endpoint *endpoint,
                                const struct protocol_attach *request, int *sent)
{
	const struct config_stream *stream = endpoint->stream->config;
	uint32_t lease_blocks = request->lease_blocks ? request->lease_blocks : stream->lease_blocks;
	char why[PROTOCOL_TEXT_MAX], kept[QUOTA_KEPT_MAX];

	if (endpoint->ended || !session->control->listening) { /* control_stop_accepting() */
		*sent = session_send_error(session, -EAGAIN, "stream '%s': the daemon is stopping", stream->name);
	} else if (request->policy > IBVCAP_POLICY_LOSSLESS) {
		*sent = session_send_error(session, -EINVAL,
		                           "stream '%s': policy %u: lossy (0), lossless (1) or tap (2)", stream->name,
		                           request->policy);
	} else if (request->policy == IBVCAP_POLICY_LOSSLESS && !rights_to_be_lossless(stream, &session->peer)) {
		*sent = session_send_error(session, -EACCES,
		                           "stream '%s': lossless is not for user %u; the administrator allows it with "
		                           "lossless_deadline_ms and lossless_users in %s",
		                           stream->name, (unsigned)session->peer.uid, stream->file);
	} else if (request->start > IBVCAP_START_NS_BACK) {
		*sent = session_send_error(
			session, -EINVAL,
			"stream '%s': start %u: newest (0), oldest (1), packets back (2) or time back (3)",
			stream->name, request->start);
	} else if (request->lease_blocks > stream->lease_blocks) {
		*sent = session_send_error(
			session, -EAGAIN,
			"stream '%s': %u blocks of lease asked for, %u (lease_blocks) are granted at most; ask "
			"for fewer, or the administrator to raise it in %s and restart",
			stream->name, request->lease_blocks, stream->lease_blocks, stream->file);
	} else if (endpoint->n_sessions >= stream->max_consumers) {
		*sent = session_send_error(
			session, -EAGAIN,
			"stream '%s': all %u consumers it is configured for (max_consumers) are attached%s; wait "
			"for one to leave, or ask the administrator to raise it in %s and restart",
			stream->name, stream->max_consumers, quota_explain_kept(endpoint, kept, sizeof(kept)),
			stream->file);
	} else if (quota_forbids(endpoint, &session->peer, lease_blocks, why, sizeof(why))) {
		*sent = session_send_error(session, -EAGAIN, "stream '%s': %s", stream->name, why);
	} else {
		return false;
	}
	return true;
}

static int lend_to_worker(struct session *session, struct rx_endpoint *endpoint, const struct protocol_attach *request)
{
	const struct config_stream *stream = endpoint->stream->config;
	uint32_t lease_blocks = request->lease_blocks ? request->lease_blocks : stream->lease_blocks;
	struct rx_session *rx = NULL;
	int r = rx_session_new(&rx, endpoint, &session->peer, lease_blocks, request->policy);

	if (r < 0)
		return session_send_error(session, r, "stream '%s': the consumer's pages cannot be made: %s",
		                          stream->name, strerror(-r));
	struct mail mail = {.type = MAIL_ADD_CONSUMER, .consumer = &rx->consumer};

	rx->consumer.start = (struct rx_start_position){request->start, request->start_value};
	r = mailbox_send(endpoint->stream->inbox, &mail);
	if (r < 0) {
		rx_session_free(rx);
		return session_send_error(session, r, "stream '%s': its worker has too much mail; try again",
		                          stream->name);
	}
	rx->session = session;
	session->rx = rx;
	session->on_close = rx_session_hang_up;
	return 0;
}

/* It has no page and no lease: the worker need not know, and it takes no consumer's place. */
static int attach_tap(struct session *session, const struct rx_endpoint *endpoint)
{
	if (endpoint->ended || !session->control->listening)
		return session_send_error(session, -EAGAIN, "stream '%s': the daemon is stopping",
		                          endpoint->stream->config->name);
	session->tapped = endpoint;
	session_resume(session);
	return rx_session_send_tap(session, endpoint);
}

int rx_endpoint_attach(struct session *session, const struct protocol_attach *request)
{
	bool has_stream;
	struct rx_endpoint *endpoint = find_point(session->control, request->stream, request->queue, &has_stream);
	int sent;

	if (session_is_in_use(session))
		return session_send_error(
			session, -EALREADY,
			"this connection is attached or sends already: one ring or channel a connection");
	if (request->abi_major != IBVCAP_ABI_MAJOR)
		return session_send_error(session, -EPROTO, "shared memory ABI %u.%u asked for, the daemon has %u.%u",
		                          request->abi_major, request->abi_minor, IBVCAP_ABI_MAJOR, IBVCAP_ABI_MINOR);
	if (!has_stream)
		return session_send_error(session, -ESRCH, "no stream '%s'; 'ibvcap status' lists those there are",
		                          request->stream);
	if (!endpoint)
		return session_send_error(session, -EINVAL, "stream '%s' has no queue %u", request->stream,
		                          request->queue);
	if (is_refused_by_rights(session, endpoint->stream->config, &sent))
		return sent;
	if (request->policy == IBVCAP_POLICY_TAP)
		return attach_tap(session, endpoint);
	rx_endpoint_free_retained(endpoint);
	if (is_refused_by_quota(session, endpoint, request, &sent))
		return sent;
	return lend_to_worker(session, endpoint, request);
}

/* ---- the worker's answers ------------------------------------------------------------------------ */

static void consumer_added(struct rx_session *rx, int error)
{
	struct session *session = rx->session;
	const char *stream = rx->endpoint->stream->config->name;
	int r;

	if (!session) /* hung up meanwhile: its removal is on the way */
		return;
	if (error < 0) {
		rx_session_free(rx);
		r = session_send_error(session, error, "stream '%s': its worker cannot take another consumer: %s",
		                       stream, strerror(-error));
	} else {
		rx->served = true;
		if (rx->endpoint->ending != IBVCAP_DISCONNECT_NONE)
			daemon_disconnect(rx->consumer.state, rx->endpoint->ending);
		session_resume(session);
		r = rx_session_send(rx);
	}
	if (r < 0)
		session_free(session);
}

/* The worker has put it out of the ring already. */
static void consumer_bad(struct rx_session *rx, const struct mail *mail)
{
	struct rx_endpoint *endpoint = rx->endpoint;
	struct session *session = rx->session;

	if (loop_should_log(++endpoint->n_bad))
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_CONSUMER_BAD,
		                                .stream = endpoint->stream->config->name,
		                                .peer = "CONSUMER",
		                                .pid = rx->pid,
		                                .uid = rx->uid},
		            "stream '%s': consumer process %d of user %u broke the rules of its page (reason %u): "
		            "disconnected (%llu so far)",
		            endpoint->stream->config->name, (int)rx->pid, (unsigned)rx->uid, mail->reason,
		            (unsigned long long)endpoint->n_bad);
	daemon_disconnect(rx->consumer.state, mail->reason);
	if (rx->remove_mailed) /* MAIL_CONSUMER_REMOVED is still to come */
		return;
	rx_session_release(rx);
	session_free(session);
}

/* It may be on its way out already; its memory is the worker's until MAIL_CONSUMER_REMOVED. */
static void consumer_demoted(const struct rx_session *rx)
{
	struct rx_endpoint *endpoint = rx->endpoint;

	if (loop_should_log(++endpoint->n_demoted))
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_CONSUMER_DEMOTED,
		                                .stream = endpoint->stream->config->name,
		                                .peer = "CONSUMER",
		                                .pid = rx->pid,
		                                .uid = rx->uid},
		            "stream '%s': consumer process %d of user %u kept the queue waiting for more than %llu ms "
		            "(lossless_deadline_ms): lossy from now on (%llu so far)",
		            endpoint->stream->config->name, (int)rx->pid, (unsigned)rx->uid,
		            (unsigned long long)rx->consumer.deadline_ns / 1000000,
		            (unsigned long long)endpoint->n_demoted);
}

static void take_mail(struct rx_endpoint *endpoint, const struct mail *mail)
{
	struct rx_session *rx = NULL;

	if (mail->type != MAIL_STOPPED && mail->type != MAIL_FAILED)
		rx = (struct rx_session *)((char *)mail->consumer - offsetof(struct rx_session, consumer));
	switch (mail->type) {
	case MAIL_CONSUMER_ADDED:
		consumer_added(rx, mail->error);
		break;
	case MAIL_CONSUMER_REMOVED:
		rx_session_release(rx);
		break;
	case MAIL_CONSUMER_DEMOTED:
		consumer_demoted(rx);
		break;
	case MAIL_CONSUMER_BAD:
		consumer_bad(rx, mail);
		break;
	case MAIL_STOPPED:
	case MAIL_FAILED:
		endpoint->ended = true;
		endpoint->control->options.worker_ended(endpoint->control->options.context, endpoint->stream,
		                                        mail->error);
		break;
	default:
		break;
	}
}

static int on_outbox(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct rx_endpoint *endpoint = context;
	struct mail mail;

	(void)source;
	(void)fd;
	(void)events;
	mailbox_clear(endpoint->stream->outbox);
	while (mailbox_receive(endpoint->stream->outbox, &mail))
		take_mail(endpoint, &mail);
	return 0;
}

/* ---- the endpoint ----------------------------------------------------------------------------------- */

int rx_endpoint_new(struct control *control, const struct control_stream *stream)
{
	struct rx_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int r;

	if (!endpoint)
		return -ENOMEM;
	endpoint->control = control;
	endpoint->stream = stream;
	LIST_INIT(&endpoint->sessions);
	TAILQ_INSERT_TAIL(&control->rx_endpoints, endpoint, link);
	r = notifier_new(&endpoint->notifier, stream->ring);
	if (r >= 0)
		r = sd_event_add_io(control->options.event, &endpoint->outbox, mailbox_fd(stream->outbox), EPOLLIN,
		                    on_outbox, endpoint);
	if (r < 0)
		rx_endpoint_free(endpoint);
	return r < 0 ? r : 0;
}

void rx_endpoint_free(struct rx_endpoint *endpoint)
{
	TAILQ_REMOVE(&endpoint->control->rx_endpoints, endpoint, link);
	sd_event_source_disable_unref(endpoint->outbox);
	while (!LIST_EMPTY(&endpoint->sessions))
		rx_session_free(LIST_FIRST(&endpoint->sessions));
	account_free_all(endpoint);
	notifier_free(endpoint->notifier);
	free(endpoint);
}

void rx_endpoint_end(struct rx_endpoint *endpoint, enum ibvcap_disconnect reason)
{
	struct rx_session *rx;

	endpoint->ending = reason;
	LIST_FOREACH (rx, &endpoint->sessions, link)
		if (rx->session)
			daemon_disconnect(rx->consumer.state, reason);
}

void rx_endpoint_hang_up(struct rx_endpoint *endpoint)
{
	struct rx_session *rx, *next;
	struct session *session, *next_session;

	endpoint->ended = true;
	for (session = LIST_FIRST(&endpoint->control->sessions); session; session = next_session) {
		next_session = LIST_NEXT(session, link);
		if (session->tapped == endpoint)
			session_free(session);
	}
	for (rx = LIST_FIRST(&endpoint->sessions); rx; rx = next) {
		next = LIST_NEXT(rx, link);
		if (rx->session)
			session_free(rx->session);
	}
}

void rx_endpoint_retry(struct rx_endpoint *endpoint)
{
	struct rx_session *rx;

	LIST_FOREACH (rx, &endpoint->sessions, link)
		if (!rx->session && !rx->released)
			rx_session_mail_removal(rx);
}

void rx_endpoint_check_rights(struct session *session)
{
	const struct rx_endpoint *endpoint = session->rx ? session->rx->endpoint : session->tapped;
	const struct config_stream *stream = endpoint->stream->config;

	if (rights_to_receive(stream, &session->peer, geteuid()) != RIGHTS_GRANTED)
		session_revoke(session, "stream", stream->name, "receive it");
	else if (session->rx && consumer_load_policy(session->rx->consumer.state) == IBVCAP_POLICY_LOSSLESS &&
	         !rights_to_be_lossless(stream, &session->peer))
		session_revoke(session, "stream", stream->name, "be lossless");
}
