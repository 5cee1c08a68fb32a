// SPDX-License-Identifier: Apache-2.0
/*
 * Arms the event sources that events.c adds. Before they are added, and after they are dropped, a request has no
 * effect: the sources are armed when they are added, and at the end everything is freed anyway.
 */
#include "daemon/state/schedule.h"

#include "daemon/base/log.h"
#include "daemon/state/state.h"

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
