// SPDX-License-Identifier: Apache-2.0
/* Makes the link by which 'systemctl reload' finds the control socket, wherever the configuration puts it. */
#include "daemon/process/socket_link.h"

#include "daemon/base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK_NAME "reload.sock" /* as in ExecReload= of systemd/ibvcapd.service */

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
