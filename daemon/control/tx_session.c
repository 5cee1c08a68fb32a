// SPDX-License-Identifier: Apache-2.0
/*
 * Makes, seals and frees the memory of one sender in the thread of its user, and decides after each step what comes
 * next: an answer to the client, mail to the worker, or the next job.
 */
#include "daemon/control/tx_session.h"

#include "daemon/base/loop.h"
#include "daemon/control/server.h"
#include "daemon/control/tx_endpoint.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the user's thread -------------------------------------------------------------------------------- */

static const struct sender no_sender = {
	.arena = SHM_INIT, .page_shm = SHM_INIT, .state_shm = SHM_INIT, .kick = SENDER_KICK_INIT, .socket = -1};

static void make_sender(void *context)
{
	struct tx_session *tx = context;
	int r;

	tx->result = sender_init(&tx->sender, &tx->options, &tx->failure);
	if (tx->result < 0) {
		tx->sender = no_sender; /* sender_init() freed the memory: the next sender may get the same addresses */
		return;
	}
	r = notifier_make_socket(&tx->sender.socket, &tx->theirs);
	if (r == 0)
		r = sender_kick_init(&tx->sender.kick, tx_session_endpoint(tx)->worker->worker->epoll);
	if (r < 0)
		tx->result = failure_set(&tx->failure, EX_OSERR, -r,
		                         "channel '%s': no socket or eventfd for another sender: %s", tx->channel,
		                         strerror(-r));
}

static void seal_sender(void *context)
{
	struct tx_session *tx = context;
	const struct control_channel *channel = tx_session_endpoint(tx)->channel;
	int r = sender_seal(&tx->sender);

	if (r == -EPERM)
		tx->result =
			failure_set(&tx->failure, EX_NOPERM, EPERM,
		                    "channel '%s': the sender has sealed what it was given; it is not to", tx->channel);
	else if (r < 0)
		tx->result = failure_set(&tx->failure, EX_OSERR, -r,
		                         "channel '%s': the sender's memory cannot be sealed: %s", tx->channel,
		                         strerror(-r));
	else
		tx->result = channel->register_arena(channel->context, &tx->sender.arena, &tx->sender.registration,
		                                     &tx->failure);
}

static void free_sender(void *context)
{
	struct tx_session *tx = context;
	const struct control_channel *channel = tx_session_endpoint(tx)->channel;

	notifier_remove_and_wait(tx_session_endpoint(tx)->worker->notifier, tx->sender.page);
	if (tx->sender.registration)
		channel->unregister_arena(channel->context, tx->sender.registration);
	sender_deinit(&tx->sender);
	sender_kick_deinit(&tx->sender.kick);
	fd_close(&tx->sender.socket);
	fd_close(&tx->theirs);
}

/* ---- life ------------------------------------------------------------------------------------------ */

static void on_job_done(void *context);

static void begin_job(struct tx_session *tx, enum tx_session_job doing)
{
	static void (*const works[])(void *) = {
		[TX_SESSION_MAKE] = make_sender, [TX_SESSION_SEAL] = seal_sender, [TX_SESSION_BREAK] = free_sender};

	tx->doing = doing;
	tx->job.work = works[doing];
	tx->job.done = on_job_done;
	tx->job.context = tx;
	tx->job.allowance_us = time_for_memory_us((uint64_t)tx->options.n_slots * tx->options.slot_bytes);
	background_add(tx->client.user->threads[USER_MEMORY], &tx->job);
}

/* When a channel has ended, memory that its clients keep does not count any more. */
static void finish_sender(struct tx_session *tx)
{
	struct tx_endpoint *tx_endpoint = tx_session_endpoint(tx);
	struct endpoint *endpoint = &tx_endpoint->endpoint;

	tx->client.is_retained = !endpoint->ended && retained_memory_exists(&tx->client.retained);
	if (tx->client.is_retained)
		return;
	endpoint_remove_client(&tx->client);
	free(tx);
	if (endpoint->n_clients == 0 && endpoint->ended)
		tx_endpoint->channel->emptied(tx_endpoint->channel->context);
}

static void take_memory_back(struct tx_session *tx)
{
	const struct sender *sender = &tx->sender;
	const struct shm *const lent[] = {&sender->arena, &sender->page_shm, &sender->state_shm};

	retained_memory_watch(&tx_session_endpoint(tx)->worker->control->retained, &tx->client.retained, lent,
	                      sizeof(lent) / sizeof(lent[0]));
	begin_job(tx, TX_SESSION_BREAK);
}

void tx_session_free(struct endpoint_client *client)
{
	struct tx_session *tx = (struct tx_session *)client;

	endpoint_detach_client(&tx->client);
	if (tx->client.is_retained)
		finish_sender(tx);
	else if (tx->doing == TX_SESSION_NO_JOB)
		take_memory_back(tx);
}

static struct sender_options sender_options(const struct tx_session *tx)
{
	const struct control_channel *channel = tx_session_endpoint(tx)->channel;
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

int tx_session_new(struct session *session, struct tx_endpoint *tx_endpoint, struct user_share *share)
{
	struct tx_session *tx = calloc(1, sizeof(*tx));

	if (!tx || !user_thread(session->user, USER_MEMORY)) {
		free(tx);
		return -ENOMEM;
	}
	tx->theirs = -1;
	tx->sender = no_sender;
	endpoint_add_client(&tx_endpoint->endpoint, &tx->client, session, share, 0);
	snprintf(tx->channel, sizeof(tx->channel), "%s", tx_endpoint->endpoint.name);
	tx->options = sender_options(tx);
	begin_job(tx, TX_SESSION_MAKE);
	return 0;
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static int send_opened(struct tx_session *tx)
{
	const struct tx_endpoint *endpoint = tx_session_endpoint(tx);
	struct protocol_opened message = {.epoch = endpoint->channel->epoch};
	int fds[PROTOCOL_FD_OPENED_N] = {
		[PROTOCOL_FD_ARENA] = fcntl(tx->sender.arena.fd, F_DUPFD_CLOEXEC, 0),
		[PROTOCOL_FD_SENDER_PAGE] = fcntl(tx->sender.page_shm.fd, F_DUPFD_CLOEXEC, 0),
		[PROTOCOL_FD_SENDER_STATE] = shm_reopen_readonly(&tx->sender.state_shm),
		[PROTOCOL_FD_SENDER_SOCKET] = tx->theirs,
		[PROTOCOL_FD_SENDER_KICK] = fcntl(tx->sender.kick.eventfd, F_DUPFD_CLOEXEC, 0),
	};

	tx->theirs = -1;
	tx->opened_at_us = loop_now_us(endpoint->worker->control->options.event);
	session_resume(tx->client.session);
	protocol_init(&message.header, PROTOCOL_OPENED, sizeof(message));
	for (unsigned i = 0; i < PROTOCOL_FD_OPENED_N; i++) {
		if (fds[i] >= 0)
			continue;
		for (unsigned k = 0; k < PROTOCOL_FD_OPENED_N; k++)
			fd_close(&fds[k]);
		return -EMFILE;
	}
	return session_send(tx->client.session, &message.header, fds, PROTOCOL_FD_OPENED_N);
}

/*
 * The notifier first, because the worker may ring for it at once. tx_session_retry() tries again if the mailbox is
 * full.
 */
static int mail_sealed(struct tx_session *tx)
{
	const struct control_channel *channel = tx_session_endpoint(tx)->channel;
	const struct mail mail = {.type = MAIL_ADD_SENDER, .tx_queue = channel->queue, .sender = &tx->sender};
	int r = notifier_add_sender(tx_session_endpoint(tx)->worker->notifier, &tx->sender, tx->client.user);

	tx->sealed = true;
	tx->result = 0;
	if (r < 0) {
		tx->result = failure_set(&tx->failure, EX_TEMPFAIL, -r, "channel '%s': too many senders of %s",
		                         channel->config->name, channel->config->interface);
		return 0;
	}
	tx->lent = tx->awaits_answer = mailbox_send(channel->worker->inbox, &mail) == 0;
	if (!tx->lent)
		notifier_remove(tx_session_endpoint(tx)->worker->notifier, tx->sender.page);
	return 0;
}

/* 0, or -errno: disconnect. */
static int take_step(struct tx_session *tx, int (*step)(struct tx_session *tx))
{
	struct session *session = tx->client.session;
	int r = 0;

	if (tx->result == 0 && tx->client.endpoint->ending != IBVCAP_DISCONNECT_NONE)
		tx->result = failure_set(&tx->failure, EX_UNAVAILABLE, ENODEV, TX_SESSION_CHANNEL_ENDS, tx->channel);
	if (tx->result == 0)
		r = step(tx);
	if (r < 0 || tx->result == 0)
		return r;
	r = session_send_error(session, tx->result, "%s", tx->failure.text);
	tx_session_free(&tx->client);
	return r;
}

static void on_job_done(void *context)
{
	struct tx_session *tx = context;
	struct session *session = tx->client.session;
	enum tx_session_job did = tx->doing;

	tx->doing = TX_SESSION_NO_JOB;
	if (did == TX_SESSION_BREAK) {
		finish_sender(tx);
	} else if (!session) { /* disconnected meanwhile */
		tx_session_free(&tx->client);
	} else if (take_step(tx, did == TX_SESSION_MAKE ? send_opened : mail_sealed) < 0) {
		session_free(session);
	}
}

void tx_session_lend(struct tx_session *tx)
{
	begin_job(tx, TX_SESSION_SEAL);
}

bool tx_session_waits_since(const struct tx_session *tx, uint64_t us)
{
	return tx->client.session && !tx->sealed && tx->doing == TX_SESSION_NO_JOB && tx->opened_at_us <= us;
}

/* ---- leaving --------------------------------------------------------------------------------------- */

bool tx_session_awaits_mail(const struct tx_session *tx)
{
	return !tx_session_endpoint(tx)->worker->ended && (tx->awaits_answer || tx->client.remove_mailed);
}

/* When a channel has ended, its worker has none of the senders any more. */
static void mail_sender_removal(struct tx_session *tx)
{
	const struct control_channel *channel = tx_session_endpoint(tx)->channel;
	const struct mail mail = {.type = MAIL_REMOVE_SENDER, .tx_queue = channel->queue, .sender = &tx->sender};

	if (tx->lent && !tx->client.remove_mailed && !tx->client.endpoint->ended)
		tx->client.remove_mailed = mailbox_send(channel->worker->inbox, &mail) == 0;
}

void tx_session_retry(struct tx_session *tx)
{
	struct session *session = tx->client.session;

	if (tx->doing != TX_SESSION_NO_JOB || tx->client.is_retained)
		return;
	if (!session)
		mail_sender_removal(tx);
	else if (tx->sealed && !tx->lent && take_step(tx, mail_sealed) < 0)
		session_free(session);
}

void tx_session_close(struct endpoint_client *client)
{
	struct tx_session *tx = (struct tx_session *)client;
	struct tx_endpoint *tx_endpoint = tx_session_endpoint(tx);
	bool has_memory = tx->doing == TX_SESSION_NO_JOB;

	if (has_memory && client_load_connection(&tx->sender.state->link) == IBVCAP_CONNECTION_OPEN)
		daemon_disconnect(&tx->sender.state->link,
		                  endpoint_disconnect_reason(client->endpoint, client->session));
	endpoint_detach_client(client);
	if (has_memory)
		notifier_remove(tx_endpoint->worker->notifier, tx->sender.page);
	if (!tx->lent || (client->endpoint->ended && !tx_session_awaits_mail(tx)))
		tx_session_free(&tx->client);
	else
		mail_sender_removal(tx);
}
