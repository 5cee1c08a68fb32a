// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the port of the RDMA device behind a network interface. Device names say nothing (mlx5_0, rocep1s0f0, or a name
 * that an administrator chose), so the answer comes from sysfs, and with RoCE on from the GID table, in this order:
 *  1. class/net/IF/device/infiniband/ holds the device, and dev_port counts its ports from 0. Representors share both
 *     with their uplink, so a GID table that names only other netdevs overrules this. In switchdev mode mlx5 has no
 *     GIDs, and the uplink is the last port (mlx5_core: mlx5_esw_vports_init); the counters show the mode.
 *  2. ports/P/gid_attrs/ndevs/ names the netdev of every GID; this also finds bonds.
 *  3. ports/P/gids/0 is the link-local address made from the MAC.
 */
#include "daemon/backend/verbs/verbs.h"
#include "daemon/net/stacking.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORTS_MAX 254
#define TEXT_MAX  64

static bool verbs_read_sysfs(char text[TEXT_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first line of a sysfs file. False: there is no such file, it is empty, or it is an unused GID (EINVAL). */
static bool verbs_read_sysfs(char text[TEXT_MAX], const char *format, ...)
{
	char path[PATH_MAX];
	va_list arguments;
	bool read;
	FILE *file;

	va_start(arguments, format);
	int length = vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	if (length >= (int)sizeof(path))
		return false;
	file = fopen(path, "re");
	if (!file)
		return false;
	read = fgets(text, TEXT_MAX, file) != NULL;
	fclose(file);
	if (read)
		text[strcspn(text, "\n")] = '\0';
	return read && text[0] != '\0';
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The smallest number above `after` among the entries, or -1. sysfs lists entries in any order. */
static int next_number(const char *directory, int after)
{
	struct dirent *entry;
	int next = -1;
	DIR *entries = opendir(directory);

	if (!entries)
		return -1;
	while ((entry = readdir(entries))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		int number = atoi(entry->d_name);
		if (number > after && (next < 0 || number < next))
			next = number;
	}
	closedir(entries);
	return next;
}

static int next_port(const char *device, int after)
{
	char path[PATH_MAX];
	int port;

	if (snprintf(path, sizeof(path), "%s/ports", device) >= (int)sizeof(path))
		return -1;
	port = next_number(path, after);
	return port <= PORTS_MAX ? port : -1;
}

static bool has_port(const char *device, int port)
{
	return next_port(device, port - 1) == port;
}

enum netdev_answer { NETDEV_UNKNOWN, NETDEV_OTHERS, NETDEV_THIS };

/* Does the GID table of a port name this interface? If first is not NULL, it becomes the first netdev named. */
static enum netdev_answer port_netdev(const struct verbs_sysfs *sysfs, const char *device, int port,
                                      const char *interface, char *first)
{
	enum netdev_answer answer = NETDEV_UNKNOWN;
	char path[PATH_MAX], name[TEXT_MAX];
	struct dirent *entry;
	DIR *entries = NULL;

	if (snprintf(path, sizeof(path), "%s/ports/%d/gid_attrs/ndevs", device, port) < (int)sizeof(path))
		entries = opendir(path);
	if (!entries)
		return NETDEV_UNKNOWN;
	while (answer != NETDEV_THIS && (entry = readdir(entries))) {
		if (!isdigit((unsigned char)entry->d_name[0]) || !verbs_read_sysfs(name, "%s/%s", path, entry->d_name))
			continue;
		if (answer == NETDEV_UNKNOWN && first)
			strcpy(first, name);
		if (strcmp(name, interface) == 0)
			answer = NETDEV_THIS;
		else if (!net_is_stacked_on(sysfs->root, name, interface)) /* a VLAN or bond has GIDs of its own here */
			answer = NETDEV_OTHERS;
	}
	closedir(entries);
	return answer;
}

static int last_port(const char *device)
{
	int last = -1;

	for (int port = next_port(device, 0); port > 0; port = next_port(device, port))
		last = port;
	return last;
}

/* mlx5 in switchdev mode has counters of the device (statistics.c); in legacy mode it has those of ports. */
static bool is_in_switchdev_mode(const char *device)
{
	char text[TEXT_MAX];

	return verbs_read_sysfs(text, "%s/hw_counters/out_of_buffer", device);
}

/* "pf0vf1" is a representor's name, "p0" an uplink's; other drivers have none. */
static bool is_representor(const struct verbs_sysfs *sysfs, const char *interface)
{
	char text[TEXT_MAX];

	return verbs_read_sysfs(text, "%s/class/net/%s/phys_port_name", sysfs->root, interface) &&
	       !(text[0] == 'p' && isdigit((unsigned char)text[1]));
}

/* class/net/IF/device/infiniband/ and dev_port. */
static bool match_parent_device(const struct verbs_sysfs *sysfs, const char *interface, struct verbs_match *match)
{
	char path[PATH_MAX], text[TEXT_MAX];
	int port = 1;

	if (verbs_read_sysfs(text, "%s/class/net/%s/dev_port", sysfs->root, interface))
		port = atoi(text) + 1;
	for (int i = 0; i < sysfs->n_devices; i++) {
		const char *device = sysfs->devices[i];
		int length = snprintf(path, sizeof(path), "%s/class/net/%s/device/infiniband/%s", sysfs->root,
		                      interface, base_name(device));

		if (length >= (int)sizeof(path) || access(path, F_OK) != 0 || !has_port(device, port))
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
	for (int i = 0; i < sysfs->n_devices; i++) {
		const char *device = sysfs->devices[i];

		for (int port = next_port(device, 0); port > 0; port = next_port(device, port)) {
			if (port_netdev(sysfs, device, port, interface, NULL) == NETDEV_THIS) {
				*match = (struct verbs_match){.device = i, .port = (uint8_t)port};
				return true;
			}
		}
	}
	return false;
}

/* fe80:: and the modified EUI-64 (RFC 4291, appendix A), in the format of the gids files. */
static bool link_local_gid(const struct verbs_sysfs *sysfs, const char *interface, char gid[TEXT_MAX])
{
	char text[TEXT_MAX];
	unsigned mac[6];

	if (!verbs_read_sysfs(text, "%s/class/net/%s/address", sysfs->root, interface) ||
	    sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]) != 6)
		return false;
	snprintf(gid, TEXT_MAX, "fe80:0000:0000:0000:%02x%02x:%02xff:fe%02x:%02x%02x", mac[0] ^ 2u, mac[1], mac[2],
	         mac[3], mac[4], mac[5]);
	return true;
}

static bool match_gid_address(const struct verbs_sysfs *sysfs, const char *interface, struct verbs_match *match)
{
	char wanted[TEXT_MAX], gid[TEXT_MAX];

	if (!link_local_gid(sysfs, interface, wanted))
		return false;
	for (int i = 0; i < sysfs->n_devices; i++) {
		const char *device = sysfs->devices[i];

		for (int port = next_port(device, 0); port > 0; port = next_port(device, port)) {
			if (!verbs_read_sysfs(gid, "%s/ports/%d/gids/0", device, port) || strcasecmp(gid, wanted) != 0)
				continue;
			*match = (struct verbs_match){.device = i, .port = (uint8_t)port};
			return true;
		}
	}
	return false;
}

int verbs_match(const struct verbs_sysfs *sysfs, const char *interface, struct verbs_match *match)
{
	if (match_parent_device(sysfs, interface, match) || match_gid_netdev(sysfs, interface, match) ||
	    match_gid_address(sysfs, interface, match))
		return 0;
	return -ENODEV;
}

/* The netdev that shares the parent device; it can be found with RoCE off too. */
static bool parent_netdev(const char *device, int port, char name[TEXT_MAX])
{
	char path[PATH_MAX], text[TEXT_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *entries = NULL;

	if (snprintf(path, sizeof(path), "%s/device/net", device) < (int)sizeof(path))
		entries = opendir(path);
	if (!entries)
		return false;
	while (!found && (entry = readdir(entries))) {
		if (entry->d_name[0] == '.' || strlen(entry->d_name) >= TEXT_MAX)
			continue;
		int dev_port = verbs_read_sysfs(text, "%s/%s/dev_port", path, entry->d_name) ? atoi(text) : 0;
		found = dev_port + 1 == port;
		if (found)
			strcpy(name, entry->d_name);
	}
	closedir(entries);
	return found;
}

const char *verbs_describe_devices(const struct verbs_sysfs *sysfs, char *buffer, size_t bytes)
{
	size_t used = 0;

	buffer[0] = '\0';
	for (int i = 0; i < sysfs->n_devices; i++) {
		const char *device = sysfs->devices[i];

		for (int port = next_port(device, 0); port > 0 && used < bytes; port = next_port(device, port)) {
			char netdev[TEXT_MAX] = "no netdev";

			if (port_netdev(sysfs, device, port, "", netdev) == NETDEV_UNKNOWN)
				parent_netdev(device, port, netdev);
			used += (size_t)snprintf(buffer + used, bytes - used, "%s%s port %d (%s)", used ? ", " : "",
			                         base_name(device), port, netdev);
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
