// SPDX-License-Identifier: Apache-2.0
#include "daemon/channel/channel_set.h"

#include "daemon/base/log.h"
#include "daemon/port/interface_set.h"
#include "daemon/priv/priv.h"
#include "daemon/stream/stream_set.h"
#include "daemon/port/interface_tx.h"
#include "daemon/channel/channel_destination.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>

struct channel *channel_set_find(struct daemon *daemon, const char *name)
{
	struct channel *channel;

	TAILQ_FOREACH (channel, &daemon->channels, link)
		if (!channel->removed && strcmp(channel->config->name, name) == 0)
			break;
	return channel;
}

int channel_set_each(struct daemon *daemon, struct channel_list *list, channel_step *step, struct failure *failure)
{
	struct channel *channel;
	int r = 0;

	TAILQ_FOREACH (channel, list, link) {
		r = step(daemon, channel, failure);
		if (r < 0)
			break;
	}
	return r;
}

/* ---- coming -------------------------------------------------------------------------------------- */

int channel_set_new(struct daemon *daemon, struct channel_list *list, const struct config_channel *config,
                    struct failure *failure)
{
	struct channel *new = calloc(1, sizeof(*new));
	struct interface *interface = NULL;
	int r;

	if (!new)
		return failure_set(failure, EX_OSERR, ENOMEM, "channel '%s': out of memory", config->name);
	r = interface_set_take(daemon, config->interface, config->backend, &interface, failure);
	if (r == 0)
		r = channel_init(new, config, interface, failure);
	if (r == 0)
		r = interface_tx_take(daemon, interface, config, &new->tx, failure);
	if (r == 0) {
		TAILQ_INSERT_TAIL(list, new, link);
		return 0;
	}
	channel_deinit(new);
	if (interface)
		interface_set_release(daemon, interface);
	free(new);
	return r;
}

int channel_set_open(struct daemon *daemon, struct channel *channel, struct failure *failure)
{
	int r = interface_set_open(channel->interface, failure);

	(void)daemon;
	return r == 0 ? channel_fit(channel, failure) : r;
}

int channel_set_prepare(struct daemon *daemon, struct channel *channel, struct failure *failure)
{
	uint64_t epoch;
	int r = streams_new_epoch(&epoch);

	(void)daemon;
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "channel '%s': no random number to be had: %s",
		                   channel->config->name, strerror(-r));
	return channel_prepare(channel, epoch, failure);
}

int channel_set_serve(struct daemon *daemon, struct channel *channel, struct failure *failure)
{
	int r = 0;

	if (!daemon->neighbours)
		r = neighbours_new(&daemon->neighbours, daemon->event, failure);
	if (r == 0)
		r = channel_destinations_watch(channel, daemon->neighbours, failure);
	if (r < 0)
		return r;
	channel_set_link(channel, channel->interface->link_up);
	r = interface_tx_serve(channel->tx, failure);
	if (r == 0)
		r = channel_serve(channel, daemon->control, failure);
	if (r < 0)
		return r;
	r = interface_set_serve(daemon, channel->interface);
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "channel '%s': cannot be served: %s", channel->config->name,
	                            strerror(-r));
}

bool channel_set_need_ipc_lock(const struct daemon *daemon)
{
	const struct channel *channel;
	const struct stream *stream;
	uint64_t bytes = 0;
	struct rlimit limit;

	if (TAILQ_EMPTY(&daemon->channels) || getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return false;
	TAILQ_FOREACH (channel, &daemon->channels, link)
		if (!channel->removed)
			bytes += channel_pinned_bytes(channel) + channel_senders_bytes(channel);
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

static struct channel *channel_of(struct daemon *daemon, const struct mail *mail)
{
	struct channel *channel;

	TAILQ_FOREACH (channel, &daemon->channels, link)
		if (channel->queue == mail->tx_queue)
			break;
	return channel;
}

/* Freed later: control is in the midst of it, and its senders' memory is given back first; the queue is gone by then. */
static void end(struct channel *channel)
{
	channel_set_close(channel);
	channel->ended = true;
	events_reap(channel->tx->daemon);
}

/* One whose removal was asked for is given back by that, else by this. */
static void fail(struct channel *channel, int error)
{
	bool is_asked_for = channel->removed && !channel->remove_to_mail;

	channel_fail(channel, error);
	if (channel->removed && !is_asked_for)
		end(channel);
}

void channel_set_said(void *context, const struct mail *mail)
{
	struct interface_tx *tx = context;
	struct channel *channel;

	switch (mail->type) {
	case MAIL_TX_QUEUE_ADDED:
	case MAIL_TX_QUEUE_FAILED:
		channel = channel_of(tx->daemon, mail);
		if (channel && mail->error < 0)
			fail(channel, mail->error);
		break;
	case MAIL_TX_QUEUE_REMOVED:
		channel = channel_of(tx->daemon, mail);
		if (channel && mail->error < 0)
			log_message(
				LOG_WARNING, &(struct log_about){.channel = channel->config->name},
				"channel '%s': its send queue on device %s could not be emptied: %s; it was destroyed",
				channel->config->name, channel->interface->capabilities.device, strerror(-mail->error));
		if (channel)
			end(channel);
		break;
	case MAIL_STOPPED:
		tx->ended = true;
		events_look_for_end(tx->daemon);
		break;
	default:
		break;
	}
}

void channel_set_refresh(struct daemon *daemon)
{
	struct channel *channel;

	TAILQ_FOREACH (channel, &daemon->channels, link)
		channel_set_link(channel, channel->interface->link_up);
}

void channel_set_set_config(struct daemon *daemon, const struct config *config)
{
	struct channel *channel;

	TAILQ_FOREACH (channel, &daemon->channels, link)
		if (!channel->removed)
			channel->config = channel->control.config = config_find_channel(config, channel->config->name);
}

void channel_set_lend(struct channel_list *list)
{
	struct channel *channel;

	TAILQ_FOREACH (channel, list, link)
		channel_lend(channel);
}

/* ---- going --------------------------------------------------------------------------------------- */

void channel_set_remove(struct daemon *daemon, struct channel *channel)
{
	control_end_channel(daemon->control, &channel->control, IBVCAP_DISCONNECT_REMOVED);
	channel_take_back(channel);
	if (channel->ended)
		events_reap(daemon);
}

void channel_set_close(struct channel *channel)
{
	if (!channel->queue)
		return;
	channel->lent = false;
	tx_queue_close(channel->queue);
}

void channel_set_free(struct daemon *daemon, struct channel_list *list, struct channel *channel)
{
	struct interface *interface = channel->interface;

	if (daemon->control)
		control_remove_channel(daemon->control, &channel->control);
	interface_tx_release(channel->tx);
	channel_destinations_forget(channel);
	if (channel->was_lent)
		channel_log_sum(channel);
	channel_deinit(channel);
	TAILQ_REMOVE(list, channel, link);
	free(channel);
	interface_set_release(daemon, interface);
}
