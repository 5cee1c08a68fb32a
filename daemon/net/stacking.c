// SPDX-License-Identifier: Apache-2.0
/* Reads from sysfs which interfaces an interface is stacked on. */
#include "daemon/net/stacking.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX 8

static DIR *stacking_open(const char *sysfs, const char *interface)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/class/net/%s", sysfs, interface);

	return length < (int)sizeof(path) ? opendir(path) : NULL;
}

/* The next lower interface; NULL: there are no more. */
static const char *stacking_next(DIR *entries)
{
	static const char prefix[] = "lower_";
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (strncmp(entry->d_name, prefix, sizeof(prefix) - 1) == 0)
			return entry->d_name + sizeof(prefix) - 1;
	return NULL;
}

static bool stacking_stands_on(const char *sysfs, const char *upper, const char *interface, unsigned depth)
{
	DIR *entries = stacking_open(sysfs, upper);
	bool found = false;
	const char *lower;

	while (!found && (lower = stacking_next(entries)))
		found = strcmp(lower, interface) == 0 ||
		        (depth < DEPTH_MAX && stacking_stands_on(sysfs, lower, interface, depth + 1));
	if (entries)
		closedir(entries);
	return found;
}

bool net_is_stacked_on(const char *sysfs, const char *upper, const char *interface)
{
	return stacking_stands_on(sysfs, upper, interface, 0);
}

/* Is the interface one of a ConnectX, whichever function it is and wherever that is on the PCI bus? */
static bool stacking_is_mlx5(const char *sysfs, const char *interface)
{
	static const char driver[] = "/mlx5_core";
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t length, suffix = sizeof(driver) - 1;

	snprintf(path, sizeof(path), "%s/class/net/%s/device/driver", sysfs, interface);
	length = readlink(path, target, sizeof(target));
	return length >= suffix && memcmp(target + length - suffix, driver, (size_t)suffix) == 0;
}

static void stacking_add(const char *sysfs, const char *lower, struct net_stacking *stacking)
{
	size_t used = strlen(stacking->names);
	char path[PATH_MAX];

	stacking->n_lower++;
	snprintf(stacking->names + used, sizeof(stacking->names) - used, "%s%s", used ? ", " : "", lower);
	snprintf(path, sizeof(path), "%s/class/net/%s/device/infiniband", sysfs, lower);
	if (access(path, F_OK) == 0)
		stacking->n_with_device++;
	else
		stacking->n_foreign += !stacking_is_mlx5(sysfs, lower);
}

/* "vlan", "bond", "bridge", "macvlan"; "": the kernel does not say. */
static void stacking_read_kind(const char *sysfs, const char *interface, char kind[NET_KIND_BYTES])
{
	char path[PATH_MAX], line[64];
	FILE *file;

	kind[0] = '\0';
	snprintf(path, sizeof(path), "%s/class/net/%s/uevent", sysfs, interface);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file) && sscanf(line, "DEVTYPE=%15s", kind) != 1)
		;
	fclose(file);
}

void net_stacking_read(const char *sysfs, const char *interface, struct net_stacking *stacking)
{
	DIR *entries = stacking_open(sysfs, interface);
	const char *lower;

	*stacking = (struct net_stacking){0};
	while ((lower = stacking_next(entries)))
		stacking_add(sysfs, lower, stacking);
	if (entries)
		closedir(entries);
	stacking_read_kind(sysfs, interface, stacking->kind);
}

bool net_stacking_is_lag(const struct net_stacking *stacking)
{
	return strcmp(stacking->kind, "bond") == 0 && stacking->n_with_device == 1 && stacking->n_foreign == 0;
}
