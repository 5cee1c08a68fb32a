// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include "daemon/base/background.h"
#include "daemon/base/log.h"
#include "daemon/base/time.h"
#include "daemon/events.h"
#include "daemon/process/preflight.h"
#include "daemon/reload/reload.h"
#include "daemon/stream/stream_set.h"
#include "daemon/port/interface_tx.h"
#include "daemon/channel/channel_set.h"
#include "daemon/process/watchdog.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#define START_US     UINT64_C(90000000) /* what starting may take besides */
#define WAIT_STEP_US 100000

/* The one that clients wait at already, where there is one. */
static int open_listener(struct daemon *daemon, struct failure *failure)
{
	const struct config *config = daemon->config;
	int fd;
	int r = fdstore_take(&daemon->fdstore, config->socket_path, failure);

	if (r < 0)
		return r;
	fd = daemon->fdstore.listener;
	if (fd < 0)
		return listener_open(&daemon->listener, config->socket_path, config->socket_mode, config->socket_group,
		                     failure);
	daemon->fdstore.listener = -1;
	return listener_adopt(&daemon->listener, fd, config->socket_path, config->socket_mode, config->socket_group,
	                      failure);
}

static int make_streams(struct daemon *daemon, struct failure *failure)
{
	int r = 0;

	for (uint32_t i = 0; i < daemon->config->n_streams && r == 0; i++)
		r = streams_new(daemon, &daemon->streams, &daemon->config->streams[i], failure);
	for (uint32_t i = 0; i < daemon->config->n_channels && r == 0; i++)
		r = channel_set_new(daemon, &daemon->channels, &daemon->config->channels[i], failure);
	if (r == 0)
		r = streams_check_memory(NULL, &daemon->streams, failure);
	if (r == 0)
		r = streams_each(daemon, &daemon->streams, streams_open, failure);
	return r == 0 ? channel_set_each(daemon, &daemon->channels, channel_set_open, failure) : r;
}

/* TERM and INT are blocked until the loop takes them. */
static bool is_told_to_stop(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT);
}

/*
 * The hugepages of the last run are free once its readers have read to its end. A restarted daemon waits for
 * that; for one that was not, nothing says that any are to come.
 */
static int prepare_patiently(struct daemon *daemon, struct stream *stream, struct failure *failure)
{
	bool said = false;

	for (;;) {
		int r = streams_prepare(daemon, stream, failure);

		if (r != -ENOMEM || failure->exit_code != EX_TEMPFAIL || !daemon->fdstore.restarted)
			return r;
		daemon->stopping = is_told_to_stop();
		if (time_monotonic_ns() >= daemon->wait_until_ns || daemon->stopping)
			return r;
		if (!said)
			sd_notify(0, "STATUS=waiting for hugepages that readers of the last run have");
		if (!said)
			log_message(LOG_WARNING,
			            &(struct log_about){.event = LOG_EVENT_WAITING_FOR_MEMORY,
			                                .stream = stream->config->name},
			            "%s; waiting up to %u s (restart_wait_s) for it", failure->text,
			            daemon->config->restart_wait_s);
		said = true;
		usleep(WAIT_STEP_US);
	}
}

static int prepare_streams(struct daemon *daemon, struct failure *failure)
{
	uint64_t wait_us = daemon->config->restart_wait_s * UINT64_C(1000000);
	int r;

	daemon->wait_until_ns = time_monotonic_ns() + wait_us * 1000;
	sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu",
	           (unsigned long long)(START_US + time_for_memory_us(streams_pinned_bytes(&daemon->streams)) +
	                                (daemon->fdstore.restarted ? wait_us : 0)));
	r = streams_each(daemon, &daemon->streams, prepare_patiently, failure);
	return r == 0 ? channel_set_each(daemon, &daemon->channels, channel_set_prepare, failure) : r;
}

static int serve_clients(struct daemon *daemon, struct failure *failure)
{
	const struct control_options options = {
		.config = daemon->config,
		.event = daemon->event,
		.heartbeats = &daemon->heartbeats,
		.listener = &daemon->listener,
		.worker_ended = events_worker_ended,
		.reconfigure = reload_change,
		.context = daemon,
	};
	int r = control_new(&daemon->control, &options, failure);

	if (r == 0)
		r = streams_each(daemon, &daemon->streams, streams_serve, failure);
	if (r == 0)
		r = channel_set_each(daemon, &daemon->channels, channel_set_serve, failure);
	if (r == 0)
		channel_set_lend(&daemon->channels);
	return r;
}

static int start_streams(struct daemon *daemon, struct failure *failure)
{
	int r = streams_each(daemon, &daemon->streams, streams_start, failure);

	if (r == 0)
		r = serve_clients(daemon, failure);
	if (r == 0)
		r = streams_each(daemon, &daemon->streams, streams_capture, failure);
	events_refresh_states(daemon);
	return r;
}

static int start_background(struct daemon *daemon, struct failure *failure)
{
	int r = background_new(&daemon->reader, daemon->event, "config-reader");

	if (r == 0)
		r = background_new(&daemon->memory, daemon->event, "reload-memory");
	if (r == 0)
		heartbeat_watch(&daemon->heartbeats, background_heartbeat(daemon->memory),
		                "the reconfiguration on its way");
	return r == 0 ? 0 : failure_set(failure, EX_OSERR, -r, "no thread to prepare a reload: %s", strerror(-r));
}

/* The socket is the user's that is become; who stays root gives it to a group while that is allowed. */
static int open_listener_and_drop(struct daemon *daemon, const struct priv_user *user, struct failure *failure)
{
	int r = user ? preflight_keep_privileges(user, failure) : 0;

	if (r == 0)
		r = open_listener(daemon, failure);
	return r == 0 && !user ? preflight_keep_privileges(NULL, failure) : r;
}

/*
 * The socket's path first: a second daemon should hear of the first one, and not of what that one uses
 * up. Privileges go before the first device is opened, and the last one, unless senders will need it, before the
 * first thread starts.
 */
static int set_up(struct daemon *daemon, const struct priv_user *user, struct failure *failure)
{
	int r = sd_event_new(&daemon->event);

	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "cannot set up: %s", strerror(-r));
	preflight_raise_limits();
	preflight_leave_cpus(&daemon->cpus, daemon->config);
	r = preflight_test_seals(daemon->config, failure);
	if (r == 0)
		r = open_listener_and_drop(daemon, user, failure);
	if (r == 0)
		r = make_streams(daemon, failure);
	if (r == 0)
		r = prepare_streams(daemon, failure);
	if (r < 0)
		return r;
	if (!channel_set_need_ipc_lock(daemon))
		r = preflight_drop_ipc_lock(failure);
	if (r == 0)
		r = start_background(daemon, failure);
	if (r == 0)
		r = start_streams(daemon, failure);
	if (r < 0)
		return r;
	r = events_add(daemon);
	if (r == 0)
		r = watchdog_add(daemon);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "cannot watch signals and timers: %s", strerror(-r));
	return 0;
}

/* ---- taking down --------------------------------------------------------------------------------- */

/* Half-made or whole: the reverse of set_up(). Workers end side by side, and before control hangs up. */
static void tear_down(struct daemon *daemon)
{
	struct interface_tx *tx;
	struct channel *channel;
	struct stream *stream;

	daemon->stopping = true; /* a change that is on its way is undone */
	reload_cancel(daemon);
	background_drain(daemon->memory);
	background_free(daemon->memory);
	watchdog_drop(daemon);
	events_drop(daemon);
	TAILQ_FOREACH (stream, &daemon->streams, link)
		stream_leave(stream);
	TAILQ_FOREACH (stream, &daemon->streams, link)
		stream_stop(stream);
	TAILQ_FOREACH (tx, &daemon->interface_txs, link)
		interface_tx_stop(tx);
	TAILQ_FOREACH (stream, &daemon->streams, link)
		stream_join(stream);
	TAILQ_FOREACH (tx, &daemon->interface_txs, link)
		interface_tx_join(tx);
	TAILQ_FOREACH (channel, &daemon->channels, link)
		channel_set_close(channel);
	control_free(daemon->control);
	daemon->control = NULL;
	while (!TAILQ_EMPTY(&daemon->channels))
		channel_set_free(daemon, &daemon->channels, TAILQ_FIRST(&daemon->channels));
	neighbours_free(daemon->neighbours);
	while (!TAILQ_EMPTY(&daemon->streams))
		streams_free(daemon, &daemon->streams, TAILQ_FIRST(&daemon->streams));
	listener_close(&daemon->listener);
	fdstore_deinit(&daemon->fdstore);
	sd_event_unref(daemon->event);
	config_free_chain(daemon->config);
}

/* ---- running ------------------------------------------------------------------------------------- */

/* Once all is up: what the next run is to find, and no more of what the last one left. */
static void hand_to_manager(struct daemon *daemon)
{
	struct stream *stream;
	bool has_all = true;

	if (daemon->fdstore.keeps) {
		fdstore_keep_listener(&daemon->fdstore, daemon->listener.fd);
		daemon->listener.kept = true;
	}
	TAILQ_FOREACH (stream, &daemon->streams, link)
		has_all &= fdstore_keep_groups(&daemon->fdstore, stream->config->name, stream->membership,
		                               &stream->kept_as) == 0;
	fdstore_settle(&daemon->fdstore, has_all);
}

/* sd-event takes the stop signals from a descriptor: no thread may be interrupted by them. */
static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

int daemon_run(struct config *config, const struct priv_user *user, struct failure *failure)
{
	struct daemon daemon = {
		.config = config,
		.failure = failure,
		.listener = LISTENER_INIT,
		.fdstore = FDSTORE_INIT,
		.interfaces = TAILQ_HEAD_INITIALIZER(daemon.interfaces),
		.interface_txs = TAILQ_HEAD_INITIALIZER(daemon.interface_txs),
		.channels = TAILQ_HEAD_INITIALIZER(daemon.channels),
		.streams = TAILQ_HEAD_INITIALIZER(daemon.streams),
	};
	int r;

	block_signals();
	log_set_level(config->log_level);
	r = set_up(&daemon, user, failure);
	if (r == 0) {
		hand_to_manager(&daemon);
		events_tell_ready(&daemon);
		log_message(LOG_INFO, &(struct log_about){.event = LOG_EVENT_READY},
		            "ready: %u streams, %u channels, control socket %s", config->n_streams, config->n_channels,
		            config->socket_path);
		r = sd_event_loop(daemon.event);
		if (r < 0)
			failure_set(failure, EX_OSERR, -r, "the event loop failed: %s", strerror(-r));
		else
			r = daemon.result;
	} else if (daemon.stopping) {
		log_info("told to stop while waiting: %s", failure->text);
		r = 0;
	}
	tear_down(&daemon);
	return r;
}
