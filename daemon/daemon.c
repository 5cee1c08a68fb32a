// SPDX-License-Identifier: Apache-2.0
/*
 * The life of the daemon: sets every object up, runs the loop, and takes all of it down in reverse. The only place that
 * sees all rooms.
 */
#include "daemon/daemon.h"

#include "daemon/backend/choice/backends.h"
#include "daemon/base/background.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include "daemon/events.h"
#include "daemon/memory/memory_check.h"
#include "daemon/net/neighbour.h"
#include "daemon/packet/identifications.h"
#include "daemon/port/interface.h"
#include "daemon/process/preflight.h"
#include "daemon/process/socket_location.h"
#include "daemon/reload/apply.h"
#include "daemon/reload/lent.h"
#include "daemon/reload/reload.h"
#include "daemon/reload/reopen.h"
#include "daemon/reload/reopenings.h"
#include "lib/base/time.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <unistd.h>

#define START_US      UINT64_C(90000000) /* time limit of the start without its memory */
#define WAIT_STEP_US  100000
#define END_US        UINT64_C(2000000) /* to wait for devices and the kernel at the end */
#define PREPARING_MAX 16                /* streams that are prepared at once at the start */

/* ---- setting up ---------------------------------------------------------------------------------- */

/* Clients may wait at the socket of the last run, or at a socket unit's: that one is used, if there is one. */
static int open_listener(struct daemon *daemon, struct failure *failure)
{
	const struct config *config = daemon->config;
	int fd;
	int r = fdstore_take(&daemon->fdstore, daemon->manager, config->socket_path, failure);

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

/* The daemon's user owns the socket. A daemon that stays root gives it to a group while it still may. */
static int open_listener_and_drop(struct daemon *daemon, const struct priv_user *user, struct failure *failure)
{
	int r = user ? preflight_keep_privileges(daemon->config, user, failure) : 0;

	if (r == 0)
		r = open_listener(daemon, failure);
	return r == 0 && !user ? preflight_keep_privileges(daemon->config, NULL, failure) : r;
}

static int make_services(struct daemon *daemon, struct failure *failure)
{
	const struct service_memory nothing = {0};
	struct service_memory memory;
	int r = memory_check_rings(daemon->config, failure);

	if (r == 0)
		r = preflight_check_cpus(daemon->config, NULL, failure);
	if (r == 0)
		r = reopenings_await_missing(daemon, failure);
	if (r == 0)
		r = apply_add_services(daemon, daemon->config, NULL, &daemon->services, failure);
	memory = service_memory_of(&daemon->services, true);
	if (r == 0)
		r = memory_check_free(&memory, &nothing, failure);
	if (r == 0)
		r = service_walk(daemon, &daemon->services, SERVICE_OPEN, SERVICE_OPEN, failure);
	return r;
}

/*
 * The hugepages of the last run become free when its readers have read to its end. A restarted daemon waits for that.
 * At a first start nobody is known to give hugepages back.
 */
static int prepare_patiently(struct daemon *daemon, struct service *service, struct failure *failure)
{
	for (bool is_told = false;; is_told = true) {
		int r = service->ops->steps[SERVICE_PREPARE](daemon, service, failure);
		sigset_t pending;

		if (r != -ENOMEM || failure->exit_code != EX_TEMPFAIL || !daemon->fdstore.restarted)
			return r;
		/* TERM and INT are blocked until the loop takes them. */
		sigpending(&pending);
		daemon->stopping = sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT);
		if (time_monotonic_ns() >= daemon->wait_until_ns || daemon->stopping)
			return r;
		if (!is_told) {
			manager_tell(daemon->manager, "STATUS=waiting for hugepages that readers of the last run have");
			log_message(LOG_WARNING,
			            &(struct log_about){.event = LOG_EVENT_WAITING_FOR_MEMORY, .stream = service->name},
			            "%s; waiting up to %u s (restart_wait_s) for it", failure->text,
			            daemon->config->restart_wait_s);
		}
		usleep(WAIT_STEP_US);
	}
}

/* ---- streams side by side ------------------------------------------------------------------------ */

struct preparing {
	struct daemon *daemon;
	pthread_mutex_t lock;
	struct service *next;
};

static struct service *take_next_stream(struct preparing *preparing)
{
	struct service *service;

	pthread_mutex_lock(&preparing->lock);
	while ((service = preparing->next) && service->ops->kind != SERVICE_STREAM)
		preparing->next = TAILQ_NEXT(service, link);
	if (service)
		preparing->next = TAILQ_NEXT(service, link);
	pthread_mutex_unlock(&preparing->lock);
	return service;
}

static void *prepare_streams(void *context)
{
	struct preparing *preparing = context;
	struct service *service;

	while ((service = take_next_stream(preparing))) {
		struct failure failure; /* unused: the start tries the stream again, and reports that failure */

		service->is_prepared = service->ops->steps[SERVICE_PREPARE](preparing->daemon, service, &failure) == 0;
	}
	return NULL;
}

/*
 * The kernel lets each ring of a socket wait for a grace period of RCU, which many can wait for at once. These threads
 * end before privileges are given up. A step that fails here is tried again alone.
 */
static void prepare_streams_side_by_side(struct daemon *daemon)
{
	struct preparing preparing = {
		.daemon = daemon, .lock = PTHREAD_MUTEX_INITIALIZER, .next = TAILQ_FIRST(&daemon->services)};
	pthread_t threads[PREPARING_MAX];
	uint32_t n = 0,
		 n_wanted = daemon->config->n_streams < PREPARING_MAX ? daemon->config->n_streams : PREPARING_MAX;

	if (n_wanted < 2)
		return;
	while (n < n_wanted && thread_start(&threads[n], "prepare", -1, prepare_streams, &preparing) == 0)
		n++;
	while (n > 0)
		pthread_join(threads[--n], NULL);
}

/* A ring found too few hugepages. Its administrator needs the number for the rings of all streams. */
static void explain_hugepages(const struct daemon *daemon, struct failure *failure)
{
	const struct service_memory all = service_memory_of(&daemon->services, true);
	struct failure found, explained = {0};
	struct service_memory held = {0};
	const struct service *service;

	TAILQ_FOREACH (service, &daemon->services, link)
		if (service->is_prepared)
			service->ops->memory(service, &held);
	for (unsigned size = 0; size < MEMORY_HUGE_SIZES; size++)
		if (memory_check_hugepages(&all, &held, size, &found) < 0)
			failure_add(&explained, &found);
	if (explained.text[0])
		*failure = explained;
}

static int prepare_all_services(struct daemon *daemon, struct failure *failure)
{
	uint64_t wait_us = daemon->config->restart_wait_s * UINT64_C(1000000);
	uint64_t memory_us = time_for_memory_us(service_memory_of(&daemon->services, true).ring_bytes);
	struct service *service;
	int r = 0;

	daemon->wait_until_ns = time_monotonic_ns() + wait_us * 1000;
	manager_tell(daemon->manager, "EXTEND_TIMEOUT_USEC=%llu",
	             (unsigned long long)(START_US + memory_us + (daemon->fdstore.restarted ? wait_us : 0)));
	prepare_streams_side_by_side(daemon);
	TAILQ_FOREACH (service, &daemon->services, link) {
		r = service->is_prepared ? 0 : prepare_patiently(daemon, service, failure);
		service->is_prepared = r == 0;
		if (r < 0)
			break;
	}
	if (r == -ENOMEM && failure->exit_code == EX_TEMPFAIL)
		explain_hugepages(daemon, failure);
	return r;
}

/*
 * All memory is locked by now, but for that of senders and of interfaces that come later. A daemon that waits for an
 * interface, or has none, keeps the rights of all backends. CAP_BPF may have to stay for programs and maps that were
 * made at the start.
 */
static int give_up_unused_privileges(struct daemon *daemon, struct failure *failure)
{
	struct service_memory memory = service_memory_of(&daemon->services, true);
	const struct interface *interface;
	uint64_t used;

	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		if (interface->ops->locked_bytes)
			memory.locked_device_bytes += interface->ops->locked_bytes(interface->backend);
	reopenings_add_locked_memory(daemon, &memory);
	used = memory_needs_ipc_lock(&memory) ? PRIV_BIT(CAP_IPC_LOCK) : 0;
	if (TAILQ_EMPTY(&daemon->interfaces) || !TAILQ_EMPTY(&daemon->reopenings))
		used |= backend_capabilities_of(NULL, BACKEND_PHASE_LATER);
	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		used |= backend_capabilities_of(interface->ops, BACKEND_PHASE_LATER) |
		        (backend_capabilities_of(interface->ops, BACKEND_PHASE_START) & PRIV_BIT(CAP_BPF));
	return preflight_give_up_privileges(used, failure);
}

static int start_background(struct daemon *daemon, struct failure *failure)
{
	int r = background_new(&daemon->reader, daemon->event, "config-reader", 0);

	if (r == 0)
		r = background_new(&daemon->memory, daemon->event, "reload-memory", 0);
	if (r == 0)
		r = background_new(&daemon->kernel, daemon->event, "kernel-reader", 0);
	if (r == 0)
		heartbeat_watch(&daemon->heartbeats, background_heartbeat(daemon->memory),
		                "the reconfiguration on its way");
	return r == 0 ? 0 : failure_set(failure, EX_OSERR, -r, "no thread to prepare a reload: %s", strerror(-r));
}

static int start_control(struct daemon *daemon, struct failure *failure)
{
	const struct control_options options = {
		.config = daemon->config,
		.event = daemon->event,
		.heartbeats = &daemon->heartbeats,
		.listener = &daemon->listener,
		.worker_ended = events_worker_ended,
		.reconfigure = reload_by_request,
		.lent_bytes = lent_bytes,
		.open_lent = lent_open,
		.lender_left = lent_note_left,
		.closed_why = reopenings_why,
		.context = daemon,
	};

	return control_new(&daemon->control, &options, failure);
}

/*
 * The socket's path comes first: a second daemon should report the first one, and not that the first one's resources
 * are missing. Privileges that no configured backend uses are given up before the first device is opened; those that
 * only the start needs, before the first thread that stays.
 */
static int daemon_set_up(struct daemon *daemon, const struct priv_user *user, struct failure *failure)
{
	int r = sd_event_new(&daemon->event);

	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "cannot set up: %s", strerror(-r));
	daemon->manager = manager_new(daemon->event);
	preflight_raise_limits();
	preflight_leave_cpus(&daemon->cpus, daemon->config);
	r = preflight_test_seals(daemon->config, failure);
	if (r == 0)
		r = open_listener_and_drop(daemon, user, failure);
	if (r == 0)
		r = make_services(daemon, failure);
	if (r == 0)
		r = prepare_all_services(daemon, failure);
	if (r == 0)
		r = give_up_unused_privileges(daemon, failure);
	if (r == 0)
		apply_drop_waiting(daemon, &daemon->services);
	if (r == 0)
		r = start_background(daemon, failure);
	if (r == 0)
		r = start_control(daemon, failure);
	if (r == 0)
		r = service_walk(daemon, &daemon->services, SERVICE_START, SERVICE_CAPTURE, failure);
	return r == 0 ? events_add(daemon, failure) : r;
}

/* ---- taking down --------------------------------------------------------------------------------- */

static bool is_an_interface_abandoned(const struct daemon *daemon)
{
	const struct interface *interface;

	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		if (interface->is_abandoned)
			return true;
	return false;
}

/* The reverse of daemon_set_up(), however far that came. Workers end side by side, and before control hangs up. */
static void daemon_tear_down(struct daemon *daemon)
{
	struct interface *interface;
	struct service *service;

	daemon->stopping = true; /* so that a change that is on its way is undone */
	reload_cancel(daemon);
	background_drain(daemon->memory, BACKGROUND_FOR_EVER);
	background_free(daemon->memory);
	reopen_cancel(daemon);
	events_drop(daemon);
	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		interface_end_readings(interface, END_US);
	TAILQ_FOREACH (service, &daemon->services, link)
		service->ops->stop(service);
	TAILQ_FOREACH (service, &daemon->services, link)
		service->ops->join(service);
	daemon->is_left = is_an_interface_abandoned(daemon);
	if (!control_free(daemon->control)) {
		daemon->is_left = true;
		listener_close(&daemon->listener);
		return;
	}
	daemon->control = NULL;
	while ((service = TAILQ_LAST(&daemon->services, service_list)))
		service->ops->free(daemon, &daemon->services, service);
	neighbours_free(daemon->neighbours);
	if (!daemon->is_left)
		identifications_free(daemon->identifications);
	background_drain(daemon->kernel, END_US);
	if (daemon->kernel)
		background_abandon(daemon->kernel);
	listener_close(&daemon->listener);
	fdstore_deinit(&daemon->fdstore);
	manager_free(daemon->manager);
	sd_event_unref(daemon->event);
	config_free_chain(daemon->config);
}

/* ---- running ------------------------------------------------------------------------------------- */

static void warn_of_private_socket(const char *path)
{
	if (socket_location_is_private(path, "/proc/self/mountinfo"))
		log_warning("control socket '%s': the service has a directory of its own there (PrivateTmp=), so no "
		            "client finds it: set socket to a path below /run/ibvcapd",
		            path);
}

/*
 * Everything is up: the configuration is in force, the service manager keeps the sockets for the next run, and may drop
 * those of the last run.
 */
static void commit_start(struct daemon *daemon)
{
	struct service *service;
	bool has_all = true;

	if (daemon->fdstore.keeps) {
		fdstore_keep_listener(&daemon->fdstore, daemon->listener.fd);
		daemon->listener.kept = true;
	}
	TAILQ_FOREACH (service, &daemon->services, link)
		has_all &= service->ops->commit(daemon, service) == 0;
	fdstore_close_last_run(&daemon->fdstore, has_all);
	service_refresh_all(daemon);
	socket_link_make(daemon->config->socket_path);
	warn_of_private_socket(daemon->config->socket_path);
	service_tell_ready(daemon);
	log_message(LOG_NOTICE, &(struct log_about){.event = LOG_EVENT_READY}, "ready: %s, control socket %s",
	            daemon->status, daemon->config->socket_path);
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
		.take_notice = events_take_notice,
		.interfaces = TAILQ_HEAD_INITIALIZER(daemon.interfaces),
		.services = TAILQ_HEAD_INITIALIZER(daemon.services),
		.reopenings = TAILQ_HEAD_INITIALIZER(daemon.reopenings),
	};
	int r;

	block_signals();
	log_set_level(config->log_level);
	r = daemon_set_up(&daemon, user, failure);
	if (r == 0) {
		commit_start(&daemon);
		r = sd_event_loop(daemon.event);
		if (r < 0)
			failure_set(failure, EX_OSERR, -r, "the event loop failed: %s", strerror(-r));
		else
			r = daemon.result;
	} else if (daemon.stopping) {
		log_info("told to stop while waiting: %s", failure->text);
		r = 0;
	}
	daemon_tear_down(&daemon);
	/* Not by exit(): the libraries would free memory that a thread still uses, which hangs in the kernel. */
	if (daemon.is_left && r == 0)
		_exit(EX_OK);
	return r;
}
