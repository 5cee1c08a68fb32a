// SPDX-License-Identifier: Apache-2.0
/*
 * The handlers of the daemon's event sources. They lie above every room: a handler may stop, reload or refresh the
 * whole daemon. What a room asks of the loop goes through service.h.
 */
#include "daemon/events.h"

#include "daemon/base/log.h"
#include "daemon/clock/system_clock.h"
#include "daemon/net/link_watch.h"
#include "daemon/port/interface.h"
#include "daemon/reload/lent.h"
#include "daemon/reload/reload.h"
#include "daemon/reload/reopen.h"
#include "daemon/state/service.h"
#include "daemon/stream/stream.h"
#include "lib/base/time.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define SECOND_US UINT64_C(1000000)

/* The watchdog looks this often within its time, so a thread has at least half of the time for a round. */
#define WATCHDOG_LOOKS 4

/* ---- stopping ------------------------------------------------------------------------------------ */

/* No new packet comes, then workers publish and send what is there, then they end. */
static void events_begin_stop(struct daemon *daemon)
{
	struct interface *interface;
	struct service *service;

	if (daemon->stopping)
		return;
	daemon->stopping = true;
	manager_tell(daemon->manager, "STOPPING=1\nSTATUS=draining");
	control_stop_accepting(daemon->control);
	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		if (interface->silent_ns)
			interface_abandon(interface);
	TAILQ_FOREACH (service, &daemon->services, link)
		service->ops->stop(service);
	schedule_end(daemon);
}

static void events_fail(struct daemon *daemon, int result)
{
	if (daemon->result == 0)
		daemon->result = result;
	events_begin_stop(daemon);
}

static int on_stop_signal(sd_event_source *, const struct signalfd_siginfo *info, void *context)
{
	struct daemon *daemon = context;

	log_info("signal %u: draining", info->ssi_signo);
	events_begin_stop(daemon);
	return 0;
}

static int on_hang_up(sd_event_source *, const struct signalfd_siginfo *, void *context)
{
	reload_by_signal(context);
	return 0;
}

void events_worker_ended(void *context, const struct control_stream *control, uint32_t queue, int error)
{
	struct daemon *daemon = context;
	struct stream *stream = control->context;

	stream->service.ended = stream_note_ended(stream, queue, error);
	if (stream->service.removed)
		schedule_reap(daemon);
	else if (error < 0 && stream->service.ended)
		interface_fail(stream->interface, "the queues of a stream failed");
	else
		stream->service.ops->refresh(daemon, &stream->service);
	schedule_end(daemon);
}

/* ---- running ------------------------------------------------------------------------------------- */

static int on_reap(sd_event_source *, void *context)
{
	struct daemon *daemon = context;
	struct service *service, *next;
	bool drains = false;

	for (service = TAILQ_FIRST(&daemon->services); service; service = next) {
		next = TAILQ_NEXT(service, link);
		if (service->removed && service->ended &&
		    !(service->reading && reading_is_on_its_way(service->reading)))
			service->ops->free(daemon, &daemon->services, service);
		else
			drains |= service->removed;
	}
	if (!drains) {
		config_free_chain(daemon->config->older);
		daemon->config->older = NULL;
	}
	lent_close_left(daemon);
	reopen_interfaces(daemon);
	/* A transmit worker ends with its last channel, and then its MAIL_STOPPED is not read. */
	schedule_end(daemon);
	return 0;
}

static int on_mail_again(sd_event_source *, uint64_t, void *context)
{
	struct daemon *daemon = context;
	struct service *service;

	TAILQ_FOREACH (service, &daemon->services, link)
		if (service->ops->kind == SERVICE_CHANNEL)
			service->ops->refresh(daemon, service);
	return 0;
}

static void on_link_change(void *context, const struct link_change *change)
{
	struct daemon *daemon = context;
	struct interface *interface;
	struct service *service;

	if (daemon->stopping)
		return;
	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		interface_take_link_change(interface, change);
	TAILQ_FOREACH (service, &daemon->services, link)
		if (service->ops->take_link_change && !service->removed)
			service->ops->take_link_change(daemon, service, change);
	reopen_hurry(daemon);
}

/* Nothing of it can be closed: only the kernel can end its use. */
static void events_end_if_dead(struct daemon *daemon, const struct interface *interface)
{
	if (!interface_has_failed(interface) || !interface->silent_ns || daemon->stopping)
		return;
	events_fail(daemon, failure_set(daemon->result ? NULL : daemon->failure, EX_UNAVAILABLE, EIO,
	                                "device %s failed: %s; it does not answer any more",
	                                interface->capabilities.device, interface->failure));
}

static int on_second(sd_event_source *source, uint64_t, void *context)
{
	struct daemon *daemon = context;
	struct interface *interface;

	TAILQ_FOREACH (interface, &daemon->interfaces, link) {
		interface_watch_link(interface);
		interface_watch_silence(interface);
		interface_tell_losses(interface, time_monotonic_ns());
		interface_renew_clock(interface);
		events_end_if_dead(daemon, interface);
	}
	service_refresh_all(daemon);
	schedule_reap(daemon); /* what waited for a reading, or an interface */
	sd_event_source_set_time_relative(source, SECOND_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/*
 * Packets get the new time now and not after up to a second. What was stamped meanwhile is within the error that is
 * published next.
 */
static int on_clock_set(sd_event_source *, int fd, uint32_t, void *context)
{
	struct daemon *daemon = context;
	struct interface *interface;

	system_clock_take_change(fd);
	log_info("a program has set the system's clock: timestamps follow it");
	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		interface_renew_clock(interface);
	service_refresh_all(daemon);
	return 0;
}

static int events_watch_clock(struct daemon *daemon)
{
	int fd = system_clock_watch(), r;

	if (fd < 0)
		return fd;
	r = sd_event_add_io(daemon->event, &daemon->clock_set, fd, EPOLLIN, on_clock_set, daemon);
	if (r < 0)
		close(fd);
	return r < 0 ? r : sd_event_source_set_io_fd_own(daemon->clock_set, true);
}

void events_take_notice(struct interface *interface, const struct backend_notice *notice)
{
	const char *device = interface->capabilities.device;

	switch (notice->type) {
	case BACKEND_NOTICE_PORT_UP:
	case BACKEND_NOTICE_PORT_DOWN:
		interface_watch_link(interface);
		break;
	case BACKEND_NOTICE_DEVICE_FAILED:
		interface_fail(interface, notice->text);
		break;
	case BACKEND_NOTICE_QUEUE_FAILED:
	case BACKEND_NOTICE_OTHER:
		log_message(LOG_WARNING, &(struct log_about){.event = LOG_EVENT_DEVICE, .interface = interface->name},
		            "device %s: %s", device, notice->text);
		break;
	}
}

/* ---- the watchdog ------------------------------------------------------------------------------- */

/*
 * Tells the service manager that the daemon lives (WatchdogSec=) as long as the control thread, which runs this, and
 * every thread with a heartbeat (base/heartbeat.h) make rounds. Without that, the service manager ends the daemon and
 * starts it again.
 */
static int on_watchdog_look(sd_event_source *source, uint64_t, void *context)
{
	struct daemon *daemon = context;
	const struct heartbeat *stopped = heartbeat_find_stopped(&daemon->heartbeats);

	if (!stopped)
		manager_tell(daemon->manager, "WATCHDOG=1");
	else if (strcmp(stopped->name, daemon->stuck) != 0)
		log_message(LOG_WARNING, &(struct log_about){.event = LOG_EVENT_STUCK},
		            "%s has not moved for %llu ms: if it does not, the service manager ends the daemon and "
		            "starts it again (WatchdogSec=)",
		            stopped->name, (unsigned long long)(daemon->watchdog_us / WATCHDOG_LOOKS / 1000));
	snprintf(daemon->stuck, sizeof(daemon->stuck), "%s", stopped ? stopped->name : "");
	sd_event_source_set_time_relative(source, daemon->watchdog_us / WATCHDOG_LOOKS);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int events_add_watchdog(struct daemon *daemon)
{
	int r = sd_watchdog_enabled(0, &daemon->watchdog_us);

	return r <= 0 ? r
	              : sd_event_add_time_relative(daemon->event, &daemon->watchdog, CLOCK_MONOTONIC, 0, 1,
	                                           on_watchdog_look, daemon);
}

/* ---- sources ------------------------------------------------------------------------------------- */

int events_add(struct daemon *daemon, struct failure *failure)
{
	int r = sd_event_add_signal(daemon->event, &daemon->term, SIGTERM, on_stop_signal, daemon);

	if (r >= 0)
		r = sd_event_add_signal(daemon->event, &daemon->interrupt, SIGINT, on_stop_signal, daemon);
	if (r >= 0)
		r = sd_event_add_signal(daemon->event, &daemon->hang_up, SIGHUP, on_hang_up, daemon);
	if (r >= 0)
		r = sd_event_add_time_relative(daemon->event, &daemon->second, CLOCK_MONOTONIC, SECOND_US, 0, on_second,
		                               daemon);
	if (r >= 0)
		r = sd_event_add_time_relative(daemon->event, &daemon->mailer, CLOCK_MONOTONIC, 0, 1, on_mail_again,
		                               daemon);
	if (r >= 0)
		r = sd_event_add_defer(daemon->event, &daemon->reaper, on_reap, daemon);
	if (r >= 0)
		r = sd_event_source_set_enabled(daemon->reaper, SD_EVENT_OFF);
	if (r >= 0)
		r = link_watch_new(&daemon->links, daemon->event, on_link_change, daemon);
	if (r >= 0)
		r = events_watch_clock(daemon);
	if (r >= 0)
		r = events_add_watchdog(daemon);
	return r < 0 ? failure_set(failure, EX_OSERR, -r, "cannot watch signals, timers and interfaces: %s",
	                           strerror(-r))
	             : 0;
}

void events_drop(struct daemon *daemon)
{
	struct interface *interface;

	sd_event_source_disable_unref(daemon->term);
	sd_event_source_disable_unref(daemon->interrupt);
	sd_event_source_disable_unref(daemon->hang_up);
	sd_event_source_disable_unref(daemon->second);
	sd_event_source_disable_unref(daemon->clock_set);
	sd_event_source_disable_unref(daemon->watchdog);
	link_watch_free(daemon->links);
	daemon->reaper = sd_event_source_disable_unref(daemon->reaper);
	daemon->mailer = sd_event_source_disable_unref(daemon->mailer);
	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		interface->notices.source = sd_event_source_disable_unref(interface->notices.source);
}
