// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/tx_endpoint.h"

#include "daemon/base/log.h"
#include "daemon/control/loop.h"
#include "daemon/control/server.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MAP_US      UINT64_C(5000000) /* in which a client has to map what it was given */
#define SENDERS_MAX 4096u             /* of one worker; more than any configuration has */

/* ---- opening --------------------------------------------------------------------------------------- */

static struct tx_endpoint *find_point(struct control *control, const char *name)
{
	struct tx_endpoint *endpoint;

	TAILQ_FOREACH (endpoint, &control->tx_endpoints, link)
		if (strcmp(endpoint->channel->config->name, name) == 0 &&
		    (endpoint->ending == IBVCAP_DISCONNECT_NONE ||
		     endpoint->ending == IBVCAP_DISCONNECT_CHANNEL_FAILED))
			break;
	return endpoint;
}

/* True: the refusal was sent, with *sent as the result of that. */
static bool is_refused_by_rights(struct session *session, const struct config_channel *channel, int *sent)
{
	switch (rights_to_send(channel, &session->peer, geteuid())) {
	case RIGHTS_GRANTED:
		return false;
	case RIGHTS_DAEMONS_USER:
		*sent = session_send_error(
			session, -EACCES,
			"channel '%s': refused to user %u, which is the daemon's own: it could write what the "
			"daemon tells its senders; open it as another user",
			channel->name, (unsigned)session->peer.uid);
		return true;
	case RIGHTS_NOT_LISTED:
		break;
	}
	*sent = session_send_error(
		session, -EACCES,
		"channel '%s': not for user %u; the administrator names users and groups in the channel's "
		"configuration, %s:%d",
		channel->name, (unsigned)session->peer.uid, channel->file, channel->line);
	return true;
}

/* Those on their way out count: what they hold is not back yet. */
static uint32_t count_of_user(const struct tx_endpoint *endpoint, uid_t uid)
{
	const struct tx_session *tx;
	uint32_t n = 0;

	LIST_FOREACH (tx, &endpoint->sessions, link)
		n += tx->uid == uid;
	return n;
}

#define ENDED_TEXT_MAX 256

/* No limit cuts that short: a reset of the queue would cost the others their packets. */
static const char *explain_ended(const struct tx_endpoint *endpoint, char text[ENDED_TEXT_MAX])
{
	const struct tx_session *tx, *keeper = NULL;
	uint32_t n_ended = 0, n_kept = 0;
	int n = 0;

	LIST_FOREACH (tx, &endpoint->sessions, link) {
		if (tx->doing == TX_SESSION_RETAINED) {
			n_kept++;
			keeper = tx;
		} else if (!tx->session) {
			n_ended++;
		}
	}
	text[0] = 0;
	if (n_ended)
		n = snprintf(text, ENDED_TEXT_MAX,
		             " (%u of all have ended, and count until the device has sent what it has of theirs)",
		             n_ended);
	if (keeper)
		snprintf(
			text + n, ENDED_TEXT_MAX - (size_t)n,
			" (%u of all have hung up and keep their memory, and count until they unmap it or end: process "
			"%d, which opened the channel, or one it gave the memory to)",
			n_kept, (int)keeper->pid);
	return text;
}

void tx_endpoint_free_retained(struct tx_endpoint *endpoint)
{
	struct tx_session *tx, *next;

	for (tx = LIST_FIRST(&endpoint->sessions); tx; tx = next) {
		next = LIST_NEXT(tx, link);
		if (tx->doing == TX_SESSION_RETAINED)
			tx_session_free(tx);
	}
}

static bool is_refused_by_quota(struct session *session, const struct tx_endpoint *endpoint, int *sent)
{
	const struct config_channel *channel = endpoint->channel->config;
	uint32_t n = count_of_user(endpoint, session->peer.uid);
	char ended[ENDED_TEXT_MAX];

	if (endpoint->ending == IBVCAP_DISCONNECT_CHANNEL_FAILED)
		*sent = session_send_error(
			session, -EIO,
			"channel '%s': its send queue on device %s failed and cannot go on; ask the administrator "
			"to take the channel out of %s, systemctl reload ibvcapd, put it in again, and reload again",
			channel->name, endpoint->channel->device, channel->file);
	else if (endpoint->ended || !session->control->listening) /* control_stop_accepting() */
		*sent = session_send_error(session, -EAGAIN, "channel '%s': the daemon is stopping", channel->name);
	else if (endpoint->n_sessions >= channel->max_senders)
		*sent = session_send_error(session, -EAGAIN,
		                           "channel '%s': all %u senders it is configured for (max_senders) have it "
		                           "open%s; wait for one to "
		                           "leave, or ask the administrator to raise it in %s",
		                           channel->name, channel->max_senders, explain_ended(endpoint, ended),
		                           channel->file);
	else if (session->peer.uid != 0 && n >= channel->max_senders_per_user)
		*sent = session_send_error(session, -EAGAIN,
		                           "channel '%s': user %u has it open %u times and max_senders_per_user is "
		                           "%u%s; close one, or ask "
		                           "the administrator to raise it in %s",
		                           channel->name, (unsigned)session->peer.uid, n, channel->max_senders_per_user,
		                           explain_ended(endpoint, ended), channel->file);
	else
		return false;
	return true;
}

int tx_endpoint_open(struct session *session, const struct protocol_open_channel *request)
{
	struct tx_endpoint *endpoint = find_point(session->control, request->channel);
	int sent;

	if (session_is_in_use(session))
		return session_send_error(
			session, -EALREADY,
			"this connection is attached or sends already: one ring or channel a connection");
	if (request->abi_major != IBVCAP_ABI_MAJOR)
		return session_send_error(session, -EPROTO, "shared memory ABI %u.%u asked for, the daemon has %u.%u",
		                          request->abi_major, request->abi_minor, IBVCAP_ABI_MAJOR, IBVCAP_ABI_MINOR);
	if (!endpoint)
		return session_send_error(session, -ESRCH, "no channel '%s'; 'ibvcap status' lists those there are",
		                          request->channel);
	tx_endpoint_free_retained(endpoint);
	if (is_refused_by_rights(session, endpoint->channel->config, &sent) ||
	    is_refused_by_quota(session, endpoint, &sent))
		return sent;
	if (tx_session_new(session, endpoint) < 0)
		return session_send_error(session, -ENOMEM, "channel '%s': out of memory", request->channel);
	return 0;
}

int tx_endpoint_mapped(struct session *session)
{
	struct tx_session *tx = session->tx;

	if (!tx || tx->sealed)
		return session_send_error(session, -EPROTO,
		                          "nothing that was given to this connection is to be mapped");
	tx_session_lend(tx);
	return 0;
}

/* ---- the worker's answers ---------------------------------------------------------------------------- */

static void sender_added(struct tx_session *tx, int error)
{
	struct session *session = tx->session;
	struct protocol_ready ready;
	int r;

	tx->awaits_answer = false;
	if (error < 0) {
		const char *name = tx->endpoint->channel->config->name;

		if (!tx->remove_mailed)
			tx_session_free(tx);
		if (!session)
			return;
		r = session_send_error(session, error, "channel '%s': its worker cannot take another sender: %s", name,
		                       strerror(-error));
	} else {
		if (!session) /* hung up meanwhile: its removal is on the way */
			return;
		tx->served = true;
		session_resume(session);
		protocol_init(&ready.header, PROTOCOL_READY, sizeof(ready));
		r = session_send(session, &ready.header, NULL, 0);
	}
	if (r < 0)
		session_free(session);
}

/* The worker has put it out already, all that it had submitted is accounted for. */
static void sender_bad(struct tx_session *tx, const struct mail *mail)
{
	struct tx_endpoint *endpoint = tx->endpoint;
	struct session *session = tx->session;

	if (loop_should_log(++endpoint->n_bad))
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_SENDER_BAD,
		                                .channel = endpoint->channel->config->name,
		                                .peer = "SENDER",
		                                .pid = tx->pid,
		                                .uid = tx->uid},
		            "channel '%s': sender process %d of user %u broke the rules of its page (reason %u): "
		            "put out (%llu so far)",
		            endpoint->channel->config->name, (int)tx->pid, (unsigned)tx->uid, mail->reason,
		            (unsigned long long)endpoint->n_bad);
	daemon_disconnect_sender(tx->sender.state, mail->reason);
	if (tx->remove_mailed) /* MAIL_SENDER_REMOVED is still to come */
		return;
	tx_session_free(tx);
	session_free(session);
}

/* Whoever has it finds out why from its state; who waits to be given it has none to look at. */
static void tell_waiting(const struct tx_session *tx)
{
	if (!tx->served)
		session_send_error(tx->session, -ENODEV, TX_SESSION_CHANNEL_ENDS, tx->channel);
}

/* Its senders are control's, but for those of which the worker is still to say something. */
static void channel_gone(struct tx_endpoint *endpoint)
{
	struct tx_session *tx, *next;

	endpoint->ended = true;
	if (endpoint->ending == IBVCAP_DISCONNECT_NONE)
		endpoint->ending = IBVCAP_DISCONNECT_SHUTDOWN;
	for (tx = LIST_FIRST(&endpoint->sessions); tx; tx = next) {
		next = LIST_NEXT(tx, link);
		if (tx->session) {
			tell_waiting(tx);
			session_free(tx->session);
		} else if (!tx_session_awaits_mail(tx)) {
			tx_session_free(tx); /* now, or after its job */
		}
	}
}

/* Whoever made the channel hears of it first: its queue goes before any memory does. */
static void take_channel_mail(struct tx_worker_endpoint *worker, const struct mail *mail)
{
	struct tx_endpoint *endpoint;

	worker->worker->said(worker->worker->context, mail);
	if (mail->type == MAIL_TX_QUEUE_ADDED && mail->error == 0)
		return;
	TAILQ_FOREACH (endpoint, &worker->control->tx_endpoints, link)
		if (endpoint->channel->channel == mail->tx_queue)
			break;
	if (!endpoint)
		return;
	if (mail->type != MAIL_TX_QUEUE_REMOVED)
		endpoint->ending = IBVCAP_DISCONNECT_CHANNEL_FAILED;
	channel_gone(endpoint);
}

/* What was submitted by then is accounted for, and its senders are told that it was the last. */
static void worker_ended(struct tx_worker_endpoint *worker, const struct mail *mail)
{
	struct tx_endpoint *endpoint;
	struct tx_session *tx;

	worker->ended = true;
	TAILQ_FOREACH (endpoint, &worker->control->tx_endpoints, link) {
		if (endpoint->worker != worker)
			continue;
		endpoint->ended = true;
		if (endpoint->ending == IBVCAP_DISCONNECT_NONE)
			endpoint->ending = IBVCAP_DISCONNECT_SHUTDOWN;
		LIST_FOREACH (tx, &endpoint->sessions, link)
			if (tx->served)
				daemon_disconnect_sender(tx->sender.state, endpoint->ending);
	}
	eventfd_write(worker->worker->doorbell, 1);
	worker->worker->said(worker->worker->context, mail);
}

/* Of a channel that failed the device may still read: channel_gone() frees it, once the queue is destroyed. */
static void sender_removed(struct tx_session *tx, int error)
{
	tx->lent = false;
	tx->remove_mailed = false;
	if (error == 0 || tx->endpoint->ended)
		tx_session_free(tx);
}

static struct tx_session *tx_session_of(const struct mail *mail)
{
	return (struct tx_session *)((char *)mail->sender - offsetof(struct tx_session, sender));
}

static void take_mail(struct tx_worker_endpoint *worker, const struct mail *mail)
{
	switch (mail->type) {
	case MAIL_SENDER_ADDED:
		sender_added(tx_session_of(mail), mail->error);
		break;
	case MAIL_SENDER_REMOVED:
		sender_removed(tx_session_of(mail), mail->error);
		break;
	case MAIL_SENDER_BAD:
		sender_bad(tx_session_of(mail), mail);
		break;
	case MAIL_TX_QUEUE_ADDED:
	case MAIL_TX_QUEUE_REMOVED:
	case MAIL_TX_QUEUE_FAILED:
		take_channel_mail(worker, mail);
		break;
	case MAIL_STOPPED:
	case MAIL_FAILED:
		worker_ended(worker, mail);
		break;
	default:
		break;
	}
}

static int on_outbox(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct tx_worker_endpoint *worker = context;
	struct mail mail;

	(void)source;
	(void)fd;
	(void)events;
	mailbox_clear(worker->worker->outbox);
	while (mailbox_receive(worker->worker->outbox, &mail))
		take_mail(worker, &mail);
	return 0;
}

/* ---- endpoints ------------------------------------------------------------------------------------------ */

int tx_worker_endpoint_new(struct control *control, const struct control_tx_worker *worker)
{
	struct tx_worker_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int r;

	if (!endpoint)
		return -ENOMEM;
	endpoint->control = control;
	endpoint->worker = worker;
	TAILQ_INSERT_TAIL(&control->tx_workers, endpoint, link);
	r = notifier_new_of_senders(&endpoint->notifier, worker->doorbell, SENDERS_MAX);
	if (r >= 0)
		r = background_new(&endpoint->memory, control->options.event, "tx-memory");
	if (r >= 0)
		heartbeat_watch(control->options.heartbeats, background_heartbeat(endpoint->memory),
		                "interface '%s': the thread that makes its senders' memory", worker->interface);
	if (r >= 0)
		r = sd_event_add_io(control->options.event, &endpoint->outbox, mailbox_fd(worker->outbox), EPOLLIN,
		                    on_outbox, endpoint);
	if (r < 0)
		tx_worker_endpoint_free(endpoint);
	return r < 0 ? r : 0;
}

void tx_worker_endpoint_free(struct tx_worker_endpoint *endpoint)
{
	TAILQ_REMOVE(&endpoint->control->tx_workers, endpoint, link);
	sd_event_source_disable_unref(endpoint->outbox);
	background_free(endpoint->memory);
	notifier_free(endpoint->notifier);
	free(endpoint);
}

int tx_endpoint_new(struct tx_worker_endpoint *worker, const struct control_channel *channel)
{
	struct tx_endpoint *endpoint = calloc(1, sizeof(*endpoint));

	if (!endpoint)
		return -ENOMEM;
	endpoint->worker = worker;
	endpoint->channel = channel;
	LIST_INIT(&endpoint->sessions);
	TAILQ_INSERT_TAIL(&worker->control->tx_endpoints, endpoint, link);
	return 0;
}

void tx_endpoint_take_all(struct tx_endpoint *endpoint)
{
	channel_gone(endpoint);
	background_drain(endpoint->worker->memory);
}

void tx_endpoint_free(struct tx_endpoint *endpoint)
{
	TAILQ_REMOVE(&endpoint->worker->control->tx_endpoints, endpoint, link);
	free(endpoint);
}

void tx_endpoint_end(struct tx_endpoint *endpoint, enum ibvcap_disconnect reason)
{
	endpoint->ending = reason;
}

void tx_endpoint_tick(struct tx_endpoint *endpoint, uint64_t now_us)
{
	struct tx_session *tx, *next;

	for (tx = LIST_FIRST(&endpoint->sessions); tx; tx = next) {
		next = LIST_NEXT(tx, link);
		tx_session_retry(tx);
		if (now_us < MAP_US || !tx_session_waits_since(tx, now_us - MAP_US))
			continue;
		session_send_error(tx->session, -ETIMEDOUT, "channel '%s': its memory was not mapped within %u s",
		                   endpoint->channel->config->name, (unsigned)(MAP_US / 1000000));
		session_free(tx->session);
	}
}

void tx_endpoint_check_rights(struct session *session)
{
	const struct config_channel *channel = session->tx->endpoint->channel->config;

	if (rights_to_send(channel, &session->peer, geteuid()) != RIGHTS_GRANTED)
		session_revoke(session, "channel", channel->name, "send on it");
}
