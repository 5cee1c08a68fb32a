// SPDX-License-Identifier: Apache-2.0
/*
 * The steps and sums over lists of services, and what systemctl status shows of them. Calls streams and channels
 * through their struct service_ops only. Requests arm the event sources of events.c.
 */
#include "daemon/state/service.h"

#include "daemon/base/log.h"
#include "daemon/state/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

int service_walk(struct daemon *daemon, struct service_list *list, enum service_step first, enum service_step last,
                 struct failure *failure)
{
	struct service *service;
	int r = 0;

	for (enum service_step step = first; step <= last && r == 0; step++)
		TAILQ_FOREACH (service, list, link) {
			service_step_call *call = service->ops->steps[step];

			r = call ? call(daemon, service, failure) : 0;
			if (r < 0)
				break;
		}
	return r;
}

struct service *service_find(const struct service_list *list, enum service_kind kind, const char *name)
{
	struct service *service;

	TAILQ_FOREACH (service, list, link)
		if (service->ops->kind == kind && !service->removed && strcmp(service->name, name) == 0)
			break;
	return service;
}

bool service_is_ending(const struct service_list *list, enum service_kind kind, const char *name)
{
	const struct service *service;

	TAILQ_FOREACH (service, list, link)
		if (service->ops->kind == kind && service->removed && strcmp(service->name, name) == 0)
			return true;
	return false;
}

struct service_memory service_memory_of(const struct service_list *list, bool with_draining)
{
	struct service_memory memory = {0};
	const struct service *service;

	TAILQ_FOREACH (service, list, link)
		if (with_draining || !service->removed)
			service->ops->memory(service, &memory);
	return memory;
}

/* ---- systemctl status --------------------------------------------------------------------------- */

/* An interface that closed services wait for, and whether there are others. */
struct closed {
	const char *interface; /* NULL: no service is closed */
	bool has_others;
};

static void closed_note(struct closed *closed, const struct daemon *daemon, enum service_kind kind, const char *name,
                        const char *interface)
{
	if (service_find(&daemon->services, kind, name))
		return;
	closed->has_others |= closed->interface && strcmp(closed->interface, interface) != 0;
	if (!closed->interface)
		closed->interface = interface;
}

static struct closed closed_of(const struct daemon *daemon)
{
	const struct config *config = daemon->config;
	struct closed closed = {0};

	for (uint32_t i = 0; i < config->n_streams; i++)
		if (!config->streams[i].payload_is_lent) /* such a stream waits for its consumer */
			closed_note(&closed, daemon, SERVICE_STREAM, config->streams[i].name,
			            config->streams[i].interface);
	for (uint32_t i = 0; i < config->n_channels; i++)
		closed_note(&closed, daemon, SERVICE_CHANNEL, config->channels[i].name, config->channels[i].interface);
	return closed;
}

/* True: the line is another one than before. */
static bool service_renew_status(struct daemon *daemon)
{
	const struct closed closed = closed_of(daemon);
	char status[sizeof(daemon->status)], down[32] = "";
	const struct service *service;
	unsigned n_down = 0;

	TAILQ_FOREACH (service, &daemon->services, link)
		n_down += service->ops->kind == SERVICE_STREAM && !service->removed && service->link_down;
	if (n_down)
		snprintf(down, sizeof(down), " (%u without a link)", n_down);
	snprintf(status, sizeof(status), "%u streams%s, %u channels%s%s%s", daemon->config->n_streams, down,
	         daemon->config->n_channels, closed.interface ? "; waiting for interface " : "",
	         closed.interface ? closed.interface : "", closed.has_others ? " and others" : "");
	if (strcmp(status, daemon->status) == 0)
		return false;
	memcpy(daemon->status, status, sizeof(status));
	return true;
}

void service_refresh_all(struct daemon *daemon)
{
	bool was_ready = daemon->status[0];
	struct service *service;

	TAILQ_FOREACH (service, &daemon->services, link)
		service->ops->refresh(daemon, service);
	if (was_ready && service_renew_status(daemon) && !daemon->stopping)
		manager_tell(daemon->manager, "STATUS=%s", daemon->status);
}

void service_tell_ready(struct daemon *daemon)
{
	service_renew_status(daemon);
	manager_tell(daemon->manager, "READY=1\nSTATUS=%s", daemon->status);
}

/* ---- epochs ------------------------------------------------------------------------------------- */

int service_new_epoch(const struct service *service, uint64_t *epoch, struct failure *failure)
{
	do {
		if (getrandom(epoch, sizeof(*epoch), 0) < 0)
			return failure_set(failure, EX_OSERR, errno, "%s '%s': the kernel gives no random number: %s",
			                   service->ops->kind == SERVICE_STREAM ? "stream" : "channel", service->name,
			                   strerror(errno));
	} while (*epoch == 0);
	return 0;
}

/* ---- requests to the event loop ----------------------------------------------------------------- */

#define MAIL_US UINT64_C(1000) /* more than a worker's round takes */

void schedule_reap(struct daemon *daemon)
{
	if (daemon->reaper)
		sd_event_source_set_enabled(daemon->reaper, SD_EVENT_ONESHOT);
}

void schedule_mail(struct daemon *daemon)
{
	if (!daemon->mailer || sd_event_source_get_enabled(daemon->mailer, NULL) > 0)
		return;
	log_debug("the mailbox of a worker is full: the mail is sent again in %llu us", (unsigned long long)MAIL_US);
	sd_event_source_set_time_relative(daemon->mailer, MAIL_US);
	sd_event_source_set_enabled(daemon->mailer, SD_EVENT_ONESHOT);
}

void schedule_end(struct daemon *daemon)
{
	const struct service *service;

	if (!daemon->stopping)
		return;
	TAILQ_FOREACH (service, &daemon->services, link)
		if (!service->ops->has_ended(service))
			return;
	sd_event_exit(daemon->event, 0);
}
