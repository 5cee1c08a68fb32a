// SPDX-License-Identifier: Apache-2.0
/*
 * The steps of a stream as a service of the daemon: what the stream needs of its interface, of control and of the
 * service manager is done here, the stream itself in stream.c.
 */
#include "daemon/stream/stream.h"

#include "daemon/backend/backend.h"
#include "daemon/base/log.h"
#include "daemon/port/interface_set.h"
#include "daemon/state/state.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- coming -------------------------------------------------------------------------------------- */

static int stream_service_open(struct daemon *, struct service *service, struct failure *failure)
{
	int r = interface_set_open(stream_of(service)->interface, failure);

	return r == 0 ? stream_fit(stream_of(service), failure) : r;
}

static int stream_service_prepare(struct daemon *, struct service *service, struct failure *failure)
{
	uint64_t epoch;
	int r;

	if (stream_waits_for_memory(stream_of(service)))
		return 0;
	r = service_new_epoch(service, &epoch, failure);
	return r < 0 ? r : stream_prepare(stream_of(service), epoch, failure);
}

static int stream_service_start(struct daemon *daemon, struct service *service, struct failure *failure)
{
	struct stream *stream = stream_of(service);
	int r = stream_start(stream, failure);

	for (uint32_t i = 0; i < stream->n_queues && r == 0; i++) {
		char of_queue[32] = "";

		if (stream->n_queues > 1)
			snprintf(of_queue, sizeof(of_queue), " of queue %u", i);
		heartbeat_watch(&daemon->heartbeats, &stream->queues[i].worker->heartbeat, "stream '%s': its worker%s",
		                service->name, of_queue);
	}
	return r;
}

static int stream_service_serve(struct daemon *daemon, struct service *service, struct failure *failure)
{
	struct stream *stream = stream_of(service);
	const struct interface *interface = stream->interface;
	int r = interface_set_serve(daemon, stream->interface);

	reading_init(&stream->matched, stream_read_matched, stream);
	stream->matched.runner = stream->interface->device_thread;
	service->reading = &stream->matched;
	stream->control = (struct control_stream){
		.config = stream->config,
		.device = interface->capabilities.device,
		.backend = interface->ops->name,
		.offloads = stream->offloads,
		.matched = &stream->matched,
		.losses = &stream->losses,
		.interface_lost = &interface->kernel->lost,
		.interface_uncounted = &interface->uncounted,
		.n_queues = stream->n_queues,
		.context = stream,
	};
	for (uint32_t i = 0; i < stream->n_queues; i++) {
		struct stream_queue *queue = &stream->queues[i];

		queue->control = (struct control_queue){
			.ring = &queue->ring,
			.inbox = queue->worker->inbox,
			.outbox = queue->worker->outbox,
			.drops = interface->capabilities.counts_drops || queue->reassembly ? queue->queue->n_dropped
		                                                                           : NULL,
		};
		stream->control.queues[i] = &queue->control;
	}
	if (r == 0)
		r = control_add_stream(daemon->control, &stream->control);
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "stream '%s': cannot be served: %s", service->name,
	                            strerror(-r));
}

static int stream_service_capture(struct daemon *, struct service *service, struct failure *failure)
{
	return stream_capture(stream_of(service), failure);
}

static void stream_service_memory(const struct service *service, struct service_memory *memory)
{
	const struct stream *stream = stream_of(service);

	memory->kernel_bytes += stream_kernel_bytes(stream);
	memory_add_ring(memory, stream->config, stream_ring_bytes(stream), stream->interface->ops->pins_memory);
}

/* ---- a reload ------------------------------------------------------------------------------------ */

static bool stream_service_plan(struct service *service, const struct config *config)
{
	stream_plan_change(stream_of(service), config_find_stream(config, service->name));
	return stream_of(service)->change.config;
}

static int stream_service_can_remove(const struct service *service, struct failure *failure)
{
	return interface_check_answers(((const struct stream *)service)->interface, failure);
}

static int stream_service_change_groups(struct daemon *, struct service *service, struct failure *failure)
{
	return stream_join_changed(stream_of(service), failure);
}

static int stream_service_change_flows(struct daemon *, struct service *service, struct failure *failure)
{
	return stream_add_changed(stream_of(service), failure);
}

static void stream_service_undo(struct service *service)
{
	stream_undo_change(stream_of(service));
}

/* The service manager keeps the sockets of the groups: of a new stream, and of one whose flows have changed. */
static int stream_service_commit(struct daemon *daemon, struct service *service)
{
	struct stream *stream = stream_of(service);
	const char *renamed_from = stream->config->renamed_from;

	if (*renamed_from)
		fdstore_keep_groups(&daemon->fdstore, renamed_from, NULL, &stream->kept_as);
	if (stream->change.config && !stream_commit_change(stream) && !*renamed_from)
		return 0;
	return fdstore_keep_groups(&daemon->fdstore, service->name, stream->membership, &stream->kept_as);
}

/* ---- running ------------------------------------------------------------------------------------- */

static void stream_service_rejoin(struct daemon *daemon, struct stream *stream)
{
	const struct log_about about = {.stream = stream->service.name, .interface = stream->interface->name};
	struct failure failure;

	if (!stream->rejoin_due || interface_is_gone(stream->interface))
		return;
	if (stream_rejoin(stream, &failure) == 0) {
		log_message(LOG_INFO, &about,
		            "stream '%s': joined its groups again, because the interface of a VLAN came or went",
		            stream->service.name);
		fdstore_keep_groups(&daemon->fdstore, stream->service.name, stream->membership, &stream->kept_as);
	} else if (!stream->rejoin_failed) {
		stream->rejoin_failed = true;
		log_message(LOG_WARNING, &about,
		            "stream '%s': the interface of a VLAN came or went, and its groups cannot be joined again: "
		            "%s; the daemon tries again every second",
		            stream->service.name, failure.text);
	}
}

/* Consumers learn that packets of the network may not have come. */
static void stream_service_note_outage(const struct stream *stream, bool is_down)
{
	for (uint32_t i = 0; i < stream->n_queues; i++)
		if (stream->queues[i].ring.ring) /* a reload makes it in steps */
			daemon_store_outage(stream->queues[i].ring.ring, is_down, time_utc_ns());
}

/* One that goes often comes back at once, so the groups that were joined there wait for the next refresh. */
static void stream_service_take_link_change(struct daemon *daemon, struct service *service,
                                            const struct link_change *change)
{
	const struct interface *interface = stream_of(service)->interface;

	/* If the link is up again already, no reading shows that it was down; the next refresh ends the outage. */
	if (change->index == 0 || (change->index == interface->opened_index && (change->is_down || change->is_gone)))
		stream_service_note_outage(stream_of(service), true);
	stream_note_link_change(stream_of(service), change);
	if (!change->is_gone)
		stream_service_rejoin(daemon, stream_of(service));
}

static void stream_service_refresh(struct daemon *daemon, struct service *service)
{
	struct stream *stream = stream_of(service);

	service->link_down = !stream->interface->link_up;
	for (uint32_t i = 0; i < stream->n_queues; i++)
		stream->queues[i].control.state = stream->service.removed         ? "ending"
		                                  : stream->queues[i].failed      ? "failed"
		                                  : stream->interface->is_missing ? "interface_gone"
		                                  : stream->service.link_down     ? "link_down"
		                                                                  : "capturing";
	if (daemon->stopping || service->removed)
		return;
	stream_service_note_outage(stream, service->link_down);
	stream_service_rejoin(daemon, stream);
	stream_set_clock(stream);
	for (uint32_t i = 0; i < stream->n_queues; i++)
		stream_tell_resets(&stream->queues[i], time_monotonic_ns());
	stream_tell_losses(stream, time_monotonic_ns());
	control_tell_skips(&stream->control, time_monotonic_ns());
}

/* ---- going --------------------------------------------------------------------------------------- */

static void stream_service_stop(struct service *service)
{
	stream_leave(stream_of(service));
	stream_stop(stream_of(service));
}

static void stream_service_remove(struct daemon *daemon, struct service *service, enum ibvcap_disconnect reason)
{
	struct stream *stream = stream_of(service);

	service->removed = true;
	/* Before the ring closes, so that a reader that comes to its end knows the reason. */
	control_end_stream(&stream->control, reason);
	fdstore_keep_groups(&daemon->fdstore, service->name, NULL, &stream->kept_as);
	stream_service_stop(service);
}

static bool stream_service_has_ended(const struct service *service)
{
	return service->ended;
}

static void stream_service_join(struct service *service)
{
	stream_join(stream_of(service));
}

static void stream_service_free(struct daemon *daemon, struct service_list *list, struct service *service)
{
	struct stream *stream = stream_of(service);
	struct interface *interface = stream->interface;

	stream_service_stop(service);
	stream_join(stream);
	if (daemon->control)
		control_remove_stream(&stream->control);
	TAILQ_REMOVE(list, service, link);
	if (!interface->is_abandoned) { /* its thread may still use it, and its device the memory */
		stream_deinit(stream);
		free(stream);
	}
	interface_set_release(daemon, interface);
}

static const struct service_ops stream_service_ops = {
	.kind = SERVICE_STREAM,
	.steps = {[SERVICE_OPEN] = stream_service_open,
                  [SERVICE_PREPARE] = stream_service_prepare,
                  [SERVICE_START] = stream_service_start,
                  [SERVICE_SERVE] = stream_service_serve,
                  [SERVICE_CAPTURE] = stream_service_capture,
                  [SERVICE_CHANGE_GROUPS] = stream_service_change_groups,
                  [SERVICE_CHANGE_FLOWS] = stream_service_change_flows},
	.memory = stream_service_memory,
	.plan = stream_service_plan,
	.undo = stream_service_undo,
	.can_remove = stream_service_can_remove,
	.commit = stream_service_commit,
	.take_link_change = stream_service_take_link_change,
	.refresh = stream_service_refresh,
	.stop = stream_service_stop,
	.remove = stream_service_remove,
	.has_ended = stream_service_has_ended,
	.join = stream_service_join,
	.free = stream_service_free,
};

int stream_service_new(struct daemon *daemon, const struct config *whole, struct service_list *list,
                       const struct config_stream *config, struct failure *failure)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	struct interface *interface = NULL;
	int r;

	if (!stream)
		return failure_set(failure, EX_OSERR, ENOMEM, "stream '%s': out of memory", config->name);
	r = interface_set_take(daemon, whole, config->interface, config->backend, &interface, failure);
	if (r == 0)
		r = stream_init(stream, config, interface, failure);
	if (r == 0) {
		stream->service.ops = &stream_service_ops;
		TAILQ_INSERT_TAIL(list, &stream->service, link);
		return 0;
	}
	free(stream);
	if (interface)
		interface_set_release(daemon, interface);
	return r;
}
