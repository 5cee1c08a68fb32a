// SPDX-License-Identifier: Apache-2.0
/* Finds the precision clock of an interface's card (SIOCETHTOOL). */
#include "daemon/net/net.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* -1: the driver does not say, or the card has none. */
static int precision_clock_ask_driver(const char *interface)
{
	struct ethtool_ts_info info = {.cmd = ETHTOOL_GET_TS_INFO, .phc_index = -1};
	struct ifreq request = {.ifr_data = (char *)&info};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return -1;
	strncpy(request.ifr_name, interface, sizeof(request.ifr_name) - 1);
	r = ioctl(fd, SIOCETHTOOL, &request);
	close(fd);
	return r < 0 ? -1 : info.phc_index;
}

static int precision_clock_find_in_sysfs(const char *interface)
{
	char directory[PATH_MAX];
	const struct dirent *entry;
	int index = -1;
	DIR *entries;

	snprintf(directory, sizeof(directory), "/sys/class/net/%s/device/ptp", interface);
	entries = opendir(directory);
	while (entries && index < 0 && (entry = readdir(entries)))
		if (sscanf(entry->d_name, "ptp%d", &index) != 1)
			index = -1;
	if (entries)
		closedir(entries);
	return index;
}

int net_precision_clock(const char *interface)
{
	int index = precision_clock_ask_driver(interface);

	if (index < 0)
		index = precision_clock_find_in_sysfs(interface);
	return index < 0 ? -ENOENT : index;
}
