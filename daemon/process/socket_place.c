// SPDX-License-Identifier: Apache-2.0
/* Looks for the directories that systemd mounts over /tmp and /var/tmp of a service (systemd.exec(5), PrivateTmp=). */
#include "daemon/process/socket_place.h"

#include <linux/limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MADE_BY_SYSTEMD "/systemd-private-"

static const char *const temporary[] = {"/tmp/", "/var/tmp/"};

/* "/tmp/" or "/var/tmp/"; NULL: the path is in neither. */
static const char *socket_place_directory(const char *socket_path)
{
	for (size_t i = 0; i < sizeof(temporary) / sizeof(temporary[0]); i++)
		if (strncmp(socket_path, temporary[i], strlen(temporary[i])) == 0)
			return temporary[i];
	return NULL;
}

bool socket_place_is_temporary(const char *socket_path)
{
	return socket_place_directory(socket_path);
}

bool socket_place_is_private(const char *socket_path, const char *mountinfo)
{
	const char *directory = socket_place_directory(socket_path);
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
