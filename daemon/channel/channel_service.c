// SPDX-License-Identifier: Apache-2.0
/*
 * The steps of a channel as a service of the daemon, and the mail of its transmit worker: what the channel needs of its
 * interface, of control and of the neighbour table is done here, the channel itself in channel.c.
 */
#include "daemon/channel/channel.h"

#include "daemon/base/log.h"
#include "daemon/packet/identifications.h"
#include "daemon/port/interface_set.h"
#include "daemon/port/interface_tx.h"
#include "daemon/state/service.h"
#include "daemon/state/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- coming -------------------------------------------------------------------------------------- */

static int channel_service_open(struct daemon *, struct service *service, struct failure *failure)
{
	int r = interface_set_open(channel_of(service)->interface, failure);

	return r == 0 ? channel_fit(channel_of(service), failure) : r;
}

static int channel_service_prepare(struct daemon *, struct service *service, struct failure *failure)
{
	uint64_t epoch;
	int r = service_new_epoch(service, &epoch, failure);

	return r < 0 ? r : channel_prepare(channel_of(service), epoch, failure);
}

/* Look its destinations up, start its worker, and let senders open it. */
static int channel_service_serve(struct daemon *daemon, struct service *service, struct failure *failure)
{
	struct channel *channel = channel_of(service);
	int r = 0;

	if (!daemon->neighbours)
		r = neighbours_new(&daemon->neighbours, daemon->event, failure);
	if (r == 0 && !daemon->identifications) {
		r = identifications_new(&daemon->identifications);
		if (r < 0)
			failure_set(failure, EX_OSERR, -r, "channel '%s': no identifications for IP fragments: %s",
			            service->name, strerror(-r));
	}
	if (r == 0)
		r = channel_destinations_watch(channel, daemon->neighbours, failure);
	if (r < 0)
		return r;
	channel_set_link(channel, channel->interface->link_up);
	r = interface_tx_serve(channel->tx, failure);
	if (r == 0)
		r = channel_serve(channel, failure);
	if (r < 0)
		return r;
	r = interface_set_serve(daemon, channel->interface);
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "channel '%s': cannot be served: %s", service->name,
	                            strerror(-r));
}

static void channel_service_memory(const struct service *service, struct service_memory *memory)
{
	const struct channel *channel = channel_of(service);

	if (channel->interface->ops->pins_memory)
		memory->locked_channel_bytes += channel_pinned_bytes(channel) + channel_senders_bytes(channel);
}

/* ---- a reload ------------------------------------------------------------------------------------ */

static bool channel_service_plan(struct service *service, const struct config *config)
{
	channel_of(service)->config_to_be = config_find_channel(config, service->name);
	return channel_of(service)->config_to_be;
}

static void channel_service_undo(struct service *service)
{
	channel_of(service)->config_to_be = NULL;
}

static int channel_service_can_remove(const struct service *service, struct failure *failure)
{
	return interface_check_answers(((const struct channel *)service)->interface, failure);
}

/* A running channel takes over its new configuration. A new channel is handed to its worker. */
static int channel_service_commit(struct daemon *, struct service *service)
{
	struct channel *channel = channel_of(service);

	if (channel->config_to_be) {
		channel->config = channel->control.config = channel->config_to_be;
		service->name = channel->config->name;
		channel->config_to_be = NULL;
	} else {
		channel_lend(channel);
	}
	return 0;
}

/* ---- running ------------------------------------------------------------------------------------- */

/* For control_tx_worker.said; context is the interface_tx. */
static void on_tx_worker_said(void *context, const struct control_channel *known, const struct mail *mail)
{
	struct interface_tx *tx = context;
	struct channel *channel = known ? known->context : NULL;

	switch (mail->type) {
	case MAIL_TX_QUEUE_ADDED:
	case MAIL_TX_QUEUE_FAILED:
		if (channel && mail->error < 0)
			channel_fail(channel, mail->error);
		break;
	case MAIL_TX_QUEUE_REMOVED:
		if (channel && mail->error < 0)
			log_message(
				LOG_WARNING, &(struct log_about){.channel = channel->config->name},
				"channel '%s': its send queue on device %s could not be emptied: %s; it was destroyed",
				channel->config->name, channel->interface->capabilities.device, strerror(-mail->error));
		if (channel)
			channel_end(channel);
		break;
	case MAIL_STOPPED:
		tx->ended = true;
		schedule_end(tx->daemon);
		break;
	default:
		break;
	}
}

static void channel_service_refresh(struct daemon *, struct service *service)
{
	struct channel *channel = channel_of(service);

	service->link_down = !channel->interface->link_up;
	channel_set_link(channel, channel->interface->link_up);
	channel_mail(channel);
}

/* ---- going --------------------------------------------------------------------------------------- */

static void channel_service_remove(struct daemon *, struct service *service, enum ibvcap_disconnect reason)
{
	control_end_channel(&channel_of(service)->control, reason);
	channel_take_back(channel_of(service));
}

static void channel_service_stop(struct service *service)
{
	interface_tx_stop(channel_of(service)->tx);
}

static bool channel_service_has_ended(const struct service *service)
{
	return channel_of(service)->tx->ended;
}

/* The queue goes before the memory of its senders, which control frees. */
static void channel_service_join(struct service *service)
{
	interface_tx_join(channel_of(service)->tx);
	channel_close(channel_of(service));
}

static void channel_service_free(struct daemon *daemon, struct service_list *list, struct service *service)
{
	struct channel *channel = channel_of(service);
	struct interface *interface = channel->interface;

	if (daemon->control)
		control_remove_channel(&channel->control);
	interface_tx_release(channel->tx);
	channel_destinations_forget(channel);
	if (channel->was_lent)
		channel_log_sum(channel);
	TAILQ_REMOVE(list, service, link);
	if (!interface->is_abandoned) { /* its device may still use the memory */
		channel_deinit(channel);
		free(channel);
	}
	interface_set_release(daemon, interface);
}

static const struct service_ops channel_service_ops = {
	.kind = SERVICE_CHANNEL,
	.steps = {[SERVICE_OPEN] = channel_service_open,
                  [SERVICE_PREPARE] = channel_service_prepare,
                  [SERVICE_SERVE] = channel_service_serve},
	.memory = channel_service_memory,
	.plan = channel_service_plan,
	.undo = channel_service_undo,
	.can_remove = channel_service_can_remove,
	.commit = channel_service_commit,
	.refresh = channel_service_refresh,
	.stop = channel_service_stop,
	.remove = channel_service_remove,
	.has_ended = channel_service_has_ended,
	.join = channel_service_join,
	.free = channel_service_free,
};

int channel_service_new(struct daemon *daemon, const struct config *whole, struct service_list *list,
                        const struct config_channel *config, struct failure *failure)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	struct interface *interface = NULL;
	int r;

	if (!channel)
		return failure_set(failure, EX_OSERR, ENOMEM, "channel '%s': out of memory", config->name);
	r = interface_set_take(daemon, whole, config->interface, config->backend, &interface, failure);
	if (r == 0)
		r = channel_init(channel, config, interface, failure);
	if (r == 0)
		r = interface_tx_take(daemon, interface, config, on_tx_worker_said, &channel->tx, failure);
	if (r == 0) {
		channel->service.ops = &channel_service_ops;
		TAILQ_INSERT_TAIL(list, &channel->service, link);
		return 0;
	}
	channel_deinit(channel);
	if (interface)
		interface_set_release(daemon, interface);
	free(channel);
	return r;
}
