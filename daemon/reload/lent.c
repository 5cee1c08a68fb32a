// SPDX-License-Identifier: Apache-2.0
/* Opens a stream when its consumer lends memory for the payload rows, and closes it when that consumer has left. */
#include "daemon/reload/lent.h"

#include "daemon/base/log.h"
#include "daemon/memory/geometry.h"
#include "daemon/reload/apply.h"
#include "daemon/reload/reload.h"
#include "daemon/stream/stream.h"

#include <errno.h>
#include <net/if.h>

uint64_t lent_bytes(void *, const struct config_stream *stream)
{
	return geometry_lent_bytes(stream);
}

static void on_lent_opened(struct daemon *daemon, int r, struct failure *failure)
{
	control_opened_lent(daemon->control, r, r < 0 ? failure->text : "");
	reload_go_on(daemon);
	schedule_reap(daemon);
}

int lent_open(void *context, const struct config_stream *stream, int dmabuf, uint64_t offset, struct failure *failure)
{
	struct daemon *daemon = context;
	const struct apply_part part = {.lent = stream->name, .dmabuf = dmabuf, .offset = offset};

	if (daemon->stopping)
		return failure_set(failure, EX_TEMPFAIL, EAGAIN, "stream '%s': the daemon is stopping", stream->name);
	if (daemon->reconfiguration)
		return -EBUSY;
	if (if_nametoindex(stream->interface) == 0)
		return failure_set(failure, EX_TEMPFAIL, EAGAIN, "stream '%s': its interface %s is not there",
		                   stream->name, stream->interface);
	return apply_begin(daemon, daemon->config, &part, on_lent_opened, failure);
}

void lent_note_left(void *context)
{
	schedule_reap(context);
}

void lent_close_left(struct daemon *daemon)
{
	struct service *service;
	struct failure failure; /* of a device that does not answer: the next second tries again */

	if (daemon->stopping || daemon->reconfiguration)
		return;
	TAILQ_FOREACH (service, &daemon->services, link) {
		const struct stream *stream = service->ops->kind == SERVICE_STREAM ? stream_of(service) : NULL;

		if (!stream || !stream->config->payload_is_lent || service->removed ||
		    control_has_lender(&stream->control) || service->ops->can_remove(service, &failure) < 0)
			continue;
		log_message(LOG_INFO,
		            &(struct log_about){.stream = service->name, .interface = stream->interface->name},
		            "stream '%s': its consumer has left: the stream is closed, and its memory given back",
		            service->name);
		service->ops->remove(daemon, service, IBVCAP_DISCONNECT_SHUTDOWN);
	}
}
