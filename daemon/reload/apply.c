// SPDX-License-Identifier: Apache-2.0
/*
 * A reconfiguration: the services of the configuration to be that are new take their steps in a list of their own, the
 * services that run plan their change. Both are committed or undone together.
 */
#include "daemon/reload/apply.h"

#include "daemon/base/background.h"
#include "daemon/base/log.h"
#include "daemon/channel/channel.h"
#include "daemon/memory/memory_check.h"
#include "daemon/process/preflight.h"
#include "daemon/reload/reopenings.h"
#include "daemon/state/service.h"
#include "daemon/stream/stream.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BESIDES_US         UINT64_C(90000000) /* time limit of a reconfiguration without its memory */
#define RELOAD_PATIENCE_US UINT64_C(15000000) /* for devices and tables, before the watchdog finds it stuck */

struct reconfiguration {
	struct daemon *daemon;
	struct config *config; /* to be; the one in force: closed services of it are opened */
	apply_done *done;
	struct service_list added; /* not in the daemon's list yet */

	struct background_job job;
	int result; /* the job's until it is done; failure likewise */
	struct failure failure;
};

/* ---- the last steps ----------------------------------------------------------------------------- */

/* The flows of a new stream may have taken packets of others, which name the same flows. */
static void reconfiguration_note_flows(const struct reconfiguration *new)
{
	struct service *service;

	TAILQ_FOREACH (service, &new->added, link)
		if (service->ops->kind == SERVICE_STREAM)
			interface_note_rules(stream_of(service)->interface);
}

/* No client has attached to a new service yet: what its flows let in is lost with it, should a later step fail. */
static int reconfiguration_commit(struct reconfiguration *new, struct failure *failure)
{
	struct daemon *daemon = new->daemon;
	int r;

	preflight_leave_cpus(&daemon->cpus, new->config); /* before workers have some of them */
	r = service_walk(daemon, &new->added, SERVICE_START, SERVICE_CAPTURE, failure);
	reconfiguration_note_flows(new);
	if (r == 0)
		r = service_walk(daemon, &daemon->services, SERVICE_CHANGE_GROUPS, SERVICE_CHANGE_FLOWS, failure);
	return r;
}

/* Frees the configuration to be. */
static void reconfiguration_undo(struct reconfiguration *new)
{
	struct daemon *daemon = new->daemon;
	struct service *service;

	TAILQ_FOREACH (service, &daemon->services, link)
		if (service->is_kept)
			service->ops->undo(service);
	while ((service = TAILQ_LAST(&new->added, service_list)))
		service->ops->free(daemon, &new->added, service);
	preflight_leave_cpus(&daemon->cpus, daemon->config);
	if (new->config != daemon->config)
		config_free(new->config);
}

/* Only steps that cannot fail. */
static void reconfiguration_commit_services(struct reconfiguration *new)
{
	struct daemon *daemon = new->daemon;
	struct service *service;

	TAILQ_FOREACH (service, &daemon->services, link)
		if (service->is_kept)
			service->ops->commit(daemon, service);
	TAILQ_FOREACH (service, &daemon->services, link) {
		if (service->is_kept || service->removed)
			continue;
		service->ops->remove(daemon, service, IBVCAP_DISCONNECT_REMOVED);
	}
	TAILQ_FOREACH (service, &new->added, link)
		service->ops->commit(daemon, service);
	if (!TAILQ_EMPTY(&new->added)) {
		struct service_memory memory;

		TAILQ_CONCAT(&daemon->services, &new->added, link);
		/* CAP_IPC_LOCK was given up at start: the log says what is missing without it. */
		memory = service_memory_of(&daemon->services, false);
		memory_needs_ipc_lock(&memory);
	}
	if (new->config != daemon->config)
		new->config->older = daemon->config;
	daemon->config = new->config;
	log_set_level(daemon->config->log_level);
	log_debug("%s is in force: %u streams, %u channels", daemon->config->file, daemon->config->n_streams,
	          daemon->config->n_channels);
	control_set_config(daemon->control, daemon->config);
	schedule_reap(daemon);
	service_refresh_all(daemon);
}

/* ---- in the background -------------------------------------------------------------------------- */

static void prepare_services(void *context)
{
	struct reconfiguration *new = context;

	new->result = preflight_test_seals(new->config, &new->failure);
	if (new->result == 0)
		new->result = service_walk(new->daemon, &new->added, SERVICE_PREPARE, SERVICE_PREPARE, &new->failure);
}

static void on_services_prepared(void *context)
{
	struct reconfiguration *new = context;
	struct daemon *daemon = new->daemon;
	int r = new->result;

	if (daemon->stopping)
		r = failure_set(&new->failure, EX_TEMPFAIL, EAGAIN, "the daemon is stopping");
	if (r == 0)
		r = reconfiguration_commit(new, &new->failure);
	if (r < 0)
		reconfiguration_undo(new);
	else
		reconfiguration_commit_services(new);
	daemon->reconfiguration = NULL;
	new->done(daemon, r, &new->failure);
	free(new);
}

/* ---- beginning ---------------------------------------------------------------------------------- */

static bool apply_part_has(const struct apply_part *part, const char *name, const char *interface, bool is_lent)
{
	if (part->lent)
		return is_lent && strcmp(part->lent, name) == 0;
	return !is_lent && strcmp(part->interface, interface) == 0;
}

/*
 * A closed service that another configuration keeps on its interface stays closed, so that this interface does not hold
 * up a reload. At a start, where part is NULL, those are not added whose interface is awaited.
 */
static bool apply_adds(const struct daemon *daemon, const struct config *config, const struct apply_part *part,
                       enum service_kind kind, const char *name, const char *interface, bool is_lent)
{
	const struct config_stream *stream = config_find_stream(daemon->config, name);
	const struct config_channel *channel = config_find_channel(daemon->config, name);

	if (service_find(&daemon->services, kind, name))
		return false;
	if (config == daemon->config)
		return part ? apply_part_has(part, name, interface, is_lent) : !reopenings_have(daemon, interface);
	if (kind == SERVICE_STREAM)
		return !stream || strcmp(stream->interface, interface) != 0;
	return !channel || strcmp(channel->interface, interface) != 0;
}

/* The newest of the list is the stream that was lent memory. */
static int apply_lend(const struct service_list *list, const struct apply_part *part, struct failure *failure)
{
	struct service *service = TAILQ_LAST(list, service_list);
	int r = stream_lend(stream_of(service), part->dmabuf, part->offset);

	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "stream '%s': its memory cannot be kept: %s", service->name,
	                            strerror(-r));
}

int apply_add_services(struct daemon *daemon, const struct config *config, const struct apply_part *part,
                       struct service_list *list, struct failure *failure)
{
	int r = 0;

	for (uint32_t i = 0; i < config->n_streams && r == 0; i++) {
		const struct config_stream *stream = &config->streams[i];

		if (!apply_adds(daemon, config, part, SERVICE_STREAM, stream->name, stream->interface,
		                stream->payload_is_lent))
			continue;
		r = stream_service_new(daemon, config, list, stream, failure);
		if (r == 0 && part && part->lent)
			r = apply_lend(list, part, failure);
	}
	for (uint32_t i = 0; i < config->n_channels && r == 0; i++) {
		const struct config_channel *channel = &config->channels[i];

		if (apply_adds(daemon, config, part, SERVICE_CHANNEL, channel->name, channel->interface, false))
			r = channel_service_new(daemon, config, list, channel, failure);
	}
	return r;
}

void apply_drop_waiting(struct daemon *daemon, struct service_list *list)
{
	struct service *service, *next;

	for (service = TAILQ_FIRST(list); service; service = next) {
		next = TAILQ_NEXT(service, link);
		if (service->ops->kind == SERVICE_STREAM && stream_waits_for_memory(stream_of(service)))
			service->ops->free(daemon, list, service);
	}
}

static int reconfiguration_check_memory(const struct reconfiguration *new, struct failure *failure)
{
	const struct service_memory added = service_memory_of(&new->added, true);
	const struct service_memory running = service_memory_of(&new->daemon->services, true);
	int r = memory_check_free(&added, &running, failure);
	size_t used = strlen(failure->text);

	if (r < 0 && failure->exit_code == EX_NOPERM) /* a start locks its memory before it gives CAP_IPC_LOCK up */
		snprintf(failure->text + used, sizeof(failure->text) - used,
		         "; or restart the daemon with it: systemctl restart ibvcapd");
	return r;
}

static int reconfiguration_begin(struct reconfiguration *new, const struct apply_part *part, struct failure *failure)
{
	struct daemon *daemon = new->daemon;
	struct service *service;
	int r = 0;

	TAILQ_FOREACH (service, &daemon->services, link) {
		service->is_kept = !service->removed && service->ops->plan(service, new->config);
		if (r == 0 && !service->is_kept && !service->removed)
			r = service->ops->can_remove(service, failure);
	}
	if (r == 0)
		r = memory_check_rings(new->config, failure);
	if (r == 0)
		r = preflight_check_cpus(new->config, daemon->config, failure);
	if (r == 0)
		r = apply_add_services(daemon, new->config, part, &new->added, failure);
	if (r == 0)
		r = reconfiguration_check_memory(new, failure);
	if (r == 0)
		r = service_walk(daemon, &new->added, SERVICE_OPEN, SERVICE_OPEN, failure);
	if (r == 0)
		apply_drop_waiting(daemon, &new->added);
	return r;
}

int apply_begin(struct daemon *daemon, struct config *config, const struct apply_part *part, apply_done *done,
                struct failure *failure)
{
	struct reconfiguration *new = calloc(1, sizeof(*new));
	int r;
	uint64_t ring_bytes;

	if (!new) {
		if (config != daemon->config)
			config_free(config);
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	}
	*new = (struct reconfiguration){.daemon = daemon, .config = config, .done = done};
	TAILQ_INIT(&new->added);
	r = reconfiguration_begin(new, part, failure);
	if (r < 0) {
		reconfiguration_undo(new);
		free(new);
		return r;
	}
	daemon->reconfiguration = new;
	ring_bytes = service_memory_of(&new->added, true).ring_bytes;
	new->job = (struct background_job){.work = prepare_services,
	                                   .done = on_services_prepared,
	                                   .context = new,
	                                   .allowance_us = RELOAD_PATIENCE_US + time_for_memory_us(ring_bytes)};
	/* The manager would take a client that waits for the end of a reload for one that hangs. */
	if (!part)
		manager_tell(daemon->manager, "EXTEND_TIMEOUT_USEC=%llu",
		             (unsigned long long)(time_for_memory_us(ring_bytes) + BESIDES_US));
	background_add(new->daemon->memory, &new->job);
	return 0;
}
