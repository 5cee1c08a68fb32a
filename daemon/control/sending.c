// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/sending.h"

#include "daemon/control/channel_point.h"
#include "daemon/control/server.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- life ------------------------------------------------------------------------------------------ */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void unregister(struct sending *sending)
{
	const struct control_channel *channel = sending->point->channel;

	if (sending->sender.registration)
		channel->unregister_arena(channel->context, sending->sender.registration);
	sending->sender.registration = NULL;
}

void sending_free(struct sending *sending)
{
	struct channel_point *point = sending->point;

	LIST_REMOVE(sending, link);
	point->n_sendings--;
	if (sending->session)
		sending->session->sending = NULL;
	close_fd(&sending->theirs);
	unregister(sending);
	notifier_dispose_sender(point->transmit->notifier, &sending->sender);
	free(sending);
}

static struct sender_options sender_options(const struct control_channel *channel)
{
	const struct config_channel *config = channel->config;

	return (struct sender_options){
		.channel = config->name,
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

/* Each end has its own description: what a client does to the flags of its own changes nothing here. */
static int make_socket(struct sending *sending, struct fault *fault)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return fault_set(fault, EX_OSERR, errno, "channel '%s': no socket for another sender: %s",
				 sending->point->channel->config->name, strerror(errno));
	sending->theirs = ends[0];
	sending->sender.socket = ends[1];
	return 0;
}

int sending_new(struct sending **out, struct channel_point *point, const struct peer *peer, struct fault *fault)
{
	const struct sender_options options = sender_options(point->channel);
	struct sending *sending = calloc(1, sizeof(*sending));
	int r;

	if (!sending)
		return fault_set(fault, EX_OSERR, ENOMEM, "channel '%s': out of memory", options.channel);
	r = sender_init(&sending->sender, &options, fault);
	if (r < 0) {
		free(sending);
		return r;
	}
	sending->point = point;
	sending->theirs = -1;
	sending->pid = peer->pid;
	sending->uid = peer->uid;
	sending->opened_at_us = control_now_us(point->transmit->control);
	LIST_INSERT_HEAD(&point->sendings, sending, link);
	point->n_sendings++;
	r = make_socket(sending, fault);
	if (r < 0)
		sending_free(sending);
	else
		*out = sending;
	return r;
}

/* ---- coming ---------------------------------------------------------------------------------------- */

int sending_send_opened(struct sending *sending)
{
	struct wire_opened message = { .epoch = sending->point->channel->epoch };
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

static int seal(struct sending *sending, struct fault *fault)
{
	const char *name = sending->point->channel->config->name;
	int r = sender_seal(&sending->sender);

	if (r == -EPERM)
		return fault_set(fault, EX_NOPERM, EPERM,
				 "channel '%s': the sender has sealed what it was given; it is not to", name);
	return r < 0 ? fault_set(fault, EX_OSERR, -r, "channel '%s': the sender's memory cannot be sealed: %s", name,
				 strerror(-r))
		     : 0;
}

/* The notifier first: the worker may find it due at its first look. */
static int mail_to_worker(struct sending *sending, struct fault *fault)
{
	const struct control_channel *channel = sending->point->channel;
	const struct mail mail = { .type = MAIL_ADD_SENDER, .channel = channel->channel, .sender = &sending->sender };
	int r = notifier_add_sender(sending->point->transmit->notifier, &sending->sender);

	if (r < 0)
		return fault_set(fault, EX_TEMPFAIL, -r, "channel '%s': too many senders of %s", channel->config->name,
				 channel->config->interface);
	r = mailbox_send(channel->transmit->inbox, &mail);
	if (r == 0)
		return 0;
	notifier_remove(sending->point->transmit->notifier, sending->sender.page);
	return fault_set(fault, EX_TEMPFAIL, -r, "channel '%s': its worker has too much mail; try again",
			 channel->config->name);
}

int sending_lend(struct sending *sending, struct fault *fault)
{
	const struct control_channel *channel = sending->point->channel;
	int r = seal(sending, fault);

	if (r == 0)
		r = channel->register_arena(channel->context, &sending->sender.arena, &sending->sender.registration,
					    fault);
	if (r == 0)
		r = mail_to_worker(sending, fault);
	if (r < 0) {
		unregister(sending);
		return r;
	}
	sending->lent = true;
	sending->awaits_answer = true;
	return 0;
}

/* ---- leaving --------------------------------------------------------------------------------------- */

bool sending_awaits_mail(const struct sending *sending)
{
	return !sending->point->transmit->ended && (sending->awaits_answer || sending->remove_mailed);
}

/* Of a channel that has ended the worker has no senders any more. */
void sending_retry(struct sending *sending)
{
	const struct control_channel *channel = sending->point->channel;
	const struct mail mail = { .type = MAIL_REMOVE_SENDER,
				   .channel = channel->channel,
				   .sender = &sending->sender };

	if (!sending->session && !sending->remove_mailed && !sending->point->ended)
		sending->remove_mailed = mailbox_send(channel->transmit->inbox, &mail) == 0;
}

static enum ibvcap_disconnect_reason reason_to_hang_up(const struct sending *sending)
{
	if (sending->session->reason != IBVCAP_REASON_NONE)
		return sending->session->reason;
	return sending->point->ended ? sending->point->ending : IBVCAP_REASON_HUNG_UP;
}

void sending_hang_up(struct sending *sending)
{
	if (sender_load_status(sending->sender.state) == IBVCAP_CONSUMER_ATTACHED)
		daemon_disconnect_sender(sending->sender.state, reason_to_hang_up(sending));
	sending->session->sending = NULL;
	sending->session = NULL;
	sending->served = false;
	notifier_remove(sending->point->transmit->notifier, sending->sender.page);
	if (!sending->lent || (sending->point->ended && !sending_awaits_mail(sending)))
		sending_free(sending);
	else
		sending_retry(sending);
}
