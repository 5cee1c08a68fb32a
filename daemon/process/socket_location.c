// SPDX-License-Identifier: Apache-2.0
/*
 * Looks for the directories that systemd mounts over /tmp and /var/tmp of a service (systemd.exec(5), PrivateTmp=), and
 * makes the link by which 'systemctl reload' finds the control socket.
 */
#include "daemon/process/socket_location.h"

#include "daemon/base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MADE_BY_SYSTEMD "/systemd-private-"
#define LINK_NAME       "reload.sock" /* as in ExecReload= of systemd/ibvcapd.service */

static const char *const temporary[] = {"/tmp/", "/var/tmp/"};

/* "/tmp/" or "/var/tmp/"; NULL: the path is in neither. */
static const char *socket_location_directory(const char *socket_path)
{
	for (size_t i = 0; i < sizeof(temporary) / sizeof(temporary[0]); i++)
		if (strncmp(socket_path, temporary[i], strlen(temporary[i])) == 0)
			return temporary[i];
	return NULL;
}

bool socket_location_is_temporary(const char *socket_path)
{
	return socket_location_directory(socket_path);
}

bool socket_location_is_private(const char *socket_path, const char *mountinfo)
{
	const char *directory = socket_location_directory(socket_path);
	char line[2 * PATH_MAX], root[PATH_MAX], point[PATH_MAX];
	bool is_private = false;
	FILE *file = directory ? fopen(mountinfo, "re") : NULL;

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file) && !is_private)
		is_private = sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) == 2 &&
		             strncmp(directory, point, strlen(point)) == 0 && strlen(point) + 1 == strlen(directory) &&
		             strstr(root, MADE_BY_SYSTEMD);
	fclose(file);
	return is_private;
}

/* ---- the link ------------------------------------------------------------------------------------ */

/* The control socket itself could have that name, so only a link is removed. */
static int remove_old_link(const char *path)
{
	struct stat status;

	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISLNK(status.st_mode))
		return -EEXIST;
	return unlink(path) < 0 ? -errno : 0;
}

void socket_link_make(const char *socket_path)
{
	/* Directories are separated by colons, and a drop-in adds its own behind that of the unit. */
	const char *directories = getenv("RUNTIME_DIRECTORY");
	char path[PATH_MAX];
	int r;

	if (!directories || directories[0] != '/')
		return;
	r = snprintf(path, sizeof(path), "%.*s/" LINK_NAME, (int)strcspn(directories, ":"), directories);
	if (r >= (int)sizeof(path) || strcmp(path, socket_path) == 0)
		return;
	r = remove_old_link(path);
	if (r == 0 && symlink(socket_path, path) < 0)
		r = -errno;
	if (r < 0)
		log_warning("'systemctl reload' will not find the control socket: no link %s to it: %s", path,
		            strerror(-r));
}
