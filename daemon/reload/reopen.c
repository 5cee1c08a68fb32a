// SPDX-License-Identifier: Apache-2.0
/* Closes and opens the services of interfaces that come, or went and came back, one interface at a time. */
#include "daemon/reload/reopen.h"

#include "daemon/base/log.h"
#include "daemon/channel/channel.h"
#include "daemon/flow/flow.h"
#include "daemon/net/net.h"
#include "daemon/port/interface.h"
#include "daemon/reload/apply.h"
#include "daemon/reload/reload.h"
#include "daemon/reload/reopenings.h"
#include "daemon/stream/stream.h"
#include "lib/base/interface_name.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

#define TRY_AGAIN_NS (TIME_SECOND_NS * 9 / 10)
/* Streams are opened when the memory of the old ones is free. A client may hold up the end of a channel. */
#define CHANNELS_NS (TIME_SECOND_NS / 2)

static const struct interface *reopen_interface_of(const struct service *service)
{
	return service->ops->kind == SERVICE_STREAM ? ((const struct stream *)service)->interface
	                                            : ((const struct channel *)service)->interface;
}

/* ---- closing --------------------------------------------------------------------------------------- */

/* A new one that is down would be opened as far as that goes, and some of it is not made up for when it is up. */
static bool reopen_is_due(const struct interface *interface)
{
	return ((interface_is_replaced(interface) && interface->net.up) || interface_has_failed(interface)) &&
	       !interface->silent_ns;
}

static bool reopen_has_services(const struct daemon *daemon, const struct interface *interface)
{
	const struct service *service;

	TAILQ_FOREACH (service, &daemon->services, link)
		if (!service->removed && reopen_interface_of(service) == interface)
			return true;
	return false;
}

/* Readers are told what they are told at the end of the daemon: they look for the next epoch. */
static void reopen_close(struct daemon *daemon, const struct interface *interface)
{
	const struct log_about about = {.event = LOG_EVENT_DEVICE, .interface = interface->name};
	struct reopening *reopening = reopenings_find(daemon, interface->name);
	struct service *service;

	if (!reopening)
		reopening = reopenings_add(daemon, interface->name);
	if (!reopening) /* the next second may have memory */
		return;
	reopening->was_open = reopening->is_seen = true;
	reopening->closed_ns = time_monotonic_ns();
	if (interface_is_replaced(interface))
		log_message(LOG_NOTICE, &about,
		            "interface %s was deleted and is back (index %u, before %u): the device that is open went "
		            "with the old one; its streams and channels are closed, and opened again with the new one",
		            interface->name, interface->net.index, interface->opened_index);
	else
		log_message(LOG_NOTICE, &about,
		            "interface %s: device %s has failed: its streams and channels are closed, and opened again",
		            interface->name, interface->capabilities.device);
	TAILQ_FOREACH (service, &daemon->services, link)
		if (!service->removed && reopen_interface_of(service) == interface)
			service->ops->remove(daemon, service, IBVCAP_DISCONNECT_SHUTDOWN);
	schedule_reap(daemon);
}

/* ---- opening --------------------------------------------------------------------------------------- */

static bool reopen_waits(const struct daemon *daemon, const struct reopening *reopening, uint64_t now_ns)
{
	bool waits_for_channels = now_ns - reopening->closed_ns < CHANNELS_NS;
	const struct service *service;

	TAILQ_FOREACH (service, &daemon->services, link)
		if (service->removed && (service->ops->kind == SERVICE_STREAM || waits_for_channels) &&
		    strcmp(reopen_interface_of(service)->name, reopening->interface) == 0)
			return true;
	return now_ns < reopening->try_at_ns;
}

/* Does the configuration have a service on the interface that is closed? */
static bool reopen_is_wanted(const struct daemon *daemon, const char *interface)
{
	const struct config *config = daemon->config;

	for (uint32_t i = 0; i < config->n_streams; i++)
		if (strcmp(config->streams[i].interface, interface) == 0 && !config->streams[i].payload_is_lent &&
		    !service_find(&daemon->services, SERVICE_STREAM, config->streams[i].name))
			return true;
	for (uint32_t i = 0; i < config->n_channels; i++)
		if (strcmp(config->channels[i].interface, interface) == 0 &&
		    !service_find(&daemon->services, SERVICE_CHANNEL, config->channels[i].name))
			return true;
	return false;
}

static void reopen_failed(struct reopening *reopening, const struct failure *failure)
{
	reopening->try_at_ns = time_monotonic_ns() + TRY_AGAIN_NS;
	reopenings_explain(reopening, "it cannot be opened: %s", failure->text);
	if (!reopening->is_told)
		log_message(LOG_ERR, &(struct log_about){.event = LOG_EVENT_DEVICE, .interface = reopening->interface},
		            "interface %s: its streams and channels cannot be opened%s: %s; the daemon tries again "
		            "every second",
		            reopening->interface, reopening->was_open ? " again" : "", failure->text);
	reopening->is_told = true;
}

static void on_reopened(struct daemon *daemon, int r, struct failure *failure)
{
	struct reopening *reopening;

	TAILQ_FOREACH (reopening, &daemon->reopenings, link)
		if (reopening->is_opening)
			break;
	reopening->is_opening = false;
	if (r < 0) {
		if (!daemon->stopping)
			reopen_failed(reopening, failure);
	} else {
		log_message(LOG_NOTICE,
		            &(struct log_about){.event = LOG_EVENT_LINK_UP, .interface = reopening->interface},
		            "interface %s%s: its streams and channels are open%s", reopening->interface,
		            reopening->was_open ? "" : " is there", reopening->was_open ? " again" : "");
		reopenings_forget(daemon, reopening);
	}
	reload_go_on(daemon);
	schedule_reap(daemon);
}

/* Under one name, flows of streams may overlap that were of two interfaces before. */
static bool reopen_take_name(struct daemon *daemon, struct reopening *reopening, const char *name)
{
	struct failure failure;

	config_rename_interface(daemon->config, reopening->interface, name);
	if (flow_check(daemon->config, &failure) < 0) {
		config_undo_rename(daemon->config, reopening->interface, name);
		reopen_failed(reopening, &failure);
		return false;
	}
	snprintf(reopening->interface, sizeof(reopening->interface), "%s", name);
	return true;
}

/*
 * Is the interface there? If not, its coming is an event of the kernel. A new one waits until it is up: udev may name
 * it anew before, and it has no addresses. It may have come with another name that it has, by which it is configured.
 */
static bool reopen_is_there(struct daemon *daemon, struct reopening *reopening)
{
	const struct log_about about = {.event = LOG_EVENT_LINK_DOWN, .interface = reopening->interface};
	struct net_interface net;
	char name[IFNAMSIZ];

	if (net_interface_read(reopening->interface, &net, NULL) < 0) {
		if (reopening->is_seen)
			reopenings_explain(reopening, "interface %s is not there any more", reopening->interface);
		reopening->is_seen = false;
		return false;
	}
	reopening->is_seen = true;
	if (!net.up && !reopening->was_open) {
		reopenings_explain(reopening, "interface %s is down: ip link set dev %s up", reopening->interface,
		                   reopening->interface);
		if (!reopening->is_told_down)
			log_message(LOG_WARNING, &about,
			            "interface %s is there, and down: its streams and channels are opened when it is "
			            "up: ip link set dev %s up",
			            reopening->interface, reopening->interface);
		reopening->is_told_down = true;
		return false;
	}
	if (interface_name_find(reopening->interface, name) == 0 && strcmp(name, reopening->interface) != 0)
		return reopen_take_name(daemon, reopening, name);
	return true;
}

static void reopen_open(struct daemon *daemon, struct reopening *reopening)
{
	struct failure failure;

	if (!reopen_is_there(daemon, reopening))
		return;
	reopening->is_opening = true;
	if (apply_begin(daemon, daemon->config, &(struct apply_part){.interface = reopening->interface}, on_reopened,
	                &failure) == 0)
		return;
	reopening->is_opening = false;
	reopen_failed(reopening, &failure);
}

/* ---- both ------------------------------------------------------------------------------------------ */

void reopen_interfaces(struct daemon *daemon)
{
	const struct interface *interface;
	struct reopening *reopening, *next;

	if (daemon->stopping || daemon->reconfiguration)
		return;
	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		if (reopen_is_due(interface) && reopen_has_services(daemon, interface))
			reopen_close(daemon, interface);
	for (reopening = TAILQ_FIRST(&daemon->reopenings); reopening && !daemon->reconfiguration; reopening = next) {
		next = TAILQ_NEXT(reopening, link);
		if (!reopen_is_wanted(daemon, reopening->interface))
			reopenings_forget(daemon, reopening);
		else if (!reopen_waits(daemon, reopening, time_monotonic_ns()))
			reopen_open(daemon, reopening);
	}
}

void reopen_hurry(struct daemon *daemon)
{
	struct reopening *reopening;

	TAILQ_FOREACH (reopening, &daemon->reopenings, link)
		reopening->try_at_ns = 0;
	if (!TAILQ_EMPTY(&daemon->reopenings))
		schedule_reap(daemon);
}

void reopen_cancel(struct daemon *daemon)
{
	while (!TAILQ_EMPTY(&daemon->reopenings))
		reopenings_forget(daemon, TAILQ_FIRST(&daemon->reopenings));
}
