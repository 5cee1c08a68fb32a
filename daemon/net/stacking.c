// SPDX-License-Identifier: Apache-2.0
/* Reads from sysfs which interfaces an interface is stacked on. */
#include "daemon/net/stacking.h"

#include "lib/base/files.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 8

/* The next lower interface in the list of an interface's directory; NULL: there are no more, and the list is freed. */
static const char *stacking_next(struct files_list *entries)
{
	static const char prefix[] = "lower_";

	while (files_next(entries))
		if (strncmp(entries->name, prefix, sizeof(prefix) - 1) == 0)
			return entries->name + sizeof(prefix) - 1;
	return NULL;
}

static bool stacking_stands_on(const char *sysfs, const char *upper, const char *interface, unsigned depth)
{
	struct files_list entries;
	bool found = false;
	const char *lower;

	files_list(&entries, "%s/class/net/%s", sysfs, upper);
	while ((lower = stacking_next(&entries)))
		found = found || strcmp(lower, interface) == 0 ||
		        (depth < DEPTH_MAX && stacking_stands_on(sysfs, lower, interface, depth + 1));
	return found;
}

/* ---- all that are below ---------------------------------------------------------------------------- */

static void net_lowers_add(struct net_lowers *lowers, const char *name)
{
	unsigned n = lowers->n;

	for (unsigned i = 0; i < n && i < NET_LOWERS_MAX; i++)
		if (strcmp(lowers->names[i], name) == 0)
			return;
	if (n < NET_LOWERS_MAX)
		files_copy_name(lowers->names[n], IFNAMSIZ, name);
	lowers->n++;
}

static void net_lowers_add_below(const char *sysfs, const char *upper, struct net_lowers *lowers)
{
	struct files_list entries;
	const char *lower;

	files_list(&entries, "%s/class/net/%s", sysfs, upper);
	while ((lower = stacking_next(&entries)))
		net_lowers_add(lowers, lower);
}

void net_lowers_read(const char *sysfs, const char *interface, struct net_lowers *lowers)
{
	lowers->n = 0;
	net_lowers_add_below(sysfs, interface, lowers);
	for (unsigned i = 0; i < lowers->n && i < NET_LOWERS_MAX; i++)
		net_lowers_add_below(sysfs, lowers->names[i], lowers);
}

bool net_is_stacked_on(const char *sysfs, const char *upper, const char *interface)
{
	return stacking_stands_on(sysfs, upper, interface, 0);
}

/* Is the interface one of a ConnectX, whichever function it is and wherever that is on the PCI bus? */
static bool stacking_is_mlx5(const char *sysfs, const char *interface)
{
	char path[PATH_MAX], driver[32];

	files_join(path, "%s/class/net/%s/device/driver", sysfs, interface);
	files_read_link_name(path, driver, sizeof(driver));
	return strcmp(driver, "mlx5_core") == 0;
}

static void stacking_add(const char *sysfs, const char *lower, struct net_stacking *stacking)
{
	size_t used = strlen(stacking->names);

	stacking->n_lower++;
	snprintf(stacking->names + used, sizeof(stacking->names) - used, "%s%s", used ? ", " : "", lower);
	if (files_exist("%s/class/net/%s/device/infiniband", sysfs, lower))
		stacking->n_with_device++;
	else
		stacking->n_foreign += !stacking_is_mlx5(sysfs, lower);
}

void net_stacking_read(const char *sysfs, const char *interface, struct net_stacking *stacking)
{
	struct files_list entries;
	char path[PATH_MAX];
	const char *lower;

	*stacking = (struct net_stacking){0};
	files_list(&entries, "%s/class/net/%s", sysfs, interface);
	while ((lower = stacking_next(&entries)))
		stacking_add(sysfs, lower, stacking);
	files_join(path, "%s/class/net/%s/uevent", sysfs, interface);
	files_read_labelled(path, "DEVTYPE=", stacking->kind, sizeof(stacking->kind));
}

bool net_stacking_is_lag(const struct net_stacking *stacking)
{
	return strcmp(stacking->kind, "bond") == 0 && stacking->n_with_device == 1 && stacking->n_foreign == 0;
}
