// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/attach.h"

#include "daemon/base/log.h"
#include "daemon/control/quota.h"
#include "daemon/control/server.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- leaving ------------------------------------------------------------------------------------- */

/* A full mailbox is tried again by attach_point_retry(). */
static void mail_removal(struct attachment *attachment)
{
	struct mail mail = {.type = MAIL_REMOVE_CONSUMER, .consumer = &attachment->consumer};

	if (!attachment->point->ended && !attachment->remove_mailed)
		attachment->remove_mailed = mailbox_send(attachment->point->ring->inbox, &mail) == 0;
}

static enum ibvcap_disconnect_reason reason_to_hang_up(const struct attach_point *point)
{
	if (!point->ended)
		return IBVCAP_REASON_HUNG_UP;
	return point->ending != IBVCAP_REASON_NONE ? point->ending : IBVCAP_REASON_SHUTDOWN;
}

void attach_hang_up(struct attachment *attachment)
{
	enum ibvcap_disconnect_reason reason = attachment->session->reason;

	attachment->session->attachment = NULL;
	attachment->session = NULL;
	attachment->served = false;
	/* It may live on and read: it has to know before its leases end that they do. */
	daemon_disconnect(attachment->consumer.state,
	                  reason != IBVCAP_REASON_NONE ? reason : reason_to_hang_up(attachment->point));
	notifier_remove(attachment->point->notifier, attachment->consumer.page);
	mail_removal(attachment);
}

/* ---- the request --------------------------------------------------------------------------------- */

static struct attach_point *find_point(struct control *control, const char *stream, uint32_t queue, bool *has_stream)
{
	struct attach_point *point;

	*has_stream = false;
	TAILQ_FOREACH (point, &control->points, link) {
		if (point->ending != IBVCAP_REASON_NONE || strcmp(point->ring->config->name, stream) != 0)
			continue;
		*has_stream = true;
		if (point->ring->queue == queue)
			return point;
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

static bool is_refused_by_quota(struct session *session, const struct attach_point *point,
                                const struct wire_attach *request, int *sent)
{
	const struct config_stream *stream = point->ring->config;
	uint32_t lease_blocks = request->lease_blocks ? request->lease_blocks : stream->lease_blocks;
	char why[WIRE_TEXT_MAX], kept[QUOTA_KEPT_MAX];

	if (point->ended || !session->control->listening) { /* control_stop_accepting() */
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
	} else if (point->n_attachments >= stream->max_consumers) {
		*sent = session_send_error(
			session, -EAGAIN,
			"stream '%s': all %u consumers it is configured for (max_consumers) are attached%s; wait "
			"for one to leave, or ask the administrator to raise it in %s and restart",
			stream->name, stream->max_consumers, quota_explain_kept(point, kept, sizeof(kept)),
			stream->file);
	} else if (quota_forbids(point, &session->peer, lease_blocks, why, sizeof(why))) {
		*sent = session_send_error(session, -EAGAIN, "stream '%s': %s", stream->name, why);
	} else {
		return false;
	}
	return true;
}

static int lend_to_worker(struct session *session, struct attach_point *point, const struct wire_attach *request)
{
	const struct config_stream *stream = point->ring->config;
	uint32_t lease_blocks = request->lease_blocks ? request->lease_blocks : stream->lease_blocks;
	struct attachment *attachment = NULL;
	int r = attachment_new(&attachment, point, &session->peer, lease_blocks, request->policy);

	if (r < 0)
		return session_send_error(session, r, "stream '%s': the consumer's pages cannot be made: %s",
		                          stream->name, strerror(-r));
	struct mail mail = {.type = MAIL_ADD_CONSUMER, .consumer = &attachment->consumer};

	attachment->consumer.start = (struct start){request->start, request->start_value};
	r = mailbox_send(point->ring->inbox, &mail);
	if (r < 0) {
		attachment_free(attachment);
		return session_send_error(session, r, "stream '%s': its worker has too much mail; try again",
		                          stream->name);
	}
	attachment->session = session;
	session->attachment = attachment;
	return 0;
}

static void list_reader(struct session *session, const struct attach_point *point)
{
	session->reader = readers_add(session->control->options.readers, session->peer.pid, session->peer.uid,
	                              point->ring->config->name);
}

/* It has no page and no lease: the worker need not know, and it takes no consumer's place. */
static int attach_tap(struct session *session, const struct attach_point *point)
{
	if (point->ended || !session->control->listening)
		return session_send_error(session, -EAGAIN, "stream '%s': the daemon is stopping",
		                          point->ring->config->name);
	session->tapped = point;
	list_reader(session, point);
	session_resume(session);
	return attachment_send_tap(session, point);
}

int attach_request(struct session *session, const struct wire_attach *request)
{
	bool has_stream;
	struct attach_point *point = find_point(session->control, request->stream, request->queue, &has_stream);
	int sent;

	if (session->attachment || session->tapped || session->sending)
		return session_send_error(
			session, -EALREADY,
			"this connection is attached or sends already: one ring or channel a connection");
	if (request->abi_major != IBVCAP_ABI_MAJOR)
		return session_send_error(session, -EPROTO, "shared memory ABI %u.%u asked for, the daemon has %u.%u",
		                          request->abi_major, request->abi_minor, IBVCAP_ABI_MAJOR, IBVCAP_ABI_MINOR);
	if (!has_stream)
		return session_send_error(session, -ESRCH, "no stream '%s'; 'ibvcap status' lists those there are",
		                          request->stream);
	if (!point)
		return session_send_error(session, -EINVAL, "stream '%s' has no queue %u", request->stream,
		                          request->queue);
	if (is_refused_by_rights(session, point->ring->config, &sent))
		return sent;
	if (request->policy == IBVCAP_POLICY_TAP)
		return attach_tap(session, point);
	attachment_forget_let_go(point);
	if (is_refused_by_quota(session, point, request, &sent))
		return sent;
	return lend_to_worker(session, point, request);
}

/* ---- the worker's answers ------------------------------------------------------------------------ */

static void consumer_added(struct attachment *attachment, int error)
{
	struct session *session = attachment->session;
	const char *stream = attachment->point->ring->config->name;
	int r;

	if (!session) /* hung up meanwhile: its removal is on the way */
		return;
	if (error < 0) {
		attachment_free(attachment);
		r = session_send_error(session, error, "stream '%s': its worker cannot take another consumer: %s",
		                       stream, strerror(-error));
	} else {
		attachment->served = true;
		if (attachment->point->ending != IBVCAP_REASON_NONE)
			daemon_disconnect(attachment->consumer.state, attachment->point->ending);
		list_reader(session, attachment->point);
		session_resume(session);
		r = attachment_send(attachment);
	}
	if (r < 0)
		session_free(session);
}

/* The worker has put it out of the ring already. */
static void consumer_bad(struct attachment *attachment, const struct mail *mail)
{
	struct attach_point *point = attachment->point;
	struct session *session = attachment->session;

	if (control_should_log(++point->n_bad))
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_CONSUMER_BAD,
		                                .stream = point->ring->config->name,
		                                .peer = "CONSUMER",
		                                .pid = attachment->pid,
		                                .uid = attachment->uid},
		            "stream '%s': consumer process %d of user %u broke the rules of its page (reason %u): "
		            "disconnected (%llu so far)",
		            point->ring->config->name, (int)attachment->pid, (unsigned)attachment->uid, mail->reason,
		            (unsigned long long)point->n_bad);
	daemon_disconnect(attachment->consumer.state, mail->reason);
	if (attachment->remove_mailed) /* MAIL_CONSUMER_REMOVED is still to come */
		return;
	attachment_release(attachment);
	session_free(session);
}

/* It may be on its way out already; its memory is the worker's until MAIL_CONSUMER_REMOVED. */
static void consumer_demoted(const struct attachment *attachment)
{
	struct attach_point *point = attachment->point;

	if (control_should_log(++point->n_demoted))
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_CONSUMER_DEMOTED,
		                                .stream = point->ring->config->name,
		                                .peer = "CONSUMER",
		                                .pid = attachment->pid,
		                                .uid = attachment->uid},
		            "stream '%s': consumer process %d of user %u kept the queue waiting for more than %llu ms "
		            "(lossless_deadline_ms): lossy from now on (%llu so far)",
		            point->ring->config->name, (int)attachment->pid, (unsigned)attachment->uid,
		            (unsigned long long)attachment->consumer.deadline_ns / 1000000,
		            (unsigned long long)point->n_demoted);
}

static void take_mail(struct attach_point *point, const struct mail *mail)
{
	struct attachment *attachment = NULL;

	if (mail->type != MAIL_STOPPED && mail->type != MAIL_FAILED)
		attachment = (struct attachment *)((char *)mail->consumer - offsetof(struct attachment, consumer));
	switch (mail->type) {
	case MAIL_CONSUMER_ADDED:
		consumer_added(attachment, mail->error);
		break;
	case MAIL_CONSUMER_REMOVED:
		attachment_release(attachment);
		break;
	case MAIL_CONSUMER_DEMOTED:
		consumer_demoted(attachment);
		break;
	case MAIL_CONSUMER_BAD:
		consumer_bad(attachment, mail);
		break;
	case MAIL_STOPPED:
	case MAIL_FAILED:
		point->ended = true;
		point->control->options.worker_ended(point->control->options.context, point->ring, mail->error);
		break;
	default:
		break;
	}
}

static int on_outbox(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct attach_point *point = context;
	struct mail mail;

	(void)source;
	(void)fd;
	(void)events;
	mailbox_clear(point->ring->outbox);
	while (mailbox_receive(point->ring->outbox, &mail))
		take_mail(point, &mail);
	return 0;
}

/* ---- the point ----------------------------------------------------------------------------------- */

int attach_point_new(struct control *control, const struct control_ring *ring)
{
	struct attach_point *point = calloc(1, sizeof(*point));
	int r;

	if (!point)
		return -ENOMEM;
	point->control = control;
	point->ring = ring;
	LIST_INIT(&point->attachments);
	TAILQ_INSERT_TAIL(&control->points, point, link);
	r = notifier_new(&point->notifier, ring->ring);
	if (r >= 0)
		r = sd_event_add_io(control->options.event, &point->outbox, mailbox_fd(ring->outbox), EPOLLIN,
		                    on_outbox, point);
	if (r < 0)
		attach_point_free(point);
	return r < 0 ? r : 0;
}

void attach_point_free(struct attach_point *point)
{
	TAILQ_REMOVE(&point->control->points, point, link);
	sd_event_source_disable_unref(point->outbox);
	while (!LIST_EMPTY(&point->attachments))
		attachment_free(LIST_FIRST(&point->attachments));
	account_free_all(point);
	notifier_free(point->notifier);
	free(point);
}

void attach_point_end(struct attach_point *point, enum ibvcap_disconnect_reason reason)
{
	struct attachment *attachment;

	point->ending = reason;
	LIST_FOREACH (attachment, &point->attachments, link)
		if (attachment->session)
			daemon_disconnect(attachment->consumer.state, reason);
}

void attach_point_hang_up(struct attach_point *point)
{
	struct attachment *attachment, *next;
	struct session *session, *next_session;

	point->ended = true;
	for (session = LIST_FIRST(&point->control->sessions); session; session = next_session) {
		next_session = LIST_NEXT(session, link);
		if (session->tapped == point)
			session_free(session);
	}
	for (attachment = LIST_FIRST(&point->attachments); attachment; attachment = next) {
		next = LIST_NEXT(attachment, link);
		if (attachment->session)
			session_free(attachment->session);
	}
}

uint64_t attach_point_epoch(const struct attach_point *point)
{
	return point->ring->ring->ring->segment.epoch;
}

void attach_point_retry(struct attach_point *point)
{
	struct attachment *attachment;

	LIST_FOREACH (attachment, &point->attachments, link)
		if (!attachment->session && !attachment->released)
			mail_removal(attachment);
}
