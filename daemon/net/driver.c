// SPDX-License-Identifier: Apache-2.0
/* Asks for the name of an interface's driver, and for the place of its device (SIOCETHTOOL). */
#include "daemon/net/ethtool.h"
#include "daemon/net/net.h"

#include <stdio.h>
#include <string.h>

int net_driver_read(const char *interface, struct net_driver *driver)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	int r = ethtool_ask(interface, &info);

	*driver = (struct net_driver){.name = ""};
	if (r < 0)
		return r;
	snprintf(driver->name, sizeof(driver->name), "%s", info.driver);
	/* "0000:3b:00.0", "vmbus_1"; drivers without a device leave it empty, or say "tap" or "N/A". */
	driver->has_device = strpbrk(info.bus_info, "0123456789") != NULL;
	return 0;
}
