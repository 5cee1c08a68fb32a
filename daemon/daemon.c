// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include "daemon/base/log.h"
#include "daemon/events.h"
#include "daemon/preflight.h"
#include "daemon/priv/priv.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/random.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>
#include <time.h>
#include <unistd.h>

#define SMALL_PAGE   4096
#define WAIT_STEP_US 100000
#define START_US     UINT64_C(90000000) /* what starting may take besides */

static uint64_t monotonic_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
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
		r = stream_init(&daemon->streams[i], config, interface, fault);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The one that clients wait at already, where there is one. */
static int open_listener(struct daemon *daemon, struct fault *fault)
{
	const struct config *config = daemon->config;
	int fd;
	int r = fdstore_take(&daemon->fdstore, config->socket_path);

	if (r < 0)
		return fault_set(fault, EX_OSERR, -r, "what the service manager passed cannot be taken: %s", strerror(-r));
	fd = daemon->fdstore.listener;
	if (fd < 0)
		return listener_open(&daemon->listener, config->socket_path, config->socket_mode, config->socket_group,
				     fault);
	daemon->fdstore.listener = -1;
	return listener_adopt(&daemon->listener, fd, config->socket_path, config->socket_mode, config->socket_group, fault);
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
static int prepare_stream(struct daemon *daemon, struct stream *stream, uint64_t deadline_us, struct fault *fault)
{
	const struct config_stream *config = stream->config;
	struct interface *interface = stream->interface;
	bool said = false;

	for (;;) {
		int r = stream_prepare(stream, daemon->epoch, fault);

		if (r != -ENOMEM || fault->exit_code != EX_TEMPFAIL || !daemon->fdstore.restarted ||
		    monotonic_us() >= deadline_us || is_told_to_stop())
			return r;
		if (!said)
			log_warning("%s; waiting up to %u s (restart_wait_s) for readers of the last run to give theirs back",
				    fault->text, daemon->config->restart_wait_s);
		said = true;
		stream_deinit(stream);
		r = stream_init(stream, config, interface, fault);
		if (r < 0)
			return r;
		usleep(WAIT_STEP_US);
	}
}

static int prepare_streams(struct daemon *daemon, struct fault *fault)
{
	uint64_t wait_us = daemon->config->restart_wait_s * UINT64_C(1000000);
	uint64_t deadline_us = monotonic_us() + wait_us;
	int r = 0;

	if (daemon->fdstore.restarted)
		sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu", (unsigned long long)(wait_us + START_US));
	for (uint32_t i = 0; i < daemon->n_streams && r == 0; i++)
		r = prepare_stream(daemon, &daemon->streams[i], deadline_us, fault);
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
	events_refresh_states(daemon);
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
		.worker_ended = events_worker_ended,
		.context = daemon,
	};

	describe_to_control(daemon);
	daemon->n_workers = daemon->n_streams;
	return control_new(&daemon->control, &options, fault);
}

static int allocate(struct daemon *daemon)
{
	uint32_t n = daemon->n_streams;

	daemon->interfaces = calloc(n, sizeof(*daemon->interfaces));
	daemon->ports = calloc(n, sizeof(*daemon->ports));
	daemon->notices = calloc(n, sizeof(sd_event_source *));
	daemon->streams = calloc(n, sizeof(*daemon->streams));
	for (uint32_t i = 0; i < n && daemon->streams; i++)
		daemon->streams[i] = (struct stream)STREAM_INIT;
	daemon->rings = calloc(n, sizeof(*daemon->rings));
	if (!daemon->interfaces || !daemon->ports || !daemon->notices || !daemon->streams || !daemon->rings)
		return -ENOMEM;
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
		r = open_listener(daemon, fault);
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
	r = events_add(daemon);
	if (r < 0)
		return fault_set(fault, EX_OSERR, -r, "cannot watch signals and timers: %s", strerror(-r));
	return 0;
}

/* ---- taking down --------------------------------------------------------------------------------- */

/* Half-made or whole: the reverse of set_up(). */
static void tear_down(struct daemon *daemon)
{
	events_drop(daemon);
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
	fdstore_deinit(&daemon->fdstore);
	sd_event_unref(daemon->event);
	free(daemon->rings);
	free(daemon->streams);
	free(daemon->notices);
	free(daemon->ports);
	free(daemon->interfaces);
}

/* Once all is up: what the next run is to find, and no more of what the last one left. */
static void hand_to_manager(struct daemon *daemon)
{
	if (daemon->fdstore.keeps) {
		fdstore_keep_listener(&daemon->fdstore, daemon->listener.fd);
		daemon->listener.kept = true;
	}
	for (uint32_t i = 0; i < daemon->n_streams; i++)
		fdstore_keep_groups(&daemon->fdstore, daemon->epoch, daemon->streams[i].config->name,
				    daemon->streams[i].membership);
	fdstore_settle(&daemon->fdstore);
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

int daemon_run(const struct config *config, struct fault *fault)
{
	struct daemon daemon = {
		.config = config,
		.fault = fault,
		.listener = LISTENER_INIT,
		.fdstore = FDSTORE_INIT,
		.n_streams = config->n_streams,
	};
	int r;

	block_signals();
	r = set_up(&daemon, fault);
	if (r == 0) {
		hand_to_manager(&daemon);
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
