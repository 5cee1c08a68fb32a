// SPDX-License-Identifier: Apache-2.0
/*
 * Interfaces that are stacked on others: VLANs, bonds, bridges, macvlans. The GID table of a lower interface's device
 * names them too, but the device gives a raw queue the frames as they come in at its port: with the tag of the VLAN,
 * for the MAC of the lower interface, and of one port of a bond. So they are refused, and the text names the lower
 * interfaces. The exception is a bond of which mlx5 has made one device for all ports (RoCE LAG: mlx5_bond_0).
 */
#include "daemon/backend/verbs/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX 8

struct stacking {
	unsigned n_lower;
	unsigned n_with_device; /* of these: with an RDMA device of its own */
	unsigned n_foreign;     /* of the others: those that mlx5_core does not drive */
	char names[256];        /* "eth0, eth1" */
};

static DIR *open_netdev(const struct verbs_sysfs *sysfs, const char *interface)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/class/net/%s", sysfs->root, interface);

	return length < (int)sizeof(path) ? opendir(path) : NULL;
}

/* The next lower interface; NULL: there are no more. */
static const char *next_lower(DIR *entries)
{
	static const char prefix[] = "lower_";
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (strncmp(entry->d_name, prefix, sizeof(prefix) - 1) == 0)
			return entry->d_name + sizeof(prefix) - 1;
	return NULL;
}

static bool stands_on(const struct verbs_sysfs *sysfs, const char *upper, const char *interface, unsigned depth)
{
	DIR *entries = open_netdev(sysfs, upper);
	bool found = false;
	const char *lower;

	while (!found && (lower = next_lower(entries)))
		found = strcmp(lower, interface) == 0 ||
		        (depth < DEPTH_MAX && stands_on(sysfs, lower, interface, depth + 1));
	if (entries)
		closedir(entries);
	return found;
}

bool verbs_is_stacked_on(const struct verbs_sysfs *sysfs, const char *upper, const char *interface)
{
	return stands_on(sysfs, upper, interface, 0);
}

/* Is the interface one of a ConnectX, whichever function it is and wherever that is on the PCI bus? */
static bool is_mlx5(const struct verbs_sysfs *sysfs, const char *interface)
{
	static const char driver[] = "/mlx5_core";
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t length, suffix = sizeof(driver) - 1;

	snprintf(path, sizeof(path), "%s/class/net/%s/device/driver", sysfs->root, interface);
	length = readlink(path, target, sizeof(target));
	return length >= suffix && memcmp(target + length - suffix, driver, (size_t)suffix) == 0;
}

static void add_lower(const struct verbs_sysfs *sysfs, const char *lower, struct stacking *stacking)
{
	size_t used = strlen(stacking->names);
	char path[PATH_MAX];

	stacking->n_lower++;
	snprintf(stacking->names + used, sizeof(stacking->names) - used, "%s%s", used ? ", " : "", lower);
	snprintf(path, sizeof(path), "%s/class/net/%s/device/infiniband", sysfs->root, lower);
	if (access(path, F_OK) == 0)
		stacking->n_with_device++;
	else
		stacking->n_foreign += !is_mlx5(sysfs, lower);
}

static void read_stacking(const struct verbs_sysfs *sysfs, const char *interface, struct stacking *stacking)
{
	DIR *entries = open_netdev(sysfs, interface);
	const char *lower;

	*stacking = (struct stacking){0};
	while ((lower = next_lower(entries)))
		add_lower(sysfs, lower, stacking);
	if (entries)
		closedir(entries);
}

/* "vlan", "bond", "bridge", "macvlan"; "": the kernel does not say. */
static void read_kind(const struct verbs_sysfs *sysfs, const char *interface, char kind[16])
{
	char path[PATH_MAX], line[64];
	FILE *file;

	kind[0] = '\0';
	snprintf(path, sizeof(path), "%s/class/net/%s/uevent", sysfs->root, interface);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file) && sscanf(line, "DEVTYPE=%15s", kind) != 1)
		;
	fclose(file);
}

int verbs_check_stacking(const struct verbs_sysfs *sysfs, const char *interface, struct failure *failure)
{
	struct stacking stacking;
	char kind[16];

	read_stacking(sysfs, interface, &stacking);
	if (stacking.n_lower == 0)
		return 0;
	read_kind(sysfs, interface, kind);
	if (strcmp(kind, "vlan") == 0)
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "interface %s is a VLAN of %s: the device receives its frames with their tag: set "
		                   "interface = \"%s\", and vlan to the number of the VLAN in each flow",
		                   interface, stacking.names, stacking.names);
	if (strcmp(kind, "bond") != 0)
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "interface %s%s%s%s is stacked on %s: the device receives what comes in at a port: "
		                   "set interface to one of these",
		                   interface, *kind ? " (" : "", kind, *kind ? ")" : "", stacking.names);
	if (stacking.n_with_device == 1 && stacking.n_foreign == 0)
		return VERBS_STACKING_LAG;
	return failure_set(failure, EX_UNAVAILABLE, EINVAL,
	                   "interface %s is a bond of %s without a device for all of them (%u of %u have an RDMA "
	                   "device): a queue receives what comes in at one port: configure a stream for each port, "
	                   "with its interface",
	                   interface, stacking.names, stacking.n_with_device, stacking.n_lower);
}
