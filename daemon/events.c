// SPDX-License-Identifier: Apache-2.0
#include "daemon/events.h"

#include "daemon/base/log.h"
#include "daemon/base/time.h"
#include "daemon/reload/reload.h"
#include "daemon/stream/stream_set.h"
#include "daemon/port/interface_tx.h"
#include "daemon/channel/channel_set.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <systemd/sd-daemon.h>

#define SECOND_US UINT64_C(1000000)
#define MAIL_US   UINT64_C(1000) /* more than a worker's round takes */

/* ---- stopping ------------------------------------------------------------------------------------ */

static bool have_all_ended(const struct daemon *daemon)
{
	const struct interface_tx *tx;
	const struct stream *stream;

	TAILQ_FOREACH (stream, &daemon->streams, link)
		if (!stream->ended)
			return false;
	TAILQ_FOREACH (tx, &daemon->interface_txs, link)
		if (!tx->ended)
			return false;
	return true;
}

void events_look_for_end(struct daemon *daemon)
{
	if (daemon->stopping && have_all_ended(daemon))
		sd_event_exit(daemon->event, 0);
}

/* In order: nothing new comes, then everything that came is published, then the workers end. */
static void begin_stop(struct daemon *daemon)
{
	struct interface_tx *tx;
	struct stream *stream;

	if (daemon->stopping)
		return;
	daemon->stopping = true;
	sd_notify(0, "STOPPING=1\nSTATUS=draining");
	control_stop_accepting(daemon->control);
	TAILQ_FOREACH (stream, &daemon->streams, link)
		stream_leave(stream);
	TAILQ_FOREACH (stream, &daemon->streams, link)
		stream_stop(stream);
	TAILQ_FOREACH (tx, &daemon->interface_txs, link)
		interface_tx_stop(tx);
	events_look_for_end(daemon);
}

static void fail(struct daemon *daemon, int result)
{
	if (daemon->result == 0)
		daemon->result = result;
	begin_stop(daemon);
}

static int on_stop_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *context)
{
	struct daemon *daemon = context;

	(void)source;
	log_info("signal %u: draining", info->ssi_signo);
	begin_stop(daemon);
	return 0;
}

static int on_hang_up(sd_event_source *source, const struct signalfd_siginfo *info, void *context)
{
	(void)source;
	(void)info;
	reload_by_signal(context);
	return 0;
}

/* True: some still drain, or have senders whose memory is being given back. */
static bool reap_channels(struct daemon *daemon)
{
	struct channel *channel, *next;
	bool drains = false;

	for (channel = TAILQ_FIRST(&daemon->channels); channel; channel = next) {
		next = TAILQ_NEXT(channel, link);
		if (channel->removed && channel->ended && control_channel_is_empty(daemon->control, &channel->control))
			channel_set_free(daemon, &daemon->channels, channel);
		else
			drains |= channel->removed;
	}
	return drains;
}

/* Not where it is heard of, in the midst of control. */
static int on_reap(sd_event_source *source, void *context)
{
	struct daemon *daemon = context;
	struct stream *stream, *next;
	bool drains = reap_channels(daemon);

	(void)source;
	for (stream = TAILQ_FIRST(&daemon->streams); stream; stream = next) {
		next = TAILQ_NEXT(stream, link);
		if (stream->removed && stream->ended)
			streams_free(daemon, &daemon->streams, stream);
		else
			drains |= stream->removed;
	}
	if (!drains) {
		config_free_chain(daemon->config->older);
		daemon->config->older = NULL;
	}
	events_look_for_end(
		daemon); /* with its last channel a transmit worker goes, whose last word nobody hears then */
	return 0;
}

void events_reap(struct daemon *daemon)
{
	if (daemon->reaper) /* else all ends, and is freed by that */
		sd_event_source_set_enabled(daemon->reaper, SD_EVENT_ONESHOT);
}

static int on_mail_again(sd_event_source *source, uint64_t time_us, void *context)
{
	struct daemon *daemon = context;
	struct channel *channel;

	(void)source;
	(void)time_us;
	TAILQ_FOREACH (channel, &daemon->channels, link)
		channel_mail(channel);
	return 0;
}

void events_mail_again(struct daemon *daemon)
{
	/* Before the loop runs it will be, and after it nobody is told anything. */
	if (!daemon->mailer || sd_event_source_get_enabled(daemon->mailer, NULL) > 0)
		return;
	sd_event_source_set_time_relative(daemon->mailer, MAIL_US);
	sd_event_source_set_enabled(daemon->mailer, SD_EVENT_ONESHOT);
}

void events_worker_ended(void *context, const struct control_stream *ring, int error)
{
	struct daemon *daemon = context;
	struct stream *stream = ring->context;

	stream->ended = true;
	if (stream->removed)
		events_reap(daemon);
	else if (error < 0)
		fail(daemon, failure_set(daemon->result ? NULL : daemon->failure, EX_UNAVAILABLE, -error,
		                         "stream '%s': device %s failed: %s", stream->config->name,
		                         stream->interface->capabilities.device, strerror(-error)));
	events_look_for_end(daemon);
}

/* ---- running ------------------------------------------------------------------------------------- */

/* For systemctl status. True: it is another one. */
static bool renew_status(struct daemon *daemon)
{
	unsigned n = 0, n_down = 0, n_channels = 0;
	const struct channel *channel;
	const struct stream *stream;
	char status[sizeof(daemon->status)], down[32] = "";

	TAILQ_FOREACH (stream, &daemon->streams, link) {
		n += !stream->removed;
		n_down += !stream->removed && !stream->interface->link_up;
	}
	TAILQ_FOREACH (channel, &daemon->channels, link)
		n_channels += !channel->removed;
	if (n_down)
		snprintf(down, sizeof(down), " (%u without a link)", n_down);
	snprintf(status, sizeof(status), "%u streams%s, %u channels", n, down, n_channels);
	if (strcmp(status, daemon->status) == 0)
		return false;
	memcpy(daemon->status, status, sizeof(status));
	return true;
}

void events_refresh_states(struct daemon *daemon)
{
	bool is_ready = daemon->status[0];
	struct stream *stream;

	TAILQ_FOREACH (stream, &daemon->streams, link)
		stream->stream_control.state = stream->removed              ? "ending"
		                               : stream->interface->link_up ? "capturing"
		                                                            : "link_down";
	channel_set_refresh(daemon);
	if (is_ready && renew_status(daemon) && !daemon->stopping)
		sd_notifyf(0, "STATUS=%s", daemon->status);
}

static int on_second(sd_event_source *source, uint64_t time_us, void *context)
{
	struct daemon *daemon = context;
	struct interface *interface;
	struct stream *stream;

	(void)time_us;
	TAILQ_FOREACH (interface, &daemon->interfaces, link) {
		interface_watch_link(interface);
		interface_renew_clock(interface);
	}
	events_refresh_states(daemon);
	TAILQ_FOREACH (stream, &daemon->streams, link) {
		if (daemon->stopping || stream->removed)
			continue;
		stream_set_clock(stream);
		stream_tell_losses(stream, time_monotonic_ns());
	}
	sd_event_source_set_time_relative(source, SECOND_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void take_notice(struct daemon *daemon, struct interface *interface, const struct backend_notice *notice)
{
	const char *device = interface->capabilities.device;

	switch (notice->type) {
	case BACKEND_NOTICE_PORT_UP:
	case BACKEND_NOTICE_PORT_DOWN:
		interface_watch_link(interface);
		events_refresh_states(daemon);
		break;
	case BACKEND_NOTICE_DEVICE_FAILED:
		fail(daemon, failure_set(daemon->result ? NULL : daemon->failure, EX_UNAVAILABLE, EIO,
		                         "device %s failed: %s", device, notice->text));
		break;
	case BACKEND_NOTICE_QUEUE_FAILED:
	case BACKEND_NOTICE_OTHER:
		log_message(LOG_WARNING, &(struct log_about){.event = LOG_EVENT_DEVICE, .interface = interface->name},
		            "device %s: %s", device, notice->text);
		break;
	}
}

static int on_notices(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct daemon *daemon = context;
	struct backend_notice notice;
	struct interface *interface;
	int r = 0;

	(void)fd;
	(void)events;
	TAILQ_FOREACH (interface, &daemon->interfaces, link) {
		while (interface->ops->read_notice &&
		       (r = interface->ops->read_notice(interface->backend, &notice)) == 1)
			take_notice(daemon, interface, &notice);
		if (r < 0) {
			log_warning("device %s: its notices cannot be read any more: %s",
			            interface->capabilities.device, strerror(-r));
			return sd_event_source_set_enabled(source, SD_EVENT_OFF); /* else it would be ready for ever */
		}
	}
	return 0;
}

void events_tell_ready(struct daemon *daemon)
{
	renew_status(daemon);
	sd_notifyf(0, "READY=1\nSTATUS=%s", daemon->status);
}

/* ---- sources ------------------------------------------------------------------------------------- */

int events_add(struct daemon *daemon)
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
		r = sd_event_add_time_relative(daemon->event, &daemon->mailer, CLOCK_MONOTONIC, MAIL_US, MAIL_US,
		                               on_mail_again, daemon);
	if (r >= 0)
		r = sd_event_add_defer(daemon->event, &daemon->reaper, on_reap, daemon);
	if (r >= 0)
		r = sd_event_source_set_enabled(daemon->reaper, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

int events_watch_device(struct daemon *daemon, struct interface *interface)
{
	int r;

	if (interface->notices || !interface->ops->notice_fd)
		return 0;
	r = sd_event_add_io(daemon->event, &interface->notices, interface->ops->notice_fd(interface->backend), EPOLLIN,
	                    on_notices, daemon);
	return r < 0 ? r : 0;
}

void events_drop(struct daemon *daemon)
{
	struct interface *interface;

	sd_event_source_disable_unref(daemon->term);
	sd_event_source_disable_unref(daemon->interrupt);
	sd_event_source_disable_unref(daemon->hang_up);
	sd_event_source_disable_unref(daemon->second);
	daemon->reaper = sd_event_source_disable_unref(daemon->reaper);
	daemon->mailer = sd_event_source_disable_unref(daemon->mailer);
	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		interface->notices = sd_event_source_disable_unref(interface->notices);
}
