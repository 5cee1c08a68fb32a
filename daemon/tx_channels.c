// SPDX-License-Identifier: Apache-2.0
#include "daemon/tx_channels.h"

#include "daemon/base/log.h"
#include "daemon/config/change.h"
#include "daemon/interfaces.h"
#include "daemon/priv/priv.h"
#include "daemon/streams.h"
#include "daemon/transmitter.h"
#include "daemon/tx_destination.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>

struct tx_channel *tx_channels_find(struct daemon *daemon, const char *name)
{
	struct tx_channel *channel;

	TAILQ_FOREACH (channel, &daemon->channels, link)
		if (!channel->removed && strcmp(channel->config->name, name) == 0)
			break;
	return channel;
}

int tx_channels_each(struct daemon *daemon, struct tx_channel_list *list, tx_channels_step *step,
                     struct failure *failure)
{
	struct tx_channel *channel;
	int r = 0;

	TAILQ_FOREACH (channel, list, link) {
		r = step(daemon, channel, failure);
		if (r < 0)
			break;
	}
	return r;
}

/* ---- coming -------------------------------------------------------------------------------------- */

int tx_channels_new(struct daemon *daemon, struct tx_channel_list *list, const struct config_channel *config,
                    struct failure *failure)
{
	struct tx_channel *new = calloc(1, sizeof(*new));
	struct interface *interface = NULL;
	int r;

	if (!new)
		return failure_set(failure, EX_OSERR, ENOMEM, "channel '%s': out of memory", config->name);
	r = interfaces_take(daemon, config->interface, config->backend, &interface, failure);
	if (r == 0)
		r = tx_channel_init(new, config, interface, failure);
	if (r == 0)
		r = transmitter_take(daemon, interface, config, &new->transmitter, failure);
	if (r == 0) {
		TAILQ_INSERT_TAIL(list, new, link);
		return 0;
	}
	tx_channel_deinit(new);
	if (interface)
		interfaces_release(daemon, interface);
	free(new);
	return r;
}

int tx_channels_open(struct daemon *daemon, struct tx_channel *channel, struct failure *failure)
{
	int r = interfaces_open(channel->interface, failure);

	(void)daemon;
	return r == 0 ? tx_channel_fit(channel, failure) : r;
}

int tx_channels_prepare(struct daemon *daemon, struct tx_channel *channel, struct failure *failure)
{
	uint64_t epoch;
	int r = streams_new_epoch(&epoch);

	(void)daemon;
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "channel '%s': no random number to be had: %s",
		                   channel->config->name, strerror(-r));
	return tx_channel_prepare(channel, epoch, failure);
}

int tx_channels_serve(struct daemon *daemon, struct tx_channel *channel, struct failure *failure)
{
	int r = 0;

	if (!daemon->neighbours)
		r = neighbours_new(&daemon->neighbours, daemon->event, failure);
	if (r == 0)
		r = tx_destinations_watch(channel, daemon->neighbours, failure);
	if (r < 0)
		return r;
	tx_channel_set_link(channel, channel->interface->link_up);
	r = transmitter_serve(channel->transmitter, failure);
	if (r == 0)
		r = tx_channel_serve(channel, daemon->control, failure);
	if (r < 0)
		return r;
	r = interfaces_serve(daemon, channel->interface);
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "channel '%s': cannot be served: %s", channel->config->name,
	                            strerror(-r));
}

bool tx_channels_need_ipc_lock(const struct daemon *daemon)
{
	const struct tx_channel *channel;
	const struct stream *stream;
	uint64_t bytes = 0;
	struct rlimit limit;

	if (TAILQ_EMPTY(&daemon->channels) || getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return false;
	TAILQ_FOREACH (channel, &daemon->channels, link)
		if (!channel->removed)
			bytes += tx_channel_pinned_bytes(channel) + tx_channel_senders_bytes(channel);
	TAILQ_FOREACH (stream, &daemon->streams, link)
		if (!stream->removed)
			bytes += stream_pinned_bytes(stream);
	if (limit.rlim_cur >= bytes)
		return false;
	if (priv_has(CAP_IPC_LOCK))
		log_info("senders may come to lock %llu bytes with all else and RLIMIT_MEMLOCK allows %llu: "
		         "CAP_IPC_LOCK is kept",
		         (unsigned long long)bytes, (unsigned long long)limit.rlim_cur);
	else
		log_warning(
			"senders may come to lock %llu bytes with all else and RLIMIT_MEMLOCK allows %llu: some will "
			"be refused; raise the limit (systemd: LimitMEMLOCK=infinity), grant CAP_IPC_LOCK and restart "
			"the "
			"daemon (systemctl restart ibvcapd), or lower max_senders or arena_slots",
			(unsigned long long)bytes, (unsigned long long)limit.rlim_cur);
	return true;
}

/* ---- running ------------------------------------------------------------------------------------- */

static struct tx_channel *channel_of(struct daemon *daemon, const struct mail *mail)
{
	struct tx_channel *channel;

	TAILQ_FOREACH (channel, &daemon->channels, link)
		if (channel->channel == mail->tx_queue)
			break;
	return channel;
}

/* Freed later: control is in the midst of it, and its senders' memory is given back first; the queue is gone by then. */
static void end(struct tx_channel *channel)
{
	tx_channels_close(channel);
	channel->ended = true;
	events_reap(channel->transmitter->daemon);
}

/* One whose removal was asked for is given back by that, else by this. */
static void fail(struct tx_channel *channel, int error)
{
	bool is_asked_for = channel->removed && !channel->remove_to_mail;

	tx_channel_fail(channel, error);
	if (channel->removed && !is_asked_for)
		end(channel);
}

void tx_channels_said(void *context, const struct mail *mail)
{
	struct transmitter *transmitter = context;
	struct tx_channel *channel;

	switch (mail->type) {
	case MAIL_TX_QUEUE_ADDED:
	case MAIL_TX_QUEUE_FAILED:
		channel = channel_of(transmitter->daemon, mail);
		if (channel && mail->error < 0)
			fail(channel, mail->error);
		break;
	case MAIL_TX_QUEUE_REMOVED:
		channel = channel_of(transmitter->daemon, mail);
		if (channel && mail->error < 0)
			log_message(
				LOG_WARNING, &(struct log_about){.channel = channel->config->name},
				"channel '%s': its send queue on device %s could not be emptied: %s; it was destroyed",
				channel->config->name, channel->interface->capabilities.device, strerror(-mail->error));
		if (channel)
			end(channel);
		break;
	case MAIL_STOPPED:
		transmitter->ended = true;
		events_look_for_end(transmitter->daemon);
		break;
	default:
		break;
	}
}

void tx_channels_refresh(struct daemon *daemon)
{
	struct tx_channel *channel;

	TAILQ_FOREACH (channel, &daemon->channels, link)
		tx_channel_set_link(channel, channel->interface->link_up);
}

void tx_channels_set_config(struct daemon *daemon, const struct config *config)
{
	struct tx_channel *channel;

	TAILQ_FOREACH (channel, &daemon->channels, link)
		if (!channel->removed)
			channel->config = channel->control.config = change_find_channel(config, channel->config->name);
}

void tx_channels_lend(struct tx_channel_list *list)
{
	struct tx_channel *channel;

	TAILQ_FOREACH (channel, list, link)
		tx_channel_lend(channel);
}

/* ---- going --------------------------------------------------------------------------------------- */

void tx_channels_remove(struct daemon *daemon, struct tx_channel *channel)
{
	control_end_channel(daemon->control, &channel->control, IBVCAP_DISCONNECT_REMOVED);
	tx_channel_take_back(channel);
	if (channel->ended)
		events_reap(daemon);
}

void tx_channels_close(struct tx_channel *channel)
{
	if (!channel->channel)
		return;
	channel->lent = false;
	tx_queue_close(channel->channel);
}

void tx_channels_free(struct daemon *daemon, struct tx_channel_list *list, struct tx_channel *channel)
{
	struct interface *interface = channel->interface;

	if (daemon->control)
		control_remove_channel(daemon->control, &channel->control);
	transmitter_release(channel->transmitter);
	tx_destinations_forget(channel);
	if (channel->was_lent)
		tx_channel_log_sum(channel);
	tx_channel_deinit(channel);
	TAILQ_REMOVE(list, channel, link);
	free(channel);
	interfaces_release(daemon, interface);
}
