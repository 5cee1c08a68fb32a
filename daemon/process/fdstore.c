// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/fdstore.h"

#include "daemon/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define CONTROL_NAME  "control"
#define GROUPS_PREFIX "groups-"
#define NAME_BYTES    128

/* ---- taking -------------------------------------------------------------------------------------- */

/* And its path is still there: a runtime directory may have been wiped between two runs. */
static bool is_listener_at(int fd, const char *path)
{
	struct stat status;

	return sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, path, 0) > 0 && lstat(path, &status) == 0 &&
	       S_ISSOCK(status.st_mode);
}

static bool starts_with(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_same_socket(int fd, int other)
{
	struct stat status, others;

	return fstat(fd, &status) == 0 && fstat(other, &others) == 0 && status.st_ino == others.st_ino;
}

static int failure_passed(int error, struct failure *failure)
{
	return failure_set(failure, EX_OSERR, -error, "what the service manager passed cannot be taken: %s",
	                   strerror(-error));
}

static int note_for_settling(struct fdstore *store, int fd, const char *name, struct failure *failure)
{
	store->names[store->n_fds] = strdup(name);
	store->fds[store->n_fds++] = fd;
	return store->names[store->n_fds - 1] ? 0 : failure_passed(-ENOMEM, failure);
}

static bool is_ours(const char *name)
{
	return strcmp(name, CONTROL_NAME) == 0 || starts_with(name, GROUPS_PREFIX);
}

/* Clients would wait for ever at the one path, and the daemon at the other. Our own path of before is no such. */
static int check_socket_unit(int fd, const char *name, const char *socket_path, struct failure *failure)
{
	struct sockaddr_un address = {.sun_family = AF_UNSPEC};
	socklen_t bytes = sizeof(address) - 1; /* so that there is an end to the path */

	if (is_ours(name) || getsockname(fd, (struct sockaddr *)&address, &bytes) < 0 ||
	    address.sun_family != AF_UNIX || strcmp(address.sun_path, socket_path) == 0)
		return 0;
	return failure_set(
		failure, EX_CONFIG, EADDRNOTAVAIL,
		"%s listens at '%s', but control: socket is '%s': make that '%s' in the configuration, or "
		"ListenSequentialPacket=%s in the unit (systemctl edit %s), or do without it: systemctl disable --now "
		"%s",
		name, address.sun_path, socket_path, address.sun_path, socket_path, name, name);
}

/* A first start by a socket unit passes a listener, too: it is our own names that say that there was a run before. */
static int take_one(struct fdstore *store, int fd, const char *name, const char *socket_path, struct failure *failure)
{
	bool is_control = strcmp(name, CONTROL_NAME) == 0, is_groups = starts_with(name, GROUPS_PREFIX);
	int r;

	store->restarted |= is_control || is_groups;
	if (store->listener < 0 && is_listener_at(fd, socket_path)) {
		store->listener = fd;
		return 0;
	}
	if (is_groups)
		return note_for_settling(store, fd, name, failure);
	/* The one that is used came from a socket unit, and is kept in the store besides. */
	r = check_socket_unit(fd, name, socket_path, failure);
	if (r == 0 && (!is_control || store->listener < 0 || !is_same_socket(fd, store->listener))) {
		log_warning("the service manager passed a descriptor named '%s' that is not used: it is no socket "
		            "listening at '%s'",
		            name, socket_path);
		if (store->keeps && is_control)
			sd_notify(0, "FDSTOREREMOVE=1\nFDNAME=" CONTROL_NAME);
	}
	close(fd);
	return r;
}

int fdstore_take(struct fdstore *store, const char *socket_path, struct failure *failure)
{
	const char *room = getenv("FDSTORE");
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names);
	int r = 0;

	*store = (struct fdstore)FDSTORE_INIT;
	store->keeps = room && atoi(room) > 0 && getenv("NOTIFY_SOCKET");
	if (getrandom(&store->generation, sizeof(store->generation), 0) < 0)
		return failure_passed(-errno, failure);
	if (n <= 0)
		return n < 0 ? failure_passed(n, failure) : 0;
	store->fds = calloc((size_t)n, sizeof(*store->fds));
	store->names = calloc((size_t)n, sizeof(*store->names));
	if (!store->fds || !store->names)
		r = failure_passed(-ENOMEM, failure);
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = take_one(store, SD_LISTEN_FDS_START + i, names[i], socket_path, failure);
		else
			close(SD_LISTEN_FDS_START + i);
		free(names[i]);
	}
	free(names);
	return r;
}

/* ---- keeping ------------------------------------------------------------------------------------- */

/* FDPOLL=0: kept also while it has something to say. */
static int keep(const char *name, int fd)
{
	char message[NAME_BYTES + 64];
	int r;

	snprintf(message, sizeof(message), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	r = sd_pid_notify_with_fds(0, 0, message, &fd, 1);
	if (r < 0)
		log_warning("the service manager does not keep '%s' for the next run: %s", name, strerror(-r));
	return r;
}

static void drop(const char *name)
{
	sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

void fdstore_keep_listener(const struct fdstore *store, int fd)
{
	if (store->keeps)
		keep(CONTROL_NAME, fd);
}

static uint64_t next_generation(struct fdstore *store)
{
	return ++store->generation ? store->generation : ++store->generation;
}

static void name_groups(char name[NAME_BYTES], uint64_t generation, const char *stream)
{
	snprintf(name, NAME_BYTES, GROUPS_PREFIX "%016" PRIx64 "-%s", generation, stream);
}

int fdstore_keep_groups(struct fdstore *store, const char *stream, const struct membership *membership,
                        uint64_t *kept_as)
{
	uint64_t generation = 0, before = *kept_as;
	char name[NAME_BYTES];
	int fd, r = 0;

	if (!store->keeps)
		return 0;
	for (uint32_t i = 0; r >= 0 && membership && (fd = membership_fd(membership, i)) >= 0; i++) {
		if (i == 0)
			generation = next_generation(store);
		name_groups(name, generation, stream);
		r = keep(name, fd);
	}
	if (r >= 0)
		*kept_as = generation;
	else
		before = generation; /* what came of it; those of before stay */
	if (before) {
		name_groups(name, before, stream);
		drop(name);
	}
	return r < 0 ? r : 0;
}

void fdstore_settle(struct fdstore *store, bool has_all)
{
	for (uint32_t i = 0; i < store->n_fds; i++) {
		if (store->keeps && has_all)
			drop(store->names[i]);
		close(store->fds[i]);
		free(store->names[i]);
	}
	store->n_fds = 0;
}

void fdstore_deinit(struct fdstore *store)
{
	for (uint32_t i = 0; i < store->n_fds; i++) {
		close(store->fds[i]);
		free(store->names[i]);
	}
	if (store->listener >= 0)
		close(store->listener);
	free(store->fds);
	free(store->names);
	*store = (struct fdstore)FDSTORE_INIT;
}
