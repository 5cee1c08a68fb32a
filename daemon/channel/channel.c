// SPDX-License-Identifier: Apache-2.0
/*
 * A channel from its configuration to its end: checks, the send queue, the registration of senders' arenas, and the
 * mail to the transmit worker. What does not fit into the worker's mailbox is marked, and mailed again later.
 */
#include "daemon/channel/channel.h"

#include "daemon/base/log.h"
#include "lib/base/size.h"
#include "daemon/channel/tx_headers.h"
#include "daemon/memory/geometry.h"
#include "daemon/port/interface_tx.h"
#include "daemon/state/service.h"
#include "daemon/state/state.h"
#include "lib/status/counters.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the configuration asks for ------------------------------------------------------------- */

int channel_init(struct channel *channel, const struct config_channel *config, struct interface *interface,
                 struct failure *failure)
{
	int r = tx_headers_check(config, &interface->net, failure);

	*channel = (struct channel){.service.name = config->name,
	                            .config = config,
	                            .interface = interface,
	                            .cut_bytes = geometry_cut_bytes(config, interface->net.mtu)};
	if (r < 0)
		return r;
	channel->destinations = calloc(config->n_destinations, sizeof(*channel->destinations));
	if (!channel->destinations)
		return failure_set(failure, EX_OSERR, ENOMEM, "channel '%s': out of memory", config->name);
	for (uint32_t i = 0; i < config->n_destinations; i++)
		channel->destinations[i].now.error = -EHOSTUNREACH;
	return 0;
}

static enum backend_send_time channel_send_time(enum config_send_time asked)
{
	return asked == CONFIG_SEND_TIME_WORKER  ? BACKEND_SEND_TIME_WORKER
	       : asked == CONFIG_SEND_TIME_QDISC ? BACKEND_SEND_TIME_QDISC
	                                         : BACKEND_SEND_TIME_AUTO;
}

static struct tx_queue_options channel_queue_options(const struct channel *channel)
{
	const struct config_channel *config = channel->config;

	return (struct tx_queue_options){
		.name = config->name,
		.backend = channel->interface->backend,
		.queue_slots = config->send_queue_slots,
		.slot_bytes = config->payload_size,
		.cut_bytes = channel->cut_bytes,
		.n_destinations = config->n_destinations,
		.checksums = channel->checksums,
		.rate_bps = config->rate_limit_bps,
		.burst_bytes = config->burst_bytes,
		.device_pacing = config->device_pacing,
		.priority = config->priority,
		.send_time = channel_send_time(config->send_time),
		.late_after_ns = config->late_after_us * UINT64_C(1000),
		.completion_events = config->poll != CONFIG_POLL_BUSY,
	};
}

uint64_t channel_pinned_bytes(const struct channel *channel)
{
	const struct tx_queue_options options = channel_queue_options(channel);

	return tx_queue_bytes(&options);
}

uint64_t channel_senders_bytes(const struct channel *channel)
{
	const struct config_channel *config = channel->config;
	const struct sender_options options = {
		.n_slots = config->arena_slots, .slot_bytes = config->payload_size, .page_bytes = config->page_bytes};
	uint64_t arena, page, state;

	sender_size(&options, &arena, &page, &state);
	return config->max_senders * (arena + page + state);
}

/* ---- preparing ----------------------------------------------------------------------------------- */

static int channel_fit_pacing(const struct config_channel *config, const struct backend_capabilities *device,
                              struct failure *failure)
{
	if (!config->device_pacing)
		return 0;
	if (device->max_rate_bps == 0)
		return failure_set(failure, EX_CONFIG, ENOTSUP,
		                   "%s:%d: channel '%s': pacing = \"device\", and device %s of %s cannot pace: "
		                   "accepted is \"software\"",
		                   config->file, config->line, config->name, device->device, config->interface);
	if (config->rate_limit_bps >= device->min_rate_bps && config->rate_limit_bps <= device->max_rate_bps)
		return 0;
	return failure_set(
		failure, EX_CONFIG, ERANGE,
		"%s:%d: channel '%s': rate_limit_mbps = %llu with pacing = \"device\": "
		"accepted is what device %s of %s paces to, from %.9g to %.9g Mb/s, or pacing = \"software\"",
		config->file, config->line, config->name, (unsigned long long)config->rate_limit_bps / 1000000,
		device->device, config->interface, (double)device->min_rate_bps / 1e6,
		(double)device->max_rate_bps / 1e6);
}

static int channel_fit_priority(const struct config_channel *config, const struct backend_capabilities *device,
                                struct failure *failure)
{
	if (device->send_priorities || (config->priority == 0 && config->send_time != CONFIG_SEND_TIME_QDISC))
		return 0;
	return failure_set(failure, EX_CONFIG, ENOTSUP,
	                   "%s:%d: channel '%s': packets by device %s of %s pass no queueing discipline: accepted is "
	                   "%s, or backend = \"packet\"",
	                   config->file, config->line, config->name, device->device, config->interface,
	                   config->priority ? "priority = 0" : "send_time = \"auto\" or \"worker\"");
}

/* Asks the kernel, which takes its lock of all interfaces: not for the control thread. */
static int channel_check_send_time(const struct config_channel *config, const struct interface *interface,
                                   struct failure *failure)
{
	struct failure found;

	if (config->send_time != CONFIG_SEND_TIME_QDISC ||
	    interface->ops->check_send_time(interface->name, config->priority, &found) == 0)
		return 0;
	return failure_set(failure, found.exit_code, ENOTSUP, "%s:%d: channel '%s': %s", config->file, config->line,
	                   config->name, found.text);
}

int channel_check_unopened(const struct config_channel *config, const struct interface *interface,
                           struct failure *failure)
{
	struct backend_capabilities device = {.send_priorities = interface->ops->check_send_time != NULL};
	int r;

	snprintf(device.device, sizeof(device.device), "%s", interface->name);
	r = channel_fit_priority(config, &device, failure);
	if (r == 0)
		r = channel_check_send_time(config, interface, failure);
	return r < 0 || interface->ops->pins_memory ? r : channel_fit_pacing(config, &device, failure);
}

int channel_fit(struct channel *channel, struct failure *failure)
{
	const struct config_channel *config = channel->config;
	const struct backend_capabilities *device = &channel->interface->capabilities;
	int r;

	if (config->send_queue_slots > device->max_send_slots)
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "%s:%d: channel '%s': send_queue_slots %u is more than device %s takes: at most %u",
		                   config->file, config->line, config->name, config->send_queue_slots, device->device,
		                   device->max_send_slots);
	if (config->vlan >= 0 && device->no_vlans)
		return failure_set(
			failure, EX_CONFIG, EPROTONOSUPPORT,
			"%s:%d: channel '%s': interface %s has no Ethernet headers, and so no VLANs: take vlan out",
			config->file, config->line, config->name, config->interface);
	r = channel_fit_priority(config, device, failure);
	if (r == 0)
		r = channel_fit_pacing(config, device, failure);
	return r < 0 ? r : tx_headers_checksums(config, device, channel->cut_bytes != 0, &channel->checksums, failure);
}

static void channel_read_send_time(void *context, const char **keeper, const char **why)
{
	const struct channel *channel = context;
	const struct backend_queue *device = channel->queue->queue;

	*why = "";
	*keeper = device && device->ops->read_send_time ? device->ops->read_send_time(device, why) : "worker";
}

/* Nothing if no discipline there keeps times. */
static void channel_log_send_time(struct channel *channel)
{
	const char *keeper, *why;

	channel_read_send_time(channel, &keeper, &why);
	if (why[0])
		log_message(
			LOG_INFO,
			&(struct log_about){.channel = channel->config->name, .interface = channel->config->interface},
			"channel '%s': send times are kept by the %s: %s", channel->config->name, keeper, why);
}

int channel_prepare(struct channel *channel, uint64_t epoch, struct failure *failure)
{
	const struct config_channel *config = channel->config;
	const struct tx_queue_options options = channel_queue_options(channel);
	char rate[48] = "no rate limit";
	int r = tx_queue_new(&channel->queue, &options, failure);

	if (r < 0)
		return r;
	channel->epoch = epoch;
	if (config->rate_limit_bps)
		snprintf(rate, sizeof(rate), "rate %" PRIu64 " Mb/s", config->rate_limit_bps / 1000000);
	log_message(
		LOG_INFO, &(struct log_about){.channel = config->name, .interface = config->interface},
		"channel '%s': interface %s%s%s, device %s: %u destinations, send queue %u, arenas of %u slots of %u "
		"bytes in %u kB pages, %s%s",
		config->name, config->interface, config->interface_alias[0] ? ", that is " : "",
		config->interface_alias, channel->interface->capabilities.device, config->n_destinations,
		config->send_queue_slots, config->arena_slots, config->payload_size, config->page_bytes / 1024, rate,
		config->device_pacing ? ", kept by the device" : "");
	channel_log_send_time(channel);
	if (channel->cut_bytes)
		log_message(LOG_INFO, &(struct log_about){.channel = config->name, .interface = config->interface},
		            "channel '%s': payloads that are longer than the MTU of %s (%u) leave as IP fragments "
		            "(fragment)",
		            config->name, config->interface, channel->interface->net.mtu);
	return 0;
}

/* ---- senders' arenas ---------------------------------------------------------------------------- */

static int channel_register_arena(void *context, const struct shm *arena, const void **registration,
                                  struct failure *failure)
{
	const struct channel *channel = context;
	struct backend_memory *memory = NULL;
	int r = channel->interface->ops->register_memory(channel->interface->backend, arena->address, arena->bytes,
	                                                 &memory, failure);

	if (r == 0)
		*registration = memory;
	return r;
}

static void channel_unregister_arena(void *context, const void *registration)
{
	const struct channel *channel = context;

	if (!channel->interface->is_abandoned)
		channel->interface->ops->unregister_memory((struct backend_memory *)registration);
}

static void channel_look_for_end(void *context)
{
	struct channel *channel = context;
	struct daemon *daemon = channel->tx->daemon;

	if (!channel->is_given_back || !control_channel_is_empty(&channel->control))
		return;
	channel->service.ended = true;
	schedule_reap(daemon);
}

/* ---- mail to the worker ------------------------------------------------------------------------- */

static void channel_refresh_state(struct channel *channel)
{
	struct control_channel *control = &channel->control;

	control->n_unresolved = 0;
	for (uint32_t i = 0; i < channel->config->n_destinations; i++)
		control->n_unresolved += channel->destinations[i].now.error != 0;
	control->state = channel->service.removed ? "ending"
	                 : channel->failed        ? "failed"
	                 : channel->error         ? "link_down"
	                 : control->n_unresolved  ? "unresolved"
	                                          : "sending";
}

/* Stops at the first mail for which there is no room: the worker must hear of the channel before anything about it. */
static bool channel_mail_news(struct channel *channel)
{
	struct mailbox *inbox = channel->tx->worker->inbox;
	struct mail mail = {.tx_queue = channel->queue, .error = channel->error};
	const struct {
		bool *to_mail;
		enum mail_type type;
	} news[] = {{&channel->add_to_mail, MAIL_ADD_TX_QUEUE},
	            {&channel->error_to_mail, MAIL_TX_QUEUE_ERROR},
	            {&channel->remove_to_mail, MAIL_REMOVE_TX_QUEUE}};
	bool is_all = true;

	for (size_t i = 0; i < sizeof(news) / sizeof(news[0]); i++) {
		mail.type = news[i].type;
		if (*news[i].to_mail)
			*news[i].to_mail = mailbox_send(inbox, &mail) < 0;
		if (*news[i].to_mail)
			return false;
	}
	for (uint32_t i = 0; i < channel->config->n_destinations && is_all; i++) {
		mail = (struct mail){.type = MAIL_DESTINATION,
		                     .tx_queue = channel->queue,
		                     .index = i,
		                     .destination = channel->destinations[i].now};
		if (channel->destinations[i].to_mail)
			is_all = mailbox_send(inbox, &mail) == 0;
		if (is_all)
			channel->destinations[i].to_mail = false;
	}
	return is_all;
}

void channel_mail(struct channel *channel)
{
	if (!channel->lent || channel->failed || channel->tx->stopping)
		return;
	if (!channel_mail_news(channel))
		schedule_mail(channel->tx->daemon);
}

void channel_lend(struct channel *channel)
{
	channel->lent = channel->was_lent = true;
	channel->add_to_mail = true;
	channel_mail(channel);
}

void channel_take_back(struct channel *channel)
{
	channel->service.removed = true;
	channel->is_given_back = channel->failed;
	channel->remove_to_mail = true;
	channel_refresh_state(channel);
	channel_mail(channel);
	channel_look_for_end(channel);
}

void channel_set_destination(struct channel *channel, uint32_t i, const struct tx_queue_destination *destination)
{
	struct channel_destination *mine = &channel->destinations[i];

	/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): memcpy() copied the padding, too */
	if (memcmp(&mine->now, destination, sizeof(mine->now)) == 0)
		return;
	memcpy(&mine->now, destination, sizeof(mine->now));
	if (channel->lent)
		mine->to_mail = true;
	else
		tx_queue_set_destination(channel->queue, i, &mine->now);
	channel_refresh_state(channel);
	channel_mail(channel);
}

void channel_set_link(struct channel *channel, bool up)
{
	int32_t error = up ? 0 : -ENETDOWN;

	if (channel->error == error)
		return;
	channel->error = error;
	if (channel->lent)
		channel->error_to_mail = true;
	else
		channel->queue->error = error;
	channel_refresh_state(channel);
	channel_mail(channel);
}

int channel_serve(struct channel *channel, struct failure *failure)
{
	const struct interface *interface = channel->interface;
	int r;

	channel->control = (struct control_channel){
		.config = channel->config,
		.worker = &channel->tx->control,
		.queue = channel->queue,
		.counters = channel->queue->counters,
		.epoch = channel->epoch,
		.device = interface->capabilities.device,
		.backend = interface->ops->name,
		.register_arena = channel_register_arena,
		.unregister_arena = channel_unregister_arena,
		.send_time = channel_read_send_time,
		.emptied = channel_look_for_end,
		.context = channel,
	};
	channel_refresh_state(channel);
	r = control_add_channel(channel->tx->daemon->control, &channel->control);
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "channel '%s': cannot be served: %s", channel->config->name,
	                            strerror(-r));
}

/* ---- ending ------------------------------------------------------------------------------------- */

void channel_close(struct channel *channel)
{
	channel->lent = false;
	if (channel->queue && !channel->interface->is_abandoned)
		tx_queue_close(channel->queue);
}

void channel_end(struct channel *channel)
{
	channel_close(channel);
	channel->is_given_back = true;
	channel_look_for_end(channel);
}

void channel_fail(struct channel *channel, int error)
{
	bool is_asked_for = channel->service.removed && !channel->remove_to_mail;

	channel->failed = true;
	channel_close(channel);
	channel_refresh_state(channel);
	log_message(LOG_ERR,
	            &(struct log_about){.event = LOG_EVENT_CHANNEL_FAILED,
	                                .channel = channel->config->name,
	                                .interface = channel->config->interface},
	            "channel '%s': its send queue on device %s failed and cannot go on: %s; take the channel out of "
	            "%s, systemctl reload ibvcapd, put it in again, and reload again",
	            channel->config->name, channel->interface->capabilities.device, strerror(-error),
	            channel->config->file);
	/* A worker that was asked for the channel gives it back itself. */
	if (channel->service.removed && !is_asked_for)
		channel_end(channel);
}

void channel_log_sum(const struct channel *channel)
{
	static const enum ibvcap_tx_counter told[] = {IBVCAP_TX_COUNTER_SUBMITTED, IBVCAP_TX_COUNTER_COMPLETED,
	                                              IBVCAP_TX_COUNTER_ERRORED, IBVCAP_TX_COUNTER_FLUSHED,
	                                              IBVCAP_TX_COUNTER_LATE_DROPPED};
	struct log_counter sum[sizeof(told) / sizeof(told[0])];
	const struct log_about about = {.event = LOG_EVENT_CHANNEL_ENDED,
	                                .channel = channel->config->name,
	                                .interface = channel->config->interface,
	                                .counters = sum,
	                                .n_counters = sizeof(told) / sizeof(told[0])};

	for (unsigned i = 0; i < about.n_counters; i++)
		sum[i] = (struct log_counter){channel_counters[told[i]].name,
		                              counter_get(&channel->queue->counters[told[i]])};
	log_message(LOG_INFO, &about,
	            "channel '%s': ended: submitted %" PRIu64 " = completed %" PRIu64 " + errored %" PRIu64
	            " + flushed %" PRIu64 " + late_dropped %" PRIu64,
	            channel->config->name, sum[0].value, sum[1].value, sum[2].value, sum[3].value, sum[4].value);
}

void channel_deinit(struct channel *channel)
{
	tx_queue_free(channel->queue);
	channel->queue = NULL;
	free(channel->destinations);
	channel->destinations = NULL;
}
