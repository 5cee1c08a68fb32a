// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include "daemon/base/log.h"
#include "daemon/control/control.h"
#include "daemon/interface.h"
#include "daemon/preflight.h"
#include "daemon/priv/priv.h"
#include "daemon/stream.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#define SECOND_US  UINT64_C(1000000)
#define SMALL_PAGE 4096

struct daemon {
	const struct config *config;
	struct fault *fault;
	sd_event *event;
	sd_event_source *term;
	sd_event_source *interrupt;
	sd_event_source *second;
	sd_event_source **notices; /* an interface */
	struct listener listener;
	struct interface *interfaces;
	uint32_t n_interfaces;
	struct stream *streams;
	uint32_t n_streams;
	struct control_ring *rings; /* a stream */
	struct control_interface *ports; /* an interface */
	struct control *control;
	uint64_t epoch;
	uint32_t n_workers; /* whose threads run */
	bool stopping;
	int result;
};

/* ---- stopping ------------------------------------------------------------------------------------ */

/* In order: nothing new comes, then everything that came is published, then the workers end. */
static void begin_stop(struct daemon *daemon)
{
	if (daemon->stopping)
		return;
	daemon->stopping = true;
	sd_notify(0, "STOPPING=1");
	control_stop_accepting(daemon->control);
	for (uint32_t i = 0; i < daemon->n_streams; i++)
		stream_leave(&daemon->streams[i]);
	for (uint32_t i = 0; i < daemon->n_streams; i++)
		stream_stop(&daemon->streams[i]);
	if (daemon->n_workers == 0)
		sd_event_exit(daemon->event, 0);
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

static void on_worker_ended(void *context, uint32_t ring, int error)
{
	struct daemon *daemon = context;
	struct stream *stream = &daemon->streams[ring];

	daemon->n_workers--;
	if (error < 0)
		fail(daemon, fault_set(daemon->result ? NULL : daemon->fault, EX_UNAVAILABLE, -error,
				       "stream '%s': device %s failed: %s", stream->config->name,
				       stream->interface->capabilities.device, strerror(-error)));
	if (daemon->stopping && daemon->n_workers == 0)
		sd_event_exit(daemon->event, 0);
}

/* ---- running ------------------------------------------------------------------------------------- */

static void refresh_states(struct daemon *daemon)
{
	for (uint32_t i = 0; i < daemon->n_streams; i++)
		daemon->rings[i].state = daemon->streams[i].interface->link_up ? "capturing" : "link_down";
}

static int on_second(sd_event_source *source, uint64_t time_us, void *context)
{
	struct daemon *daemon = context;

	(void)time_us;
	for (uint32_t i = 0; i < daemon->n_interfaces; i++) {
		interface_watch_link(&daemon->interfaces[i]);
		interface_renew_clock(&daemon->interfaces[i]);
	}
	refresh_states(daemon);
	for (uint32_t i = 0; i < daemon->n_streams && !daemon->stopping; i++)
		stream_set_clock(&daemon->streams[i]);
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
		refresh_states(daemon);
		break;
	case BACKEND_NOTICE_DEVICE_FAILED:
		fail(daemon, fault_set(daemon->result ? NULL : daemon->fault, EX_UNAVAILABLE, EIO, "device %s failed: %s",
				       device, notice->text));
		break;
	case BACKEND_NOTICE_QUEUE_FAILED:
	case BACKEND_NOTICE_OTHER:
		log_warning("device %s: %s", device, notice->text);
		break;
	}
}

static int on_notices(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct daemon *daemon = context;
	struct backend_notice notice;

	(void)source;
	(void)fd;
	(void)events;
	for (uint32_t i = 0; i < daemon->n_interfaces; i++) {
		struct interface *interface = &daemon->interfaces[i];

		while (interface->ops->read_notice && interface->ops->read_notice(interface->backend, &notice) == 1)
			take_notice(daemon, interface, &notice);
	}
	return 0;
}

/* ---- setting up: what needs no device ------------------------------------------------------------ */

static const char *backend_name(enum config_backend backend)
{
	switch (backend) {
	case CONFIG_BACKEND_VERBS:
		break;
	}
	return "verbs";
}

static struct interface *find_interface(struct daemon *daemon, const char *name)
{
	for (uint32_t i = 0; i < daemon->n_interfaces; i++)
		if (strcmp(daemon->interfaces[i].name, name) == 0)
			return &daemon->interfaces[i];
	return NULL;
}

/* Every stream meets its interface, and every interface is there once. */
static int find_interfaces(struct daemon *daemon, struct fault *fault)
{
	for (uint32_t i = 0; i < daemon->n_streams; i++) {
		const struct config_stream *config = &daemon->config->streams[i];
		struct interface *interface = find_interface(daemon, config->interface);
		int r = 0;

		if (!interface) {
			interface = &daemon->interfaces[daemon->n_interfaces];
			r = interface_init(interface, config->interface, backend_name(config->backend), fault);
			if (r < 0)
				return r;
			daemon->n_interfaces++;
		}
		r = stream_init(&daemon->streams[i], daemon->config, config, interface, fault);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_memory(const struct daemon *daemon, struct fault *fault)
{
	uint64_t small = 0, all = 0;
	int r;

	for (uint32_t i = 0; i < daemon->n_streams; i++) {
		uint64_t bytes = stream_pinned_bytes(&daemon->streams[i]);

		all += bytes;
		if (daemon->config->streams[i].page_bytes == SMALL_PAGE)
			small += bytes;
	}
	r = preflight_check_memory(small, fault);
	return r == 0 ? priv_memlock_allows(all, fault) : r;
}

/* ---- setting up: devices, streams, clients ------------------------------------------------------- */

static int open_devices(struct daemon *daemon, struct fault *fault)
{
	int r = 0;

	for (uint32_t i = 0; i < daemon->n_interfaces && r == 0; i++)
		r = interface_open(&daemon->interfaces[i], fault);
	return r;
}

static int prepare_streams(struct daemon *daemon, struct fault *fault)
{
	int r = 0;

	for (uint32_t i = 0; i < daemon->n_streams && r == 0; i++)
		r = stream_prepare(&daemon->streams[i], daemon->config, daemon->epoch, fault);
	return r;
}

static int start_streams(struct daemon *daemon, struct fault *fault)
{
	int r = 0;

	for (uint32_t i = 0; i < daemon->n_streams && r == 0; i++)
		r = stream_start(&daemon->streams[i], fault);
	return r;
}

static void describe_to_control(struct daemon *daemon)
{
	for (uint32_t i = 0; i < daemon->n_streams; i++) {
		struct stream *stream = &daemon->streams[i];

		daemon->rings[i] = (struct control_ring){
			.config = stream->config,
			.ring = &stream->ring,
			.inbox = worker_inbox(stream->worker),
			.outbox = worker_outbox(stream->worker),
			.device = stream->interface->capabilities.device,
			.backend = stream->interface->ops->name,
			.read_matched = stream_read_matched,
			.context = stream,
		};
	}
	for (uint32_t i = 0; i < daemon->n_interfaces; i++)
		daemon->ports[i] = (struct control_interface){
			.name = daemon->interfaces[i].name,
			.device = daemon->interfaces[i].capabilities.device,
			.read = interface_read_counters,
			.context = &daemon->interfaces[i],
		};
	refresh_states(daemon);
}

static int serve_clients(struct daemon *daemon, struct fault *fault)
{
	const struct control_options options = {
		.config = daemon->config,
		.event = daemon->event,
		.listener = &daemon->listener,
		.epoch = daemon->epoch,
		.rings = daemon->rings,
		.n_rings = daemon->n_streams,
		.interfaces = daemon->ports,
		.n_interfaces = daemon->n_interfaces,
		.worker_ended = on_worker_ended,
		.context = daemon,
	};

	describe_to_control(daemon);
	daemon->n_workers = daemon->n_streams;
	return control_new(&daemon->control, &options, fault);
}

static int add_event_sources(struct daemon *daemon)
{
	int r = sd_event_add_signal(daemon->event, &daemon->term, SIGTERM, on_stop_signal, daemon);

	if (r >= 0)
		r = sd_event_add_signal(daemon->event, &daemon->interrupt, SIGINT, on_stop_signal, daemon);
	if (r >= 0)
		r = sd_event_add_time_relative(daemon->event, &daemon->second, CLOCK_MONOTONIC, SECOND_US, 0, on_second,
					       daemon);
	for (uint32_t i = 0; i < daemon->n_interfaces && r >= 0; i++) {
		const struct interface *interface = &daemon->interfaces[i];

		if (interface->ops->notice_fd)
			r = sd_event_add_io(daemon->event, &daemon->notices[i],
					    interface->ops->notice_fd(interface->backend), EPOLLIN, on_notices, daemon);
	}
	return r < 0 ? r : 0;
}

static int allocate(struct daemon *daemon)
{
	uint32_t n = daemon->n_streams;

	daemon->interfaces = calloc(n, sizeof(*daemon->interfaces));
	daemon->ports = calloc(n, sizeof(*daemon->ports));
	daemon->notices = calloc(n, sizeof(sd_event_source *));
	daemon->streams = calloc(n, sizeof(*daemon->streams));
	daemon->rings = calloc(n, sizeof(*daemon->rings));
	if (!daemon->interfaces || !daemon->ports || !daemon->notices || !daemon->streams || !daemon->rings)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		daemon->streams[i] = (struct stream)STREAM_INIT;
	do {
		if (getrandom(&daemon->epoch, sizeof(daemon->epoch), 0) < 0)
			return -errno;
	} while (daemon->epoch == 0);
	return sd_event_new(&daemon->event);
}

/*
 * The socket's path first: a second daemon should hear of the first one, and not of what that one uses
 * up. Privileges go before the first device is opened, and the last one before the first thread starts.
 */
static int set_up(struct daemon *daemon, struct fault *fault)
{
	const struct config *config = daemon->config;
	int r = allocate(daemon);

	if (r < 0)
		return fault_set(fault, EX_OSERR, -r, "cannot set up: %s", strerror(-r));
	preflight_raise_descriptor_limit();
	r = preflight_test_seals(config, fault);
	if (r == 0)
		r = listener_open(&daemon->listener, config->socket_path, config->socket_mode, config->socket_group, fault);
	if (r == 0)
		r = preflight_keep_privileges(fault);
	if (r == 0)
		r = find_interfaces(daemon, fault);
	if (r == 0)
		r = check_memory(daemon, fault);
	if (r == 0)
		r = open_devices(daemon, fault);
	if (r == 0)
		r = prepare_streams(daemon, fault);
	if (r < 0)
		return r;
	priv_drop(CAP_IPC_LOCK);
	r = start_streams(daemon, fault);
	if (r == 0)
		r = serve_clients(daemon, fault);
	if (r < 0)
		return r;
	r = add_event_sources(daemon);
	if (r < 0)
		return fault_set(fault, EX_OSERR, -r, "cannot watch signals and timers: %s", strerror(-r));
	return 0;
}

/* ---- taking down --------------------------------------------------------------------------------- */

static void drop_event_sources(struct daemon *daemon)
{
	sd_event_source_disable_unref(daemon->term);
	sd_event_source_disable_unref(daemon->interrupt);
	sd_event_source_disable_unref(daemon->second);
	for (uint32_t i = 0; i < daemon->n_interfaces; i++)
		sd_event_source_disable_unref(daemon->notices[i]);
}

/* Half-made or whole: the reverse of set_up(). */
static void tear_down(struct daemon *daemon)
{
	drop_event_sources(daemon);
	for (uint32_t i = 0; i < daemon->n_streams && daemon->streams; i++) {
		stream_leave(&daemon->streams[i]);
		stream_stop(&daemon->streams[i]);
		stream_join(&daemon->streams[i]);
	}
	control_free(daemon->control);
	for (uint32_t i = 0; i < daemon->n_streams && daemon->streams; i++)
		stream_deinit(&daemon->streams[i]);
	for (uint32_t i = 0; i < daemon->n_interfaces; i++)
		interface_close(&daemon->interfaces[i]);
	listener_close(&daemon->listener);
	sd_event_unref(daemon->event);
	free(daemon->rings);
	free(daemon->streams);
	free(daemon->notices);
	free(daemon->ports);
	free(daemon->interfaces);
}

/* sd-event takes the stop signals from a descriptor: no thread may be interrupted by them. */
static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

int daemon_run(const struct config *config, struct fault *fault)
{
	struct daemon daemon = {
		.config = config,
		.fault = fault,
		.listener = LISTENER_INIT,
		.n_streams = config->n_streams,
	};
	int r;

	block_signals();
	r = set_up(&daemon, fault);
	if (r == 0) {
		sd_notifyf(0, "READY=1\nSTATUS=%u streams on %u interfaces", daemon.n_streams, daemon.n_interfaces);
		log_info("ready: %u streams on %u interfaces, control socket %s", daemon.n_streams, daemon.n_interfaces,
			 config->socket_path);
		r = sd_event_loop(daemon.event);
		if (r < 0)
			fault_set(fault, EX_OSERR, -r, "the event loop failed: %s", strerror(-r));
		else
			r = daemon.result;
	}
	tear_down(&daemon);
	return r;
}
