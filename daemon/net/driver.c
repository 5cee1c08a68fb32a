// SPDX-License-Identifier: Apache-2.0
/* Asks for the name of an interface's driver, and for the place of its device (SIOCETHTOOL). */
#include "daemon/net/net.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int net_driver_read(const char *interface, struct net_driver *driver)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq request = {.ifr_data = (char *)&info};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r;

	*driver = (struct net_driver){.name = ""};
	if (fd < 0)
		return -errno;
	strncpy(request.ifr_name, interface, sizeof(request.ifr_name) - 1);
	r = ioctl(fd, SIOCETHTOOL, &request) < 0 ? -errno : 0;
	close(fd);
	if (r < 0)
		return r;
	snprintf(driver->name, sizeof(driver->name), "%s", info.driver);
	/* "0000:3b:00.0", "vmbus_1"; drivers without a device leave it empty, or say "tap" or "N/A". */
	driver->has_device = strpbrk(info.bus_info, "0123456789") != NULL;
	return 0;
}
