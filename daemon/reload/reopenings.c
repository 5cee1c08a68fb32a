// SPDX-License-Identifier: Apache-2.0
/* The list of interfaces whose streams and channels are closed; at the start, of those that are not there. */
#include "daemon/reload/reopenings.h"

#include "daemon/base/log.h"
#include "daemon/memory/geometry.h"
#include "daemon/net/net.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reopening *reopenings_find(const struct daemon *daemon, const char *interface)
{
	struct reopening *reopening;

	TAILQ_FOREACH (reopening, &daemon->reopenings, link)
		if (strcmp(reopening->interface, interface) == 0)
			break;
	return reopening;
}

struct reopening *reopenings_add(struct daemon *daemon, const char *interface)
{
	struct reopening *reopening = calloc(1, sizeof(*reopening));

	if (!reopening)
		return NULL;
	snprintf(reopening->interface, sizeof(reopening->interface), "%s", interface);
	TAILQ_INSERT_TAIL(&daemon->reopenings, reopening, link);
	return reopening;
}

void reopenings_explain(struct reopening *reopening, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reopening->why, sizeof(reopening->why), format, arguments);
	va_end(arguments);
}

void reopenings_forget(struct daemon *daemon, struct reopening *reopening)
{
	TAILQ_REMOVE(&daemon->reopenings, reopening, link);
	free(reopening);
}

/* ---- not there yet --------------------------------------------------------------------------------- */

static int reopenings_await(struct daemon *daemon, const char *interface, struct failure *failure)
{
	const struct log_about about = {.event = LOG_EVENT_DEVICE, .interface = interface};
	struct reopening *reopening;
	struct net_interface net;

	if (reopenings_find(daemon, interface) || net_interface_read(interface, &net, failure) != -ENODEV)
		return 0; /* opening it says why it cannot be read */
	reopening = reopenings_add(daemon, interface);
	if (!reopening)
		return failure_no_memory(failure);
	reopenings_explain(reopening, "%s", failure->text);
	log_message(LOG_ERR, &about,
	            "%s; its streams and channels wait until it is there and up; if its name is wrong, correct %s: "
	            "systemctl reload ibvcapd",
	            failure->text, daemon->config->file);
	return 0;
}

int reopenings_await_missing(struct daemon *daemon, struct failure *failure)
{
	const struct config *config = daemon->config;
	int r = 0;

	for (uint32_t i = 0; i < config->n_streams && r == 0; i++)
		r = reopenings_await(daemon, config->streams[i].interface, failure);
	for (uint32_t i = 0; i < config->n_channels && r == 0; i++)
		r = reopenings_await(daemon, config->channels[i].interface, failure);
	return r;
}

/* Of verbs, which "auto" may become: the other backends lock no rings. */
void reopenings_add_locked_memory(const struct daemon *daemon, struct service_memory *memory)
{
	const struct config *config = daemon->config;

	for (uint32_t i = 0; i < config->n_streams; i++)
		if (reopenings_have(daemon, config->streams[i].interface) &&
		    config_may_share_backend(config->streams[i].backend, CONFIG_BACKEND_VERBS))
			memory->locked_ring_bytes += geometry_ring_bytes(&config->streams[i], false);
	for (uint32_t i = 0; i < config->n_channels; i++)
		if (reopenings_have(daemon, config->channels[i].interface) &&
		    config_may_share_backend(config->channels[i].backend, CONFIG_BACKEND_VERBS))
			memory->locked_channel_bytes +=
				config->channels[i].max_senders * geometry_arena_bytes(&config->channels[i]);
}

bool reopenings_have(const struct daemon *daemon, const char *interface)
{
	return reopenings_find(daemon, interface) != NULL;
}

const char *reopenings_why(void *daemon, const char *interface, bool is_lent)
{
	static struct failure failure;
	const struct reopening *reopening = reopenings_find(daemon, interface);
	struct net_interface net;

	if (reopening && *reopening->why)
		return reopening->why;
	if (!reopening && net_interface_read(interface, &net, &failure) == -ENODEV)
		return failure.text;
	return is_lent ? NULL : "its interface or the device went away or failed, and is being opened again";
}
