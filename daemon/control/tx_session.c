// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/tx_session.h"

#include "daemon/base/fd.h"
#include "daemon/control/tx_endpoint.h"
#include "daemon/control/loop.h"
#include "daemon/control/server.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the background thread ---------------------------------------------------------------------------- */

static struct tx_session *tx_session_of(struct background_job *job)
{
	return (struct tx_session *)((char *)job - offsetof(struct tx_session, job));
}

/* Each end has its own description: what a client does to the flags of its own changes nothing here. */
static int make_socket(struct tx_session *tx)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return failure_set(&tx->failure, EX_OSERR, errno, "channel '%s': no socket for another sender: %s",
		                   tx->channel, strerror(errno));
	tx->theirs = ends[0];
	tx->sender.socket = ends[1];
	return 0;
}

static const struct sender no_sender = {.arena = SHM_INIT, .page_shm = SHM_INIT, .state_shm = SHM_INIT, .socket = -1};

static void make(struct background_job *job)
{
	struct tx_session *tx = tx_session_of(job);

	tx->result = sender_init(&tx->sender, &tx->options, &tx->failure);
	if (tx->result == 0)
		tx->result = make_socket(tx);
	else
		tx->sender = no_sender; /* where its page was, another's may be next */
}

static int seal_memory(struct tx_session *tx)
{
	int r = sender_seal(&tx->sender);

	if (r == -EPERM)
		return failure_set(&tx->failure, EX_NOPERM, EPERM,
		                   "channel '%s': the sender has sealed what it was given; it is not to", tx->channel);
	return r < 0 ? failure_set(&tx->failure, EX_OSERR, -r, "channel '%s': the sender's memory cannot be sealed: %s",
	                           tx->channel, strerror(-r))
	             : 0;
}

static void seal(struct background_job *job)
{
	struct tx_session *tx = tx_session_of(job);
	const struct control_channel *channel = tx->endpoint->channel;

	tx->result = seal_memory(tx);
	if (tx->result == 0)
		tx->result = channel->register_arena(channel->context, &tx->sender.arena, &tx->sender.registration,
		                                     &tx->failure);
}

static void break_up(struct background_job *job)
{
	struct tx_session *tx = tx_session_of(job);
	const struct control_channel *channel = tx->endpoint->channel;

	fd_close(&tx->theirs);
	if (tx->sender.registration)
		channel->unregister_arena(channel->context, tx->sender.registration);
	notifier_dispose_sender(tx->endpoint->worker->notifier, &tx->sender);
}

/* ---- life ------------------------------------------------------------------------------------------ */

static void done(struct background_job *job);
static void tx_session_hang_up(struct session *session);

static void begin(struct tx_session *tx, enum tx_session_job doing)
{
	static void (*const works[])(struct background_job *) = {
		[TX_SESSION_MAKE] = make, [TX_SESSION_SEAL] = seal, [TX_SESSION_BREAK] = break_up};

	tx->doing = doing;
	tx->job.work = works[doing];
	tx->job.done = done;
	tx->job.user = tx->uid;
	tx->job.bytes = (uint64_t)tx->options.n_slots * tx->options.slot_bytes;
	background_add(tx->endpoint->worker->memory, &tx->job);
}

/* Of a channel that has ended nobody's memory counts any more. */
static void remove_broken(struct tx_session *tx)
{
	struct tx_endpoint *endpoint = tx->endpoint;

	if (!endpoint->ended && retained_memory_exists(&tx->retained)) {
		tx->doing = TX_SESSION_RETAINED;
		return;
	}
	retained_memory_drop(&tx->retained);
	LIST_REMOVE(tx, link);
	free(tx);
	if (--endpoint->n_sessions == 0 && endpoint->ended)
		endpoint->channel->emptied(endpoint->channel->context);
}

static void take_back(struct tx_session *tx)
{
	const struct sender *sender = &tx->sender;
	const struct shm *const lent[] = {&sender->arena, &sender->page_shm, &sender->state_shm};

	retained_memory_watch(&tx->endpoint->worker->control->retained, &tx->retained, lent,
	                      sizeof(lent) / sizeof(lent[0]));
	begin(tx, TX_SESSION_BREAK);
}

void tx_session_free(struct tx_session *tx)
{
	if (tx->session)
		tx->session->tx = NULL;
	tx->session = NULL;
	tx->served = false;
	if (tx->doing == TX_SESSION_NO_JOB)
		take_back(tx);
	else if (tx->doing == TX_SESSION_RETAINED)
		remove_broken(tx);
}

static struct sender_options sender_options(const struct tx_session *tx)
{
	const struct control_channel *channel = tx->endpoint->channel;
	const struct config_channel *config = channel->config;

	return (struct sender_options){
		.channel = tx->channel,
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

int tx_session_new(struct session *session, struct tx_endpoint *endpoint)
{
	struct tx_session *tx = calloc(1, sizeof(*tx));

	if (!tx)
		return -ENOMEM;
	tx->endpoint = endpoint;
	tx->theirs = -1;
	tx->sender = no_sender;
	tx->pid = session->peer.pid;
	tx->uid = session->peer.uid;
	snprintf(tx->channel, sizeof(tx->channel), "%s", endpoint->channel->config->name);
	tx->options = sender_options(tx);
	LIST_INSERT_HEAD(&endpoint->sessions, tx, link);
	endpoint->n_sessions++;
	tx->session = session;
	session->tx = tx;
	session->on_close = tx_session_hang_up;
	begin(tx, TX_SESSION_MAKE);
	return 0;
}

/* ---- coming ---------------------------------------------------------------------------------------- */

static int send_opened(struct tx_session *tx)
{
	struct protocol_opened message = {.epoch = tx->endpoint->channel->epoch};
	int state_fd = shm_reopen_readonly(&tx->sender.state_shm);
	const int fds[PROTOCOL_FD_OPENED_N] = {
		[PROTOCOL_FD_ARENA] = tx->sender.arena.fd,
		[PROTOCOL_FD_SENDER_PAGE] = tx->sender.page_shm.fd,
		[PROTOCOL_FD_SENDER_STATE] = state_fd,
		[PROTOCOL_FD_SENDER_SOCKET] = tx->theirs,
	};
	int r = state_fd < 0 ? state_fd : 0;

	protocol_init(&message.header, PROTOCOL_OPENED, sizeof(message));
	if (r == 0)
		r = session_send(tx->session, &message.header, fds, PROTOCOL_FD_OPENED_N);
	fd_close(&state_fd);
	fd_close(&tx->theirs);
	return r;
}

/* The notifier first: the worker may find it due at its first look. A full mailbox is tried again by tx_session_retry(). */
static int mail_to_worker(struct tx_session *tx)
{
	const struct control_channel *channel = tx->endpoint->channel;
	const struct mail mail = {.type = MAIL_ADD_SENDER, .tx_queue = channel->channel, .sender = &tx->sender};
	int r = notifier_add_sender(tx->endpoint->worker->notifier, &tx->sender, tx->uid);

	if (r < 0)
		return failure_set(&tx->failure, EX_TEMPFAIL, -r, "channel '%s': too many senders of %s",
		                   channel->config->name, channel->config->interface);
	tx->lent = tx->awaits_answer = mailbox_send(channel->worker->inbox, &mail) == 0;
	if (!tx->lent)
		notifier_remove(tx->endpoint->worker->notifier, tx->sender.page);
	return 0;
}

static int made(struct tx_session *tx)
{
	tx->opened_at_us = loop_now_us(tx->endpoint->worker->control->options.event);
	session_resume(tx->session);
	return send_opened(tx);
}

static int sealed(struct tx_session *tx)
{
	tx->sealed = true;
	tx->result = mail_to_worker(tx);
	return 0;
}

/* 0, or -errno: hang up. */
static int go_on(struct tx_session *tx, int (*step)(struct tx_session *tx))
{
	struct session *session = tx->session;
	int r = 0;

	if (tx->result == 0 && tx->endpoint->ending != IBVCAP_DISCONNECT_NONE)
		tx->result = failure_set(&tx->failure, EX_UNAVAILABLE, ENODEV, TX_SESSION_CHANNEL_ENDS, tx->channel);
	if (tx->result == 0)
		r = step(tx);
	if (r < 0 || tx->result == 0)
		return r;
	tx_session_free(tx);
	return session_send_error(session, tx->result, "%s", tx->failure.text);
}

static void done(struct background_job *job)
{
	struct tx_session *tx = tx_session_of(job);
	struct session *session = tx->session;
	enum tx_session_job did = tx->doing;

	tx->doing = TX_SESSION_NO_JOB;
	if (did == TX_SESSION_BREAK) {
		remove_broken(tx);
	} else if (!session) { /* hung up meanwhile */
		tx_session_free(tx);
	} else if (go_on(tx, did == TX_SESSION_MAKE ? made : sealed) < 0) {
		session_free(session);
	}
}

void tx_session_lend(struct tx_session *tx)
{
	begin(tx, TX_SESSION_SEAL);
}

bool tx_session_waits_since(const struct tx_session *tx, uint64_t us)
{
	return tx->session && !tx->sealed && tx->doing == TX_SESSION_NO_JOB && tx->opened_at_us <= us;
}

/* ---- leaving --------------------------------------------------------------------------------------- */

bool tx_session_awaits_mail(const struct tx_session *tx)
{
	return !tx->endpoint->worker->ended && (tx->awaits_answer || tx->remove_mailed);
}

/* Of a channel that has ended the worker has no senders any more. */
static void mail_removal(struct tx_session *tx)
{
	const struct control_channel *channel = tx->endpoint->channel;
	const struct mail mail = {.type = MAIL_REMOVE_SENDER, .tx_queue = channel->channel, .sender = &tx->sender};

	if (tx->lent && !tx->remove_mailed && !tx->endpoint->ended)
		tx->remove_mailed = mailbox_send(channel->worker->inbox, &mail) == 0;
}

void tx_session_retry(struct tx_session *tx)
{
	struct session *session = tx->session;

	if (tx->doing != TX_SESSION_NO_JOB)
		return;
	if (!session)
		mail_removal(tx);
	else if (tx->sealed && !tx->lent && go_on(tx, sealed) < 0)
		session_free(session);
}

static enum ibvcap_disconnect reason_to_hang_up(const struct tx_session *tx)
{
	if (tx->session->reason != IBVCAP_DISCONNECT_NONE)
		return tx->session->reason;
	return tx->endpoint->ended ? tx->endpoint->ending : IBVCAP_DISCONNECT_HUNG_UP;
}

static void tx_session_hang_up(struct session *session)
{
	struct tx_session *tx = session->tx;
	bool has_memory = tx->doing == TX_SESSION_NO_JOB;

	if (has_memory && sender_load_connection(tx->sender.state) == IBVCAP_CONNECTION_OPEN)
		daemon_disconnect_sender(tx->sender.state, reason_to_hang_up(tx));
	session->tx = NULL;
	tx->session = NULL;
	tx->served = false;
	if (has_memory)
		notifier_remove(tx->endpoint->worker->notifier, tx->sender.page);
	if (!tx->lent || (tx->endpoint->ended && !tx_session_awaits_mail(tx)))
		tx_session_free(tx);
	else
		mail_removal(tx);
}
