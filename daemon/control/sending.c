// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/sending.h"

#include "daemon/control/channel_point.h"
#include "daemon/control/server.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the preparer's thread ---------------------------------------------------------------------------- */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static struct sending *sending_of(struct job *job)
{
	return (struct sending *)((char *)job - offsetof(struct sending, job));
}

/* Each end has its own description: what a client does to the flags of its own changes nothing here. */
static int make_socket(struct sending *sending)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return failure_set(&sending->failure, EX_OSERR, errno, "channel '%s': no socket for another sender: %s",
		                   sending->channel, strerror(errno));
	sending->theirs = ends[0];
	sending->sender.socket = ends[1];
	return 0;
}

static const struct sender no_sender = {.arena = SHM_INIT, .page_shm = SHM_INIT, .state_shm = SHM_INIT, .socket = -1};

static void make(struct job *job)
{
	struct sending *sending = sending_of(job);

	sending->result = sender_init(&sending->sender, &sending->options, &sending->failure);
	if (sending->result == 0)
		sending->result = make_socket(sending);
	else
		sending->sender = no_sender; /* where its page was, another's may be next */
}

static int seal_memory(struct sending *sending)
{
	int r = sender_seal(&sending->sender);

	if (r == -EPERM)
		return failure_set(&sending->failure, EX_NOPERM, EPERM,
		                   "channel '%s': the sender has sealed what it was given; it is not to",
		                   sending->channel);
	return r < 0 ? failure_set(&sending->failure, EX_OSERR, -r,
	                           "channel '%s': the sender's memory cannot be sealed: %s", sending->channel,
	                           strerror(-r))
	             : 0;
}

static void seal(struct job *job)
{
	struct sending *sending = sending_of(job);
	const struct control_channel *channel = sending->point->channel;

	sending->result = seal_memory(sending);
	if (sending->result == 0)
		sending->result = channel->register_arena(channel->context, &sending->sender.arena,
		                                          &sending->sender.registration, &sending->failure);
}

static void break_up(struct job *job)
{
	struct sending *sending = sending_of(job);
	const struct control_channel *channel = sending->point->channel;

	close_fd(&sending->theirs);
	if (sending->sender.registration)
		channel->unregister_arena(channel->context, sending->sender.registration);
	notifier_dispose_sender(sending->point->transmit->notifier, &sending->sender);
}

/* ---- life ------------------------------------------------------------------------------------------ */

static void done(struct job *job);

static void begin(struct sending *sending, enum sending_job doing)
{
	static void (*const works[])(struct job *) = {
		[SENDING_MAKE] = make, [SENDING_SEAL] = seal, [SENDING_BREAK] = break_up};

	sending->doing = doing;
	sending->job.work = works[doing];
	sending->job.done = done;
	sending->job.user = sending->uid;
	sending->job.bytes = (uint64_t)sending->options.n_slots * sending->options.slot_bytes;
	preparer_add(sending->point->transmit->preparer, &sending->job);
}

/* Of a channel that has ended nobody's memory counts any more. */
static void remove_broken(struct sending *sending)
{
	struct channel_point *point = sending->point;

	if (!point->ended && kept_look(&sending->kept)) {
		sending->doing = SENDING_KEPT;
		return;
	}
	kept_drop(&sending->kept);
	LIST_REMOVE(sending, link);
	free(sending);
	if (--point->n_sendings == 0 && point->ended)
		point->channel->emptied(point->channel->context);
}

static void take_back(struct sending *sending)
{
	const struct sender *sender = &sending->sender;
	const struct shm *const lent[] = {&sender->arena, &sender->page_shm, &sender->state_shm};

	kept_take(&sending->point->transmit->control->kept, &sending->kept, lent, sizeof(lent) / sizeof(lent[0]));
	begin(sending, SENDING_BREAK);
}

void sending_free(struct sending *sending)
{
	if (sending->session)
		sending->session->sending = NULL;
	sending->session = NULL;
	sending->served = false;
	if (sending->doing == SENDING_NO_JOB)
		take_back(sending);
	else if (sending->doing == SENDING_KEPT)
		remove_broken(sending);
}

static struct sender_options sender_options(const struct sending *sending)
{
	const struct control_channel *channel = sending->point->channel;
	const struct config_channel *config = channel->config;

	return (struct sender_options){
		.channel = sending->channel,
		.epoch = channel->epoch,
		.n_slots = config->arena_slots,
		.slot_bytes = config->payload_size,
		.n_destinations = config->n_destinations,
		.page_bytes = config->page_bytes,
		.rate_bps = config->rate_limit_bps,
		.burst_bytes = config->burst_bytes,
		.late_after_ns = config->late_after_us * UINT64_C(1000),
	};
}

int sending_new(struct session *session, struct channel_point *point)
{
	struct sending *sending = calloc(1, sizeof(*sending));

	if (!sending)
		return -ENOMEM;
	sending->point = point;
	sending->theirs = -1;
	sending->sender = no_sender;
	sending->pid = session->peer.pid;
	sending->uid = session->peer.uid;
	snprintf(sending->channel, sizeof(sending->channel), "%s", point->channel->config->name);
	sending->options = sender_options(sending);
	LIST_INSERT_HEAD(&point->sendings, sending, link);
	point->n_sendings++;
	sending->session = session;
	session->sending = sending;
	begin(sending, SENDING_MAKE);
	return 0;
}

/* ---- coming ---------------------------------------------------------------------------------------- */

static int send_opened(struct sending *sending)
{
	struct wire_opened message = {.epoch = sending->point->channel->epoch};
	int state_fd = shm_reopen_readonly(&sending->sender.state_shm);
	const int fds[WIRE_FD_OPENED_N] = {
		[WIRE_FD_ARENA] = sending->sender.arena.fd,
		[WIRE_FD_SENDER_PAGE] = sending->sender.page_shm.fd,
		[WIRE_FD_SENDER_STATE] = state_fd,
		[WIRE_FD_SENDER_SOCKET] = sending->theirs,
	};
	int r = state_fd < 0 ? state_fd : 0;

	wire_init(&message.header, WIRE_OPENED, sizeof(message));
	if (r == 0)
		r = session_send(sending->session, &message.header, fds, WIRE_FD_OPENED_N);
	close_fd(&state_fd);
	close_fd(&sending->theirs);
	return r;
}

/* The notifier first: the worker may find it due at its first look. A full mailbox is tried again by sending_retry(). */
static int mail_to_worker(struct sending *sending)
{
	const struct control_channel *channel = sending->point->channel;
	const struct mail mail = {.type = MAIL_ADD_SENDER, .tx_queue = channel->channel, .sender = &sending->sender};
	int r = notifier_add_sender(sending->point->transmit->notifier, &sending->sender, sending->uid);

	if (r < 0)
		return failure_set(&sending->failure, EX_TEMPFAIL, -r, "channel '%s': too many senders of %s",
		                   channel->config->name, channel->config->interface);
	sending->lent = sending->awaits_answer = mailbox_send(channel->transmit->inbox, &mail) == 0;
	if (!sending->lent)
		notifier_remove(sending->point->transmit->notifier, sending->sender.page);
	return 0;
}

static int made(struct sending *sending)
{
	sending->opened_at_us = control_now_us(sending->point->transmit->control);
	session_resume(sending->session);
	return send_opened(sending);
}

static int sealed(struct sending *sending)
{
	sending->sealed = true;
	sending->result = mail_to_worker(sending);
	return 0;
}

/* 0, or -errno: hang up. */
static int go_on(struct sending *sending, int (*step)(struct sending *sending))
{
	struct session *session = sending->session;
	int r = 0;

	if (sending->result == 0 && sending->point->ending != IBVCAP_REASON_NONE)
		sending->result =
			failure_set(&sending->failure, EX_UNAVAILABLE, ENODEV, SENDING_CHANNEL_ENDS, sending->channel);
	if (sending->result == 0)
		r = step(sending);
	if (r < 0 || sending->result == 0)
		return r;
	sending_free(sending);
	return session_send_error(session, sending->result, "%s", sending->failure.text);
}

static void done(struct job *job)
{
	struct sending *sending = sending_of(job);
	struct session *session = sending->session;
	enum sending_job did = sending->doing;

	sending->doing = SENDING_NO_JOB;
	if (did == SENDING_BREAK) {
		remove_broken(sending);
	} else if (!session) { /* hung up meanwhile */
		sending_free(sending);
	} else if (go_on(sending, did == SENDING_MAKE ? made : sealed) < 0) {
		session_free(session);
	}
}

void sending_lend(struct sending *sending)
{
	begin(sending, SENDING_SEAL);
}

bool sending_waits_since(const struct sending *sending, uint64_t us)
{
	return sending->session && !sending->sealed && sending->doing == SENDING_NO_JOB && sending->opened_at_us <= us;
}

/* ---- leaving --------------------------------------------------------------------------------------- */

bool sending_awaits_mail(const struct sending *sending)
{
	return !sending->point->transmit->ended && (sending->awaits_answer || sending->remove_mailed);
}

/* Of a channel that has ended the worker has no senders any more. */
static void mail_removal(struct sending *sending)
{
	const struct control_channel *channel = sending->point->channel;
	const struct mail mail = {.type = MAIL_REMOVE_SENDER, .tx_queue = channel->channel, .sender = &sending->sender};

	if (sending->lent && !sending->remove_mailed && !sending->point->ended)
		sending->remove_mailed = mailbox_send(channel->transmit->inbox, &mail) == 0;
}

void sending_retry(struct sending *sending)
{
	struct session *session = sending->session;

	if (sending->doing != SENDING_NO_JOB)
		return;
	if (!session)
		mail_removal(sending);
	else if (sending->sealed && !sending->lent && go_on(sending, sealed) < 0)
		session_free(session);
}

static enum ibvcap_disconnect_reason reason_to_hang_up(const struct sending *sending)
{
	if (sending->session->reason != IBVCAP_REASON_NONE)
		return sending->session->reason;
	return sending->point->ended ? sending->point->ending : IBVCAP_REASON_HUNG_UP;
}

void sending_hang_up(struct sending *sending)
{
	bool has_memory = sending->doing == SENDING_NO_JOB;

	if (has_memory && sender_load_status(sending->sender.state) == IBVCAP_CONSUMER_ATTACHED)
		daemon_disconnect_sender(sending->sender.state, reason_to_hang_up(sending));
	sending->session->sending = NULL;
	sending->session = NULL;
	sending->served = false;
	if (has_memory)
		notifier_remove(sending->point->transmit->notifier, sending->sender.page);
	if (!sending->lent || (sending->point->ended && !sending_awaits_mail(sending)))
		sending_free(sending);
	else
		mail_removal(sending);
}
