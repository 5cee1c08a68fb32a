// SPDX-License-Identifier: Apache-2.0
/* Closes and opens the services of interfaces that went and came back, one interface at a time. */
#include "daemon/reload/reopen.h"

#include "daemon/base/log.h"
#include "daemon/channel/channel.h"
#include "daemon/port/interface.h"
#include "daemon/reload/apply.h"
#include "daemon/reload/reload.h"
#include "daemon/stream/stream.h"
#include "lib/base/time.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY_AGAIN_NS (TIME_SECOND_NS * 9 / 10)
/* Streams are opened when the memory of the old ones is free. A client may hold up the end of a channel. */
#define CHANNELS_NS (TIME_SECOND_NS / 2)

/* An interface whose services are closed, or closing. */
struct reopening {
	TAILQ_ENTRY(reopening) link;
	char interface[IFNAMSIZ];
	uint64_t closed_ns; /* CLOCK_MONOTONIC */
	uint64_t try_at_ns; /* likewise */
	bool is_opening;    /* by daemon->reconfiguration */
	bool is_told;       /* the log has why they cannot be opened */
};

static const struct interface *reopen_interface_of(const struct service *service)
{
	return service->ops->kind == SERVICE_STREAM ? ((const struct stream *)service)->interface
	                                            : ((const struct channel *)service)->interface;
}

static struct reopening *reopen_find(const struct daemon *daemon, const char *interface)
{
	struct reopening *reopening;

	TAILQ_FOREACH (reopening, &daemon->reopenings, link)
		if (strcmp(reopening->interface, interface) == 0)
			break;
	return reopening;
}

static void reopen_forget(struct daemon *daemon, struct reopening *reopening)
{
	TAILQ_REMOVE(&daemon->reopenings, reopening, link);
	free(reopening);
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
	struct reopening *reopening = reopen_find(daemon, interface->name);
	struct service *service;

	if (!reopening) {
		reopening = calloc(1, sizeof(*reopening));
		if (!reopening) /* the next second may have memory */
			return;
		snprintf(reopening->interface, sizeof(reopening->interface), "%s", interface->name);
		TAILQ_INSERT_TAIL(&daemon->reopenings, reopening, link);
	}
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
	if (!reopening->is_told)
		log_message(LOG_ERR, &(struct log_about){.event = LOG_EVENT_DEVICE, .interface = reopening->interface},
		            "interface %s: its streams and channels cannot be opened again: %s; the daemon tries again "
		            "every second",
		            reopening->interface, failure->text);
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
		            "interface %s: its streams and channels are open again", reopening->interface);
		reopen_forget(daemon, reopening);
	}
	reload_go_on(daemon);
	schedule_reap(daemon);
}

/* If the interface is away again, its return is an event of the kernel. */
static void reopen_open(struct daemon *daemon, struct reopening *reopening)
{
	struct failure failure;

	if (if_nametoindex(reopening->interface) == 0)
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
			reopen_forget(daemon, reopening);
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
		reopen_forget(daemon, TAILQ_FIRST(&daemon->reopenings));
}
