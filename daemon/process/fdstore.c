// SPDX-License-Identifier: Apache-2.0
/* Takes descriptors from the service manager at the start, and gives it those that the next run will need. */
#include "daemon/process/fdstore.h"

#include "daemon/base/log.h"
#include "daemon/process/manager.h"

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

/* Its path must still exist: the runtime directory may have been emptied between two runs. */
static bool fdstore_is_listener_at(int fd, const char *path)
{
	struct stat status;

	return sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, path, 0) > 0 && lstat(path, &status) == 0 &&
	       S_ISSOCK(status.st_mode);
}

static bool fdstore_starts_with(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool fdstore_is_same_socket(int fd, int other)
{
	struct stat status, others;

	return fstat(fd, &status) == 0 && fstat(other, &others) == 0 && status.st_ino == others.st_ino;
}

static int fdstore_failure(int error, struct failure *failure)
{
	return failure_set(failure, EX_OSERR, -error,
	                   "the descriptors that the service manager passed cannot be taken: %s", strerror(-error));
}

/*
 * Clients would wait at one path for ever, and the daemon at the other. A path that this daemon had before is no
 * failure.
 */
static int fdstore_check_socket_unit(int fd, const char *name, const char *socket_path, struct failure *failure)
{
	struct sockaddr_un address = {.sun_family = AF_UNSPEC};
	socklen_t bytes = sizeof(address) - 1; /* so that the path ends with a 0 */

	if (strcmp(name, CONTROL_NAME) == 0 || getsockname(fd, (struct sockaddr *)&address, &bytes) < 0 ||
	    address.sun_family != AF_UNIX || strcmp(address.sun_path, socket_path) == 0)
		return 0;
	return failure_set(
		failure, EX_CONFIG, EADDRNOTAVAIL,
		"%s listens at '%s', but control: socket is '%s': make that '%s' in the configuration, or "
		"ListenSequentialPacket=%s in the unit (systemctl edit %s), or do without it: systemctl disable --now "
		"%s",
		name, address.sun_path, socket_path, address.sun_path, socket_path, name, name);
}

/* A socket unit passes a listener at a first start, too. Only our own names say that there was a run before. */
static int fdstore_take_one(struct fdstore *store, int fd, const char *name, const char *socket_path,
                            struct failure *failure)
{
	bool is_control = strcmp(name, CONTROL_NAME) == 0, is_groups = fdstore_starts_with(name, GROUPS_PREFIX);
	int r;

	store->restarted |= is_control || is_groups;
	if (store->listener < 0 && fdstore_is_listener_at(fd, socket_path)) {
		store->listener = fd;
		return 0;
	}
	if (is_groups) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): no call after a failed calloc() */
		store->names[store->n_fds] = strdup(name);
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
		store->fds[store->n_fds++] = fd;
		return store->names[store->n_fds - 1] ? 0 : fdstore_failure(-ENOMEM, failure);
	}
	/* The listener may have come from a socket unit, and from the store a second time. */
	r = fdstore_check_socket_unit(fd, name, socket_path, failure);
	if (r == 0 && (!is_control || store->listener < 0 || !fdstore_is_same_socket(fd, store->listener))) {
		log_warning("the service manager passed a descriptor named '%s' that is not used: it is no socket "
		            "listening at '%s'",
		            name, socket_path);
		if (store->keeps) /* an older version may have left it there */
			manager_drop_fds(store->manager, name);
	}
	close(fd);
	return r;
}

int fdstore_take(struct fdstore *store, struct manager *manager, const char *socket_path, struct failure *failure)
{
	const char *room = getenv("FDSTORE");
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names);
	int r = 0;

	*store = (struct fdstore)FDSTORE_INIT;
	store->manager = manager;
	store->keeps = room && atoi(room) > 0 && manager;
	if (getrandom(&store->generation, sizeof(store->generation), 0) < 0)
		return fdstore_failure(-errno, failure);
	if (n <= 0)
		return n < 0 ? fdstore_failure(n, failure) : 0;
	store->fds = calloc((size_t)n, sizeof(*store->fds));
	store->names = calloc((size_t)n, sizeof(*store->names));
	if (!store->fds || !store->names)
		r = fdstore_failure(-ENOMEM, failure);
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = fdstore_take_one(store, SD_LISTEN_FDS_START + i, names[i], socket_path, failure);
		else
			close(SD_LISTEN_FDS_START + i);
		free(names[i]);
	}
	free(names);
	return r;
}

/* ---- keeping ------------------------------------------------------------------------------------- */

void fdstore_keep_listener(const struct fdstore *store, int fd)
{
	if (store->keeps)
		manager_keep_fd(store->manager, CONTROL_NAME, fd);
}

static uint64_t fdstore_next_generation(struct fdstore *store)
{
	return ++store->generation ? store->generation : ++store->generation;
}

static void fdstore_name_groups(char name[NAME_BYTES], uint64_t generation, const char *stream)
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
			generation = fdstore_next_generation(store);
		fdstore_name_groups(name, generation, stream);
		r = manager_keep_fd(store->manager, name, fd);
	}
	if (r >= 0)
		*kept_as = generation;
	else
		before = generation; /* drop the new ones that the manager took; the old ones stay */
	if (before) {
		fdstore_name_groups(name, before, stream);
		manager_drop_fds(store->manager, name);
	}
	return r < 0 ? r : 0;
}

void fdstore_close_last_run(struct fdstore *store, bool has_all)
{
	for (uint32_t i = 0; i < store->n_fds; i++) {
		if (store->keeps && has_all)
			manager_drop_fds(store->manager, store->names[i]);
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
