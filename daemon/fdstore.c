// SPDX-License-Identifier: Apache-2.0
#include "daemon/fdstore.h"

#include "daemon/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

	return sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, path, 0) > 0 && lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

static int take_one(struct fdstore *store, int fd, const char *name, const char *socket_path)
{
	if (store->listener < 0 && is_listener_at(fd, socket_path)) {
		store->listener = fd;
		return 0;
	}
	if (strncmp(name, GROUPS_PREFIX, strlen(GROUPS_PREFIX)) == 0) {
		store->names[store->n_fds] = strdup(name);
		store->fds[store->n_fds++] = fd;
		return store->names[store->n_fds - 1] ? 0 : -ENOMEM;
	}
	log_warning("the service manager passed a descriptor named '%s' that is not used: it is no socket listening at '%s'",
		    name, socket_path);
	if (store->keeps && strcmp(name, CONTROL_NAME) == 0)
		sd_notify(0, "FDSTOREREMOVE=1\nFDNAME=" CONTROL_NAME);
	close(fd);
	return 0;
}

int fdstore_take(struct fdstore *store, const char *socket_path)
{
	const char *room = getenv("FDSTORE");
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names);
	int r = 0;

	*store = (struct fdstore)FDSTORE_INIT;
	store->keeps = room && atoi(room) > 0 && getenv("NOTIFY_SOCKET");
	if (n <= 0)
		return n;
	store->fds = calloc((size_t)n, sizeof(*store->fds));
	store->names = calloc((size_t)n, sizeof(*store->names));
	if (!store->fds || !store->names)
		r = -ENOMEM;
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = take_one(store, SD_LISTEN_FDS_START + i, names[i], socket_path);
		else
			close(SD_LISTEN_FDS_START + i);
		free(names[i]);
	}
	free(names);
	store->restarted = store->n_fds > 0 || store->listener >= 0;
	return r;
}

/* ---- keeping ------------------------------------------------------------------------------------- */

/* FDPOLL=0: kept also while it has something to say. */
static void keep(const char *name, int fd)
{
	char message[NAME_BYTES + 64];
	int r;

	snprintf(message, sizeof(message), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	r = sd_pid_notify_with_fds(0, 0, message, &fd, 1);
	if (r < 0)
		log_warning("the service manager does not keep '%s' for the next run: %s", name, strerror(-r));
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

static void name_groups(char name[NAME_BYTES], uint64_t epoch, const char *stream)
{
	snprintf(name, NAME_BYTES, GROUPS_PREFIX "%016" PRIx64 "-%s", epoch, stream);
}

void fdstore_drop_groups(const struct fdstore *store, uint64_t epoch, const char *stream)
{
	char name[NAME_BYTES];

	name_groups(name, epoch, stream);
	if (store->keeps)
		drop(name);
}

void fdstore_keep_groups(const struct fdstore *store, uint64_t epoch, const char *stream,
			 const struct membership *membership)
{
	char name[NAME_BYTES];
	int fd;

	name_groups(name, epoch, stream);
	for (uint32_t i = 0; store->keeps && membership && (fd = membership_fd(membership, i)) >= 0; i++)
		keep(name, fd);
}

void fdstore_settle(struct fdstore *store)
{
	for (uint32_t i = 0; i < store->n_fds; i++) {
		if (store->keeps)
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
