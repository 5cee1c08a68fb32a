// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/channel_point.h"

#include "daemon/base/log.h"
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

static struct channel_point *find_point(struct control *control, const char *name)
{
	struct channel_point *point;

	TAILQ_FOREACH (point, &control->channels, link)
		if (strcmp(point->channel->config->name, name) == 0 &&
		    (point->ending == IBVCAP_REASON_NONE || point->ending == IBVCAP_REASON_CHANNEL_FAILED))
			break;
	return point;
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
static uint32_t count_of_user(const struct channel_point *point, uid_t uid)
{
	const struct sending *sending;
	uint32_t n = 0;

	LIST_FOREACH (sending, &point->sendings, link)
		n += sending->uid == uid;
	return n;
}

#define ENDED_TEXT_MAX 256

/* No limit cuts that short: a reset of the queue would cost the others their packets. */
static const char *explain_ended(const struct channel_point *point, char text[ENDED_TEXT_MAX])
{
	const struct sending *sending, *keeper = NULL;
	uint32_t n_ended = 0, n_kept = 0;
	int n = 0;

	LIST_FOREACH (sending, &point->sendings, link) {
		if (sending->doing == SENDING_KEPT) {
			n_kept++;
			keeper = sending;
		} else if (!sending->session) {
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

void channel_point_forget_let_go(struct channel_point *point)
{
	struct sending *sending, *next;

	for (sending = LIST_FIRST(&point->sendings); sending; sending = next) {
		next = LIST_NEXT(sending, link);
		if (sending->doing == SENDING_KEPT)
			sending_free(sending);
	}
}

static bool is_refused_by_quota(struct session *session, const struct channel_point *point, int *sent)
{
	const struct config_channel *channel = point->channel->config;
	uint32_t n = count_of_user(point, session->peer.uid);
	char ended[ENDED_TEXT_MAX];

	if (point->ending == IBVCAP_REASON_CHANNEL_FAILED)
		*sent = session_send_error(
			session, -EIO,
			"channel '%s': its send queue on device %s failed and cannot go on; ask the administrator "
			"to take the channel out of %s, systemctl reload ibvcapd, put it in again, and reload again",
			channel->name, point->channel->device, channel->file);
	else if (point->ended || !session->control->listening) /* control_stop_accepting() */
		*sent = session_send_error(session, -EAGAIN, "channel '%s': the daemon is stopping", channel->name);
	else if (point->n_sendings >= channel->max_senders)
		*sent = session_send_error(session, -EAGAIN,
		                           "channel '%s': all %u senders it is configured for (max_senders) have it "
		                           "open%s; wait for one to "
		                           "leave, or ask the administrator to raise it in %s",
		                           channel->name, channel->max_senders, explain_ended(point, ended),
		                           channel->file);
	else if (session->peer.uid != 0 && n >= channel->max_senders_per_user)
		*sent = session_send_error(session, -EAGAIN,
		                           "channel '%s': user %u has it open %u times and max_senders_per_user is "
		                           "%u%s; close one, or ask "
		                           "the administrator to raise it in %s",
		                           channel->name, (unsigned)session->peer.uid, n, channel->max_senders_per_user,
		                           explain_ended(point, ended), channel->file);
	else
		return false;
	return true;
}

int channel_open_request(struct session *session, const struct wire_open_channel *request)
{
	struct channel_point *point = find_point(session->control, request->channel);
	int sent;

	if (session->attachment || session->tapped || session->sending)
		return session_send_error(
			session, -EALREADY,
			"this connection is attached or sends already: one ring or channel a connection");
	if (request->abi_major != IBVCAP_ABI_MAJOR)
		return session_send_error(session, -EPROTO, "shared memory ABI %u.%u asked for, the daemon has %u.%u",
		                          request->abi_major, request->abi_minor, IBVCAP_ABI_MAJOR, IBVCAP_ABI_MINOR);
	if (!point)
		return session_send_error(session, -ESRCH, "no channel '%s'; 'ibvcap status' lists those there are",
		                          request->channel);
	channel_point_forget_let_go(point);
	if (is_refused_by_rights(session, point->channel->config, &sent) || is_refused_by_quota(session, point, &sent))
		return sent;
	if (sending_new(session, point) < 0)
		return session_send_error(session, -ENOMEM, "channel '%s': out of memory", request->channel);
	return 0;
}

int channel_mapped_request(struct session *session)
{
	struct sending *sending = session->sending;

	if (!sending || sending->sealed)
		return session_send_error(session, -EPROTO,
		                          "nothing that was given to this connection is to be mapped");
	sending_lend(sending);
	return 0;
}

/* ---- the worker's answers ---------------------------------------------------------------------------- */

static void sender_added(struct sending *sending, int error)
{
	struct session *session = sending->session;
	struct wire_ready ready;
	int r;

	sending->awaits_answer = false;
	if (error < 0) {
		const char *name = sending->point->channel->config->name;

		if (!sending->remove_mailed)
			sending_free(sending);
		if (!session)
			return;
		r = session_send_error(session, error, "channel '%s': its worker cannot take another sender: %s", name,
		                       strerror(-error));
	} else {
		if (!session) /* hung up meanwhile: its removal is on the way */
			return;
		sending->served = true;
		session_resume(session);
		wire_init(&ready.header, WIRE_READY, sizeof(ready));
		r = session_send(session, &ready.header, NULL, 0);
	}
	if (r < 0)
		session_free(session);
}

/* The worker has put it out already, all that it had submitted is accounted for. */
static void sender_bad(struct sending *sending, const struct mail *mail)
{
	struct channel_point *point = sending->point;
	struct session *session = sending->session;

	if (control_should_log(++point->n_bad))
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_SENDER_BAD,
		                                .channel = point->channel->config->name,
		                                .peer = "SENDER",
		                                .pid = sending->pid,
		                                .uid = sending->uid},
		            "channel '%s': sender process %d of user %u broke the rules of its page (reason %u): "
		            "put out (%llu so far)",
		            point->channel->config->name, (int)sending->pid, (unsigned)sending->uid, mail->reason,
		            (unsigned long long)point->n_bad);
	daemon_disconnect_sender(sending->sender.state, mail->reason);
	if (sending->remove_mailed) /* MAIL_SENDER_REMOVED is still to come */
		return;
	sending_free(sending);
	session_free(session);
}

/* Whoever has it finds out why from its state; who waits to be given it has none to look at. */
static void tell_waiting(const struct sending *sending)
{
	if (!sending->served)
		session_send_error(sending->session, -ENODEV, SENDING_CHANNEL_ENDS, sending->channel);
}

/* Its senders are control's, but for those of which the worker is still to say something. */
static void channel_gone(struct channel_point *point)
{
	struct sending *sending, *next;

	point->ended = true;
	if (point->ending == IBVCAP_REASON_NONE)
		point->ending = IBVCAP_REASON_SHUTDOWN;
	for (sending = LIST_FIRST(&point->sendings); sending; sending = next) {
		next = LIST_NEXT(sending, link);
		if (sending->session) {
			tell_waiting(sending);
			session_free(sending->session);
		} else if (!sending_awaits_mail(sending)) {
			sending_free(sending); /* now, or after its job */
		}
	}
}

/* Whoever made the channel hears of it first: its queue goes before any memory does. */
static void take_channel_mail(struct transmit_point *transmit, const struct mail *mail)
{
	struct channel_point *point;

	transmit->transmit->said(transmit->transmit->context, mail);
	if (mail->type == MAIL_TX_QUEUE_ADDED && mail->error == 0)
		return;
	TAILQ_FOREACH (point, &transmit->control->channels, link)
		if (point->channel->channel == mail->tx_queue)
			break;
	if (!point)
		return;
	if (mail->type != MAIL_TX_QUEUE_REMOVED)
		point->ending = IBVCAP_REASON_CHANNEL_FAILED;
	channel_gone(point);
}

/* What was submitted by then is accounted for, and its senders are told that it was the last. */
static void worker_ended(struct transmit_point *transmit, const struct mail *mail)
{
	struct channel_point *point;
	struct sending *sending;

	transmit->ended = true;
	TAILQ_FOREACH (point, &transmit->control->channels, link) {
		if (point->transmit != transmit)
			continue;
		point->ended = true;
		if (point->ending == IBVCAP_REASON_NONE)
			point->ending = IBVCAP_REASON_SHUTDOWN;
		LIST_FOREACH (sending, &point->sendings, link)
			if (sending->served)
				daemon_disconnect_sender(sending->sender.state, point->ending);
	}
	eventfd_write(transmit->transmit->doorbell, 1);
	transmit->transmit->said(transmit->transmit->context, mail);
}

/* Of a channel that failed the device may still read: channel_gone() frees it, once the queue is destroyed. */
static void sender_removed(struct sending *sending, int error)
{
	sending->lent = false;
	sending->remove_mailed = false;
	if (error == 0 || sending->point->ended)
		sending_free(sending);
}

static struct sending *sending_of(const struct mail *mail)
{
	return (struct sending *)((char *)mail->sender - offsetof(struct sending, sender));
}

static void take_mail(struct transmit_point *transmit, const struct mail *mail)
{
	switch (mail->type) {
	case MAIL_SENDER_ADDED:
		sender_added(sending_of(mail), mail->error);
		break;
	case MAIL_SENDER_REMOVED:
		sender_removed(sending_of(mail), mail->error);
		break;
	case MAIL_SENDER_BAD:
		sender_bad(sending_of(mail), mail);
		break;
	case MAIL_TX_QUEUE_ADDED:
	case MAIL_TX_QUEUE_REMOVED:
	case MAIL_TX_QUEUE_FAILED:
		take_channel_mail(transmit, mail);
		break;
	case MAIL_STOPPED:
	case MAIL_FAILED:
		worker_ended(transmit, mail);
		break;
	default:
		break;
	}
}

static int on_outbox(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct transmit_point *transmit = context;
	struct mail mail;

	(void)source;
	(void)fd;
	(void)events;
	mailbox_clear(transmit->transmit->outbox);
	while (mailbox_receive(transmit->transmit->outbox, &mail))
		take_mail(transmit, &mail);
	return 0;
}

/* ---- points ------------------------------------------------------------------------------------------ */

int transmit_point_new(struct control *control, const struct control_transmit *transmit)
{
	struct transmit_point *point = calloc(1, sizeof(*point));
	int r;

	if (!point)
		return -ENOMEM;
	point->control = control;
	point->transmit = transmit;
	TAILQ_INSERT_TAIL(&control->transmits, point, link);
	r = notifier_new_of_senders(&point->notifier, transmit->doorbell, SENDERS_MAX);
	if (r >= 0)
		r = preparer_new(&point->preparer, control->options.event);
	if (r >= 0)
		r = sd_event_add_io(control->options.event, &point->outbox, mailbox_fd(transmit->outbox), EPOLLIN,
		                    on_outbox, point);
	if (r < 0)
		transmit_point_free(point);
	return r < 0 ? r : 0;
}

void transmit_point_free(struct transmit_point *point)
{
	TAILQ_REMOVE(&point->control->transmits, point, link);
	sd_event_source_disable_unref(point->outbox);
	preparer_free(point->preparer);
	notifier_free(point->notifier);
	free(point);
}

int channel_point_new(struct transmit_point *transmit, const struct control_channel *channel)
{
	struct channel_point *point = calloc(1, sizeof(*point));

	if (!point)
		return -ENOMEM;
	point->transmit = transmit;
	point->channel = channel;
	LIST_INIT(&point->sendings);
	TAILQ_INSERT_TAIL(&transmit->control->channels, point, link);
	return 0;
}

void channel_point_take_all(struct channel_point *point)
{
	channel_gone(point);
	preparer_drain(point->transmit->preparer);
}

void channel_point_free(struct channel_point *point)
{
	TAILQ_REMOVE(&point->transmit->control->channels, point, link);
	free(point);
}

void channel_point_end(struct channel_point *point, enum ibvcap_disconnect_reason reason)
{
	point->ending = reason;
}

void channel_point_tick(struct channel_point *point, uint64_t now_us)
{
	struct sending *sending, *next;

	for (sending = LIST_FIRST(&point->sendings); sending; sending = next) {
		next = LIST_NEXT(sending, link);
		sending_retry(sending);
		if (now_us < MAP_US || !sending_waits_since(sending, now_us - MAP_US))
			continue;
		session_send_error(sending->session, -ETIMEDOUT, "channel '%s': its memory was not mapped within %u s",
		                   point->channel->config->name, (unsigned)(MAP_US / 1000000));
		session_free(sending->session);
	}
}
