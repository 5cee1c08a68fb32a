// SPDX-License-Identifier: Apache-2.0
/* Makes the checks of a start that open no device and take no memory, and prints what streams and channels take. */
#include "daemon/dry_run.h"

#include "daemon/base/log.h"
#include "lib/base/files.h"
#include "lib/base/size.h"
#include "daemon/backend/choice/backends.h"
#include "daemon/channel/channel.h"
#include "daemon/channel/tx_headers.h"
#include "daemon/control/listener.h"
#include "daemon/net/net.h"
#include "daemon/net/next_hop.h"
#include "daemon/port/interface.h"
#include "daemon/priv/priv.h"
#include "daemon/memory/geometry.h"
#include "daemon/memory/memory_check.h"
#include "daemon/process/preflight.h"
#include "daemon/process/socket_location.h"
#include "daemon/stream/stream.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define SERVICE_DIRECTORY "/run/ibvcapd" /* RuntimeDirectory= of systemd/ibvcapd.service */

/* ---- memory -------------------------------------------------------------------------------------- */

/* "96 MiB: 48 hugepages of 2048 kB"; returns text. */
static const char *describe_memory(uint64_t bytes, uint32_t page_bytes, char *text, size_t n)
{
	int used = snprintf(text, n, "%llu MiB", (unsigned long long)((bytes + (1 << 20) - 1) >> 20));

	if (page_bytes != SMALL_PAGE_BYTES)
		snprintf(text + used, n - (size_t)used, ": %llu hugepages of %u kB",
		         (unsigned long long)bytes / page_bytes, page_bytes / 1024);
	return text;
}

static void print_memory(const struct config *config, const uint64_t *ring_bytes)
{
	char text[96];

	for (uint32_t i = 0; i < config->n_streams; i++) {
		const struct config_stream *stream = &config->streams[i];

		printf("stream '%s': a ring of %s\n", stream->name,
		       describe_memory(ring_bytes[i], stream->page_bytes, text, sizeof(text)));
	}
	for (uint32_t i = 0; i < config->n_channels; i++) {
		const struct config_channel *channel = &config->channels[i];

		printf("channel '%s': up to %u senders, each an arena of %s\n", channel->name, channel->max_senders,
		       describe_memory(geometry_arena_bytes(channel), channel->page_bytes, text, sizeof(text)));
	}
}

/* Is another process of this program there? */
static bool is_a_daemon_alive(void)
{
	struct files_list processes;
	bool is_alive = false;
	char name[32];

	files_list(&processes, "/proc");
	while (files_next(&processes)) {
		files_read_line(name, sizeof(name), "%s/comm", processes.path);
		is_alive |=
			atoi(processes.name) > 0 && atoi(processes.name) != getpid() && strcmp(name, "ibvcapd") == 0;
	}
	return is_alive;
}

/*
 * A lack that a restart may end: a daemon that runs with this file gives its memory back. Nobody connects to its
 * socket here, because systemd would start the service.
 */
static void add_lack(const struct config *config, const struct failure *lack, struct failure *all)
{
	if (listener_may_be_taken(config->socket_path) && is_a_daemon_alive())
		log_warning("%s; ignore this if an ibvcapd that runs with this file has them", lack->text);
	else
		failure_add(all, lack);
}

static void try_hugepages(const struct config *config, const struct service_memory *memory, struct failure *all)
{
	const struct service_memory nothing = {0};
	struct failure lack;

	for (unsigned size = 0; size < MEMORY_HUGE_SIZES; size++) {
		int r = memory_check_hugepages(memory, &nothing, size, &lack);

		if (r == -EAGAIN)
			add_lack(config, &lack, all);
		else if (r < 0)
			failure_add(all, &lack);
	}
}

/* Memory in small pages, and the limit on locked memory: that of the service is its own, and root's are a start's. */
static void try_memory(const struct config *config, const struct service_memory *memory, struct failure *all)
{
	const struct service_memory nothing = {0};
	struct failure lack;

	if (memory_check_free(memory, &nothing, &lack) == 0)
		return;
	if (lack.exit_code == EX_TEMPFAIL)
		add_lack(config, &lack, all);
	else if (geteuid() == 0)
		failure_add(all, &lack);
}

/* ---- this machine -------------------------------------------------------------------------------- */

/* What the start does with an interface before it opens the device. */
static int try_interface(const struct config *config, const char *name, enum config_backend backend,
                         struct interface *interface, struct failure *failure)
{
	const struct interface_wishes wishes = {
		.leaves_packets = config_interface_leaves_packets(config, name),
		.wants_card_time = config_interface_wants_card_time(config, name),
	};
	int r;

	log_set_level(LOG_WARNING); /* without the reasons of each choice */
	r = interface_init(interface, name, backend, &wishes, failure);
	log_set_level(LOG_INFO);
	if (r == 0 && interface->ops->find)
		r = interface->ops->find(name, failure);
	if (r == 0 && geteuid() == 0) /* the service has its own rights */
		r = backend_check_privileges(interface->ops, name, failure);
	return r;
}

/* Returns the bytes of its rings. */
static uint64_t try_stream(const struct config *config, const struct config_stream *stream,
                           struct service_memory *memory, struct failure *all)
{
	uint64_t bytes;

	struct interface interface;
	struct failure failure, placed;

	if (try_interface(config, stream->interface, stream->backend, &interface, &failure) < 0) {
		failure_set(&placed, failure.exit_code, 0, "%s:%d: stream '%s': %s", stream->file, stream->line,
		            stream->name, failure.text);
		failure_add(all, &placed);
		return 0;
	}
	if (stream_check_mtu(stream, interface.net.mtu, &failure) < 0)
		failure_add(all, &failure);
	if (stream_check_clock_unopened(stream, &interface, &failure) < 0)
		failure_add(all, &failure);
	if (stream_check_offloads_unopened(stream, &interface, &failure) < 0)
		failure_add(all, &failure);
	for (uint32_t i = 0; i < stream->n_flows; i++)
		stream_check_destination(stream, &stream->flows[i]);
	bytes = geometry_ring_bytes(stream, !interface.ops->pins_memory);
	memory_add_ring(memory, stream, bytes, interface.ops->pins_memory);
	if (interface.ops->kernel_bytes)
		memory->kernel_bytes += stream->queues *
		                        interface.ops->kernel_bytes(stream->receive_queue_slots,
		                                                    geometry_received_bytes(stream, interface.net.mtu));
	return bytes;
}

/* No error at the start, either: other destinations of the channel may be right. */
static void warn_of_own_address(const struct config_channel *channel, const struct config_destination *to)
{
	static const struct next_hop next_hop = {.state = NEXT_HOP_NOT_A_HOST};
	struct net_address_location place;
	char why[128];

	if (!to->has_next_hop_mac && net_find_address(&to->address, channel->interface, &place) == 0 &&
	    (place.is_here || place.is_broadcast))
		log_warning("%s:%d: channel '%s': nothing can be sent to this destination: %s", to->file, to->line,
		            channel->name, next_hop_explain(&next_hop, channel->interface, why, sizeof(why)));
}

static void try_channel(const struct config *config, const struct config_channel *channel, struct failure *all)
{
	struct interface interface;
	struct failure failure, placed;

	if (try_interface(config, channel->interface, channel->backend, &interface, &failure) < 0) {
		failure_set(&placed, failure.exit_code, 0, "%s:%d: channel '%s': %s", channel->file, channel->line,
		            channel->name, failure.text);
		failure_add(all, &placed);
		return;
	}
	if (tx_headers_check(channel, &interface.net, &failure) < 0)
		failure_add(all, &failure);
	if (channel_check_unopened(channel, &interface, &failure) < 0)
		failure_add(all, &failure);
	for (uint32_t i = 0; i < channel->n_destinations; i++)
		warn_of_own_address(channel, &channel->destinations[i]);
}

/* systemd makes the directory of the service. */
static void try_socket(const char *path, const char *user, struct failure *all)
{
	const char *owner = geteuid() == 0 ? user : NULL;
	bool is_of_service = strncmp(path, SERVICE_DIRECTORY "/", sizeof(SERVICE_DIRECTORY)) == 0;
	struct failure found;
	int r;

	if (socket_location_is_temporary(path))
		log_warning("control socket '%s': a daemon that is started by hand can have it there; ibvcapd.service "
		            "has a directory of its own there (PrivateTmp=), so no client would find the socket of "
		            "the service: set a path below " SERVICE_DIRECTORY " for it",
		            path);
	r = listener_check_path(path, owner, &found);
	if (r == -ENOENT && is_of_service && sd_booted() > 0)
		return;
	if (r < 0)
		failure_add(all, &found);
}

/* ---- the daemon's user --------------------------------------------------------------------------- */

/* What that user may not do. The failure is in memory that the child process shares. */
struct trial {
	const struct config *config;
	const char *user;
	struct failure *failure;
};

static void try_reading(const struct trial *trial)
{
	struct config *config = NULL;
	struct failure failure;
	struct stat status;

	if (stat(trial->config->file, &status) == 0 && !S_ISREG(status.st_mode)) /* a pipe has been read */
		return;
	log_set_level(LOG_ERR); /* the first reading gave the file's warnings */
	if (config_load(trial->config->file, &config, &failure) < 0)
		failure_set(trial->failure, failure.exit_code, 0,
		            "user %s, as which the service runs, cannot read what you can: %s", trial->user,
		            failure.text);
	config_free(config);
}

/* If a process listens, it is a daemon that made the socket, or systemd, which made it for the service. */
static void try_making_socket(const struct trial *trial)
{
	const char *path = trial->config->socket_path;
	char directory[PATH_MAX];

	if (trial->failure->text[0] || listener_may_be_taken(path))
		return;
	snprintf(directory, sizeof(directory), "%s", path);
	dirname(directory);
	if (access(directory, W_OK | X_OK) == 0 || errno == ENOENT)
		return;
	failure_set(
		trial->failure, EX_NOPERM, 0,
		"control socket '%s': user %s cannot write to %s: %s: set a path in a directory of that user's own: "
		"install -d -o %s /run/ibvcapd",
		path, trial->user, directory, strerror(errno), trial->user);
}

/* As that user. */
static void try_as_user(void *context)
{
	try_reading(context);
	try_making_socket(context);
}

/* root can read every file. The service cannot, nor can a daemon that root starts once it has become its user. */
static void try_user(const struct config *config, const char *name, struct failure *all)
{
	struct trial trial = {config, name, NULL};
	struct failure failure;
	struct priv_user user;
	int r;

	if (geteuid() != 0)
		return;
	if (priv_find_user(&user, name, &failure) < 0)
		failure_add(all, &failure);
	else if (user.uid != 0) {
		trial.failure = mmap(NULL, sizeof(failure), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		r = trial.failure == MAP_FAILED ? -errno : priv_call_as(&user, try_as_user, &trial);
		if (r < 0)
			failure_set(&failure, EX_NOPERM, 0, "cannot switch to user '%s': %s", name, strerror(-r));
		if (r < 0 || trial.failure->text[0])
			failure_add(all, r < 0 ? &failure : trial.failure);
		if (trial.failure != MAP_FAILED)
			munmap(trial.failure, sizeof(failure));
	}
}

int dry_run(const struct config *config, const char *user, struct failure *failure)
{
	uint64_t *ring_bytes = calloc(config->n_streams + 1, sizeof(*ring_bytes));
	struct service_memory memory = {0};
	struct failure found;

	if (!ring_bytes)
		return failure_no_memory(failure);
	preflight_check_cpus(config, NULL, failure);
	if (memory_check_rings(config, &found) < 0)
		failure_add(failure, &found);
	if (preflight_test_seals(config, &found) < 0)
		failure_add(failure, &found);
	for (uint32_t i = 0; i < config->n_streams; i++)
		ring_bytes[i] = try_stream(config, &config->streams[i], &memory, failure);
	for (uint32_t i = 0; i < config->n_channels; i++)
		try_channel(config, &config->channels[i], failure);
	try_socket(config->socket_path, user, failure);
	try_user(config, user, failure);
	if (!failure->text[0]) {
		try_memory(config, &memory, failure);
		try_hugepages(config, &memory, failure);
	}
	if (!failure->text[0]) {
		print_memory(config, ring_bytes);
		printf("%s: ok\n", config->file);
	}
	free(ring_bytes);
	return failure->text[0] ? -EINVAL : 0;
}
