// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the port of the RDMA device behind a network interface. Device names say nothing (mlx5_0, rocep1s0f0, or a name
 * that an administrator chose), so the answer comes from sysfs, and with RoCE on from the GID table, in this order:
 *  1. class/net/IF/device/infiniband/ holds the device, and dev_port counts its ports from 0. Representors share both
 *     with their uplink, so a GID table that names only other netdevs overrules this. In switchdev mode mlx5 has no
 *     GIDs, and the uplink is the last port (mlx5_core: mlx5_esw_vports_init); the counters show the mode.
 *  2. ports/P/gid_attrs/ndevs/ names the netdev of every GID; this also finds bonds.
 */
#include "daemon/backend/verbs/verbs.h"
#include "daemon/net/stacking.h"
#include "lib/base/files.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 64

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

enum netdev_answer { NETDEV_UNKNOWN, NETDEV_OTHERS, NETDEV_THIS };

/* Does the GID table of a port name this interface? If first is not NULL, it becomes the first netdev named. */
static enum netdev_answer port_netdev(const struct verbs_sysfs *sysfs, const char *device, int port,
                                      const char *interface, char *first)
{
	enum netdev_answer answer = NETDEV_UNKNOWN;
	struct files_list gids;
	char name[TEXT_MAX];

	files_list(&gids, "%s/ports/%d/gid_attrs/ndevs", device, port);
	while (files_next(&gids)) {
		/* An unused GID cannot be read. */
		if (answer == NETDEV_THIS || !files_read_line(name, sizeof(name), "%s", gids.path))
			continue;
		if (answer == NETDEV_UNKNOWN && first)
			strcpy(first, name);
		if (strcmp(name, interface) == 0)
			answer = NETDEV_THIS;
		else if (!net_is_stacked_on(sysfs->root, name, interface)) /* a VLAN or bond has GIDs of its own here */
			answer = NETDEV_OTHERS;
	}
	return answer;
}

static int last_port(const char *device)
{
	struct files_list ports;
	int last = 0;

	files_list(&ports, "%s/ports", device);
	while (files_next(&ports))
		last = atoi(ports.name);
	return last;
}

/* mlx5 in switchdev mode has counters of the device (statistics.c); in legacy mode it has those of ports. */
static bool is_in_switchdev_mode(const char *device)
{
	return files_exist("%s/hw_counters/out_of_buffer", device);
}

/* "pf0vf1" is a representor's name, "p0" an uplink's; other drivers have none. */
static bool is_representor(const struct verbs_sysfs *sysfs, const char *interface)
{
	char text[TEXT_MAX];

	return files_read_line(text, sizeof(text), "%s/class/net/%s/phys_port_name", sysfs->root, interface) &&
	       !(text[0] == 'p' && isdigit((unsigned char)text[1]));
}

/* class/net/IF/device/infiniband/ and dev_port. */
static bool match_parent_device(const struct verbs_sysfs *sysfs, const char *interface, struct verbs_match *match)
{
	char text[TEXT_MAX];
	int port = 1;

	if (files_read_line(text, sizeof(text), "%s/class/net/%s/dev_port", sysfs->root, interface))
		port = atoi(text) + 1;
	for (int i = 0; i < sysfs->n_devices; i++) {
		const char *device = sysfs->devices[i];

		if (!files_exist("%s/class/net/%s/device/infiniband/%s", sysfs->root, interface, base_name(device)) ||
		    !files_exist("%s/ports/%d", device, port))
			continue;
		enum netdev_answer answer = port_netdev(sysfs, device, port, interface, NULL);
		bool is_switchdev = answer == NETDEV_UNKNOWN && is_in_switchdev_mode(device);

		if (answer == NETDEV_OTHERS || (is_switchdev && is_representor(sysfs, interface)))
			continue;
		*match = (struct verbs_match){.device = i, .port = (uint8_t)(is_switchdev ? last_port(device) : port)};
		return true;
	}
	return false;
}

static bool match_gid_netdev(const struct verbs_sysfs *sysfs, const char *interface, struct verbs_match *match)
{
	struct files_list ports;
	bool found = false;

	for (int i = 0; i < sysfs->n_devices; i++) {
		files_list(&ports, "%s/ports", sysfs->devices[i]);
		while (files_next(&ports)) {
			int port = atoi(ports.name);

			if (found || port_netdev(sysfs, sysfs->devices[i], port, interface, NULL) != NETDEV_THIS)
				continue;
			*match = (struct verbs_match){.device = i, .port = (uint8_t)port};
			found = true;
		}
	}
	return found;
}

int verbs_match(const struct verbs_sysfs *sysfs, const char *interface, struct verbs_match *match)
{
	return match_parent_device(sysfs, interface, match) || match_gid_netdev(sysfs, interface, match) ? 0 : -ENODEV;
}

/* The netdev that shares the parent device; it can be found with RoCE off too. No effect if there is none. */
static void parent_netdev(const char *device, int port, char name[TEXT_MAX])
{
	struct files_list netdevs;
	char text[TEXT_MAX];

	files_list(&netdevs, "%s/device/net", device);
	while (files_next(&netdevs)) {
		int dev_port = files_read_line(text, sizeof(text), "%s/dev_port", netdevs.path) ? atoi(text) : 0;

		if (dev_port + 1 == port)
			files_copy_name(name, TEXT_MAX, netdevs.name);
	}
}

const char *verbs_describe_devices(const struct verbs_sysfs *sysfs, char *buffer, size_t bytes)
{
	struct files_list ports;
	size_t used = 0;

	buffer[0] = '\0';
	for (int i = 0; i < sysfs->n_devices; i++) {
		const char *device = sysfs->devices[i];

		files_list(&ports, "%s/ports", device);
		while (files_next(&ports)) {
			char netdev[TEXT_MAX] = "no netdev";

			if (port_netdev(sysfs, device, atoi(ports.name), "", netdev) == NETDEV_UNKNOWN)
				parent_netdev(device, atoi(ports.name), netdev);
			if (used < bytes)
				used += (size_t)snprintf(buffer + used, bytes - used, "%s%s port %s (%s)",
				                         used ? ", " : "", base_name(device), ports.name, netdev);
		}
	}
	return buffer;
}

/* ---- stacked interfaces ------------------------------------------------------------------------- */

int verbs_check_stacking(const struct verbs_sysfs *sysfs, const char *interface, struct failure *failure)
{
	struct net_stacking stacking;
	const char *kind = stacking.kind;

	net_stacking_read(sysfs->root, interface, &stacking);
	if (stacking.n_lower == 0)
		return 0;
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
	if (net_stacking_is_lag(&stacking))
		return VERBS_STACKING_LAG;
	return failure_set(failure, EX_UNAVAILABLE, EINVAL,
	                   "interface %s is a bond of %s without a device for all of them (%u of %u have an RDMA "
	                   "device): a queue receives what comes in at one port: configure a stream for each port, "
	                   "with its interface",
	                   interface, stacking.names, stacking.n_with_device, stacking.n_lower);
}
