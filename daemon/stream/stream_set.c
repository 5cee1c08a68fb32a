// SPDX-License-Identifier: Apache-2.0
#include "daemon/stream/stream_set.h"

#include "daemon/base/size.h"
#include "daemon/base/time.h"
#include "daemon/port/interface_set.h"
#include "daemon/process/preflight.h"
#include "daemon/priv/priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct stream *streams_find(struct daemon *daemon, const char *name)
{
	struct stream *stream;

	TAILQ_FOREACH (stream, &daemon->streams, link)
		if (!stream->removed && strcmp(stream->config->name, name) == 0)
			break;
	return stream;
}

/* ---- coming -------------------------------------------------------------------------------------- */

int streams_each(struct daemon *daemon, struct stream_list *list, streams_step *step, struct failure *failure)
{
	struct stream *stream;
	int r = 0;

	TAILQ_FOREACH (stream, list, link) {
		r = step(daemon, stream, failure);
		if (r < 0)
			break;
	}
	return r;
}

int streams_new(struct daemon *daemon, struct stream_list *list, const struct config_stream *config,
                struct failure *failure)
{
	struct stream *new = calloc(1, sizeof(*new));
	struct interface *interface = NULL;
	int r;

	if (!new)
		return failure_set(failure, EX_OSERR, ENOMEM, "stream '%s': out of memory", config->name);
	r = interface_set_take(daemon, config->interface, config->backend, &interface, failure);
	if (r < 0) {
		free(new);
		return r;
	}
	r = stream_init(new, config, interface, failure);
	if (r < 0) {
		free(new);
		interface_set_release(daemon, interface);
		return r;
	}
	TAILQ_INSERT_TAIL(list, new, link);
	return 0;
}

uint64_t streams_pinned_bytes(const struct stream_list *list)
{
	const struct stream *stream;
	uint64_t bytes = 0;

	TAILQ_FOREACH (stream, list, link)
		bytes += stream_pinned_bytes(stream);
	return bytes;
}

static uint64_t streams_small_page_bytes(const struct stream_list *list)
{
	const struct stream *stream;
	uint64_t bytes = 0;

	TAILQ_FOREACH (stream, list, link)
		bytes += stream->config->page_bytes == SMALL_PAGE_BYTES ? stream_pinned_bytes(stream) : 0;
	return bytes;
}

int streams_check_memory(const struct stream_list *running, const struct stream_list *added, struct failure *failure)
{
	uint64_t bytes = streams_pinned_bytes(added) + (running ? streams_pinned_bytes(running) : 0);
	int r = preflight_check_memory(streams_small_page_bytes(added), failure);

	return r == 0 && !TAILQ_EMPTY(added) ? priv_memlock_allows(bytes, failure) : r;
}

int streams_open(struct daemon *daemon, struct stream *stream, struct failure *failure)
{
	int r = interface_set_open(stream->interface, failure);

	(void)daemon;
	return r == 0 ? stream_fit(stream, failure) : r;
}

int streams_new_epoch(uint64_t *epoch)
{
	do {
		if (getrandom(epoch, sizeof(*epoch), 0) < 0)
			return -errno;
	} while (*epoch == 0);
	return 0;
}

int streams_prepare(struct daemon *daemon, struct stream *stream, struct failure *failure)
{
	uint64_t epoch;
	int r = streams_new_epoch(&epoch);

	(void)daemon;
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "stream '%s': no random number to be had: %s",
		                   stream->config->name, strerror(-r));
	return stream_prepare(stream, epoch, failure);
}

int streams_start(struct daemon *daemon, struct stream *stream, struct failure *failure)
{
	int r = stream_start(stream, failure);

	if (r == 0)
		heartbeat_watch(&daemon->heartbeats, rx_worker_heartbeat(stream->worker), "stream '%s': its worker",
		                stream->config->name);
	return r;
}

int streams_capture(struct daemon *daemon, struct stream *stream, struct failure *failure)
{
	(void)daemon;
	return stream_capture(stream, failure);
}

static void describe_to_control(struct stream *stream)
{
	struct interface *interface = stream->interface;

	stream->stream_control = (struct control_stream){
		.config = stream->config,
		.ring = &stream->ring,
		.inbox = rx_worker_inbox(stream->worker),
		.outbox = rx_worker_outbox(stream->worker),
		.device = interface->capabilities.device,
		.backend = interface->ops->name,
		.read_matched = stream_read_matched,
		.context = stream,
	};
}

int streams_serve(struct daemon *daemon, struct stream *stream, struct failure *failure)
{
	int r;

	describe_to_control(stream);
	r = control_add_stream(daemon->control, &stream->stream_control);
	if (r == 0)
		r = interface_set_serve(daemon, stream->interface);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "stream '%s': cannot be served: %s", stream->config->name,
		                   strerror(-r));
	return 0;
}

/* ---- going --------------------------------------------------------------------------------------- */

void streams_remove(struct daemon *daemon, struct stream *stream)
{
	stream->removed = true;
	/* Before its ring closes: who reads to the end knows why then. */
	control_end_stream(daemon->control, &stream->stream_control, IBVCAP_DISCONNECT_REMOVED);
	fdstore_keep_groups(&daemon->fdstore, stream->config->name, NULL, &stream->kept_as);
	stream_leave(stream);
	stream_stop(stream);
}

void streams_free(struct daemon *daemon, struct stream_list *list, struct stream *stream)
{
	struct interface *interface = stream->interface;

	stream_leave(stream);
	stream_stop(stream);
	stream_join(stream);
	if (daemon->control)
		control_remove_stream(daemon->control, &stream->stream_control);
	stream_deinit(stream);
	TAILQ_REMOVE(list, stream, link);
	free(stream);
	interface_set_release(daemon, interface);
}
