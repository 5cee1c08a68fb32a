// SPDX-License-Identifier: Apache-2.0
/*
 * The list of interfaces: one entry per interface and backend, with a reference count. Entries are opened when the
 * first service needs the device, and freed with the last one.
 */
#include "daemon/port/interface_set.h"

#include "daemon/base/log.h"
#include "daemon/port/interface.h"
#include "daemon/state/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* ---- which interface a service has --------------------------------------------------------------- */

/* One that was replaced, or whose device has failed, only waits until its services are closed. */
static bool interface_is_named(const struct interface *interface, const char *name)
{
	return strcmp(interface->name, name) == 0 && !interface_is_replaced(interface) &&
	       !interface_has_failed(interface);
}

/* NULL: there is none. */
static struct interface *interface_set_find(const struct daemon *daemon, const char *name, const char *backend)
{
	struct interface *interface;

	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		if (interface_is_named(interface, name) && strcmp(interface->ops->name, backend) == 0)
			break;
	return interface;
}

/* The entry of the services that have backend = "auto" on this interface, or NULL. */
static struct interface *interface_set_find_auto(const struct daemon *daemon, const char *name)
{
	struct interface *interface;

	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		if (interface->is_auto && interface_is_named(interface, name))
			break;
	return interface;
}

/* ---- a new one ----------------------------------------------------------------------------------- */

/* AUTO may become this backend. */
static bool interface_may_serve(const struct interface *interface, const struct config_stream *stream)
{
	return strcmp(stream->interface, interface->name) == 0 &&
	       (stream->backend == CONFIG_BACKEND_AUTO ||
	        strcmp(config_backend_name(stream->backend), interface->ops->name) == 0);
}

static void interface_list_queues(const struct config *config, const struct interface *interface,
                                  uint32_t slots[BACKEND_QUEUES_MAX])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < config->n_streams; i++)
		for (uint32_t queue = 0; queue < config->streams[i].queues && n < BACKEND_QUEUES_MAX; queue++)
			if (interface_may_serve(interface, &config->streams[i]))
				slots[n++] = config->streams[i].receive_queue_slots;
}

/* xdp_queues counts one queue of each stream; the further ones of streams at start have room of their own. */
static uint32_t interface_count_queues(const struct config *config, const struct interface *interface)
{
	uint32_t n = config->xdp_queues;

	for (uint32_t i = 0; i < config->n_streams; i++)
		if (interface_may_serve(interface, &config->streams[i]))
			n += config->streams[i].queues - 1;
	return n;
}

static struct backend_open_options interface_open_options(const struct config *config,
                                                          const struct interface *interface)
{
	static const enum backend_xdp_mode modes[] = {
		[CONFIG_XDP_MODE_AUTO] = BACKEND_XDP_AUTO,
		[CONFIG_XDP_MODE_ZERO_COPY] = BACKEND_XDP_ZERO_COPY,
		[CONFIG_XDP_MODE_COPY] = BACKEND_XDP_COPY,
	};

	struct backend_open_options options = {.queues = interface_count_queues(config, interface),
	                                       .direct = config->direct,
	                                       .strict_ordering = !config->relaxed_ordering,
	                                       .xdp_mode = modes[config->xdp_mode]};

	interface_list_queues(config, interface, options.slots);
	for (uint32_t i = 0; i < config->n_streams; i++)
		options.stamp_packets |= interface_may_serve(interface, &config->streams[i]) &&
		                         config->streams[i].timestamps == CONFIG_TIMESTAMPS_HARDWARE;
	return options;
}

/* An entry came or went: tell all interfaces of this name whether backend packet serves it, too. */
static void interface_set_tell(const struct daemon *daemon, const char *name)
{
	const struct interface *by_packet = interface_set_find(daemon, name, "packet");
	struct interface *interface;

	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		if (strcmp(interface->name, name) == 0)
			interface->has_packet_beside = by_packet && by_packet != interface;
}

/* The choice for AUTO may be one that is there already. */
static int interface_set_add(struct daemon *daemon, const struct config *config, const char *name,
                             enum config_backend backend, struct interface **out, struct failure *failure)
{
	const struct interface_wishes wishes = {
		.leaves_packets = config_interface_leaves_packets(config, name),
		.wants_card_time = config_interface_wants_card_time(config, name),
		.has_xdp = interface_set_find(daemon, name, "xdp") != NULL,
	};
	struct interface *interface = calloc(1, sizeof(*interface));
	int r;

	if (!interface)
		return failure_set(failure, EX_OSERR, ENOMEM, "interface %s: out of memory", name);
	r = interface_init(interface, name, backend, &wishes, failure);
	if (r < 0) {
		free(interface);
		return r;
	}
	*out = interface_set_find(daemon, name, interface->ops->name);
	if (*out) {
		free(interface);
		return 0;
	}
	interface->open_options = interface_open_options(config, interface);
	TAILQ_INSERT_TAIL(&daemon->interfaces, interface, link);
	interface_set_tell(daemon, name);
	*out = interface;
	return 0;
}

int interface_set_take(struct daemon *daemon, const struct config *config, const char *name,
                       enum config_backend backend, struct interface **out, struct failure *failure)
{
	bool is_auto = backend == CONFIG_BACKEND_AUTO;
	struct interface *interface = is_auto ? interface_set_find_auto(daemon, name)
	                                      : interface_set_find(daemon, name, config_backend_name(backend));
	int r = interface ? 0 : interface_set_add(daemon, config, name, backend, &interface, failure);

	if (!interface)
		return r;
	interface->is_auto |= is_auto;
	interface->is_named |= !is_auto;
	interface->port.is_auto = interface->is_auto;
	interface->n_users++;
	*out = interface;
	return 0;
}

int interface_set_open(struct interface *interface, struct failure *failure)
{
	return interface->backend ? interface_check_answers(interface, failure) : interface_open(interface, failure);
}

/* ---- notices ------------------------------------------------------------------------------------- */

/* Reading a notice may take a command to the device, so the device's thread reads them. */
static void interface_read_notices(void *context)
{
	struct interface_notices *notices = context;
	const struct interface *interface = notices->interface;
	int r = 1;

	for (notices->n = 0; notices->n < INTERFACE_NOTICES_MAX && r == 1; notices->n += r == 1)
		r = interface->ops->read_notice(interface->backend, &notices->at[notices->n]);
	notices->result = r;
}

/* If nobody listens any more, the interface is about to be closed. */
static void interface_take_notices(void *context)
{
	struct interface_notices *notices = context;
	struct interface *interface = notices->interface;

	for (uint32_t i = 0; i < notices->n && notices->source; i++)
		interface->daemon->take_notice(interface, &notices->at[i]);
	if (!notices->source)
		return;
	if (notices->result < 0) /* or it would be ready for ever */
		log_warning("device %s: its notices cannot be read any more: %s", interface->capabilities.device,
		            strerror(-notices->result));
	else
		sd_event_source_set_enabled(notices->source, SD_EVENT_ON);
}

static int on_notices(sd_event_source *source, int, uint32_t, void *context)
{
	struct interface *interface = context;

	background_add(interface->device_thread, &interface->notices.job);
	return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

static int interface_set_watch(struct daemon *daemon, struct interface *interface)
{
	struct interface_notices *notices = &interface->notices;
	int r;

	if (notices->source || !interface->ops->notice_fd)
		return 0;
	notices->interface = interface;
	notices->job = (struct background_job){
		.work = interface_read_notices, .done = interface_take_notices, .context = notices};
	r = sd_event_add_io(daemon->event, &notices->source, interface->ops->notice_fd(interface->backend), EPOLLIN,
	                    on_notices, interface);
	return r < 0 ? r : 0;
}

/* ---- serving ------------------------------------------------------------------------------------- */

int interface_set_serve(struct daemon *daemon, struct interface *interface)
{
	int r;

	if (interface->in_control)
		return 0;
	interface->daemon = daemon;
	r = interface_start_readings(interface, daemon->event, daemon->kernel);
	if (r == 0)
		r = interface_set_watch(daemon, interface);
	if (r < 0)
		return r;
	interface->port = (struct control_interface){
		.name = interface->name,
		.device = interface->capabilities.device,
		.backend = interface->choice.backend,
		.is_auto = interface->is_auto,
		.backend_why = interface->choice.why,
		.backend_how = interface->capabilities.how,
		.backend_better = interface->choice.better,
		.backend_command = interface->choice.command,
		.is_second_best = interface->choice.is_second_best,
		.readings = {&interface->out_of_buffer, &interface->kernel->lost},
		.counters = interface->counters,
		.counts_all_losses = &interface->counts_all_losses,
		.uncounted = &interface->losses.uncounted,
		.lost = &interface->losses.last,
	};
	control_add_interface(daemon->control, &interface->port);
	interface->in_control = true;
	return 0;
}

void interface_set_release(struct daemon *daemon, struct interface *interface)
{
	if (--interface->n_users > 0)
		return;
	if (interface->in_control && daemon->control)
		control_remove_interface(daemon->control, &interface->port);
	interface->notices.source = sd_event_source_disable_unref(interface->notices.source);
	TAILQ_REMOVE(&daemon->interfaces, interface, link);
	interface_set_tell(daemon, interface->name);
	interface_close(interface);
	if (!interface->is_abandoned) /* its thread may still use it */
		free(interface);
}
