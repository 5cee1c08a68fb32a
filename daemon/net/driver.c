// SPDX-License-Identifier: Apache-2.0
/* What an interface's driver says of itself and of its card (SIOCETHTOOL), and which packets the card stamps. */
#include "daemon/net/ethtool.h"
#include "daemon/net/net.h"

#include <errno.h>
#include <linux/net_tstamp.h>
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

/* ---- stamps: SIOCGHWTSTAMP ------------------------------------------------------------------------- */

/*
 * All programs share the setting, and PTP daemons set it to the packets of PTP: only "all packets" serves everybody,
 * and nothing narrower is set here.
 */
static bool stamping_can(const char *interface)
{
	struct ethtool_ts_info info = {.cmd = ETHTOOL_GET_TS_INFO, .phc_index = -1};
	const uint32_t needed = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;

	return ethtool_ask(interface, &info) == 0 && (info.so_timestamping & needed) == needed &&
	       info.rx_filters & 1U << HWTSTAMP_FILTER_ALL;
}

enum net_stamping net_stamping_read(const char *interface)
{
	struct hwtstamp_config now = {0};

	if (ethtool_request(interface, SIOCGHWTSTAMP, &now) == 0 && now.rx_filter == HWTSTAMP_FILTER_ALL)
		return NET_STAMPING_ALL;
	return stamping_can(interface) ? NET_STAMPING_OFF : NET_STAMPING_NONE;
}

/* A driver that cannot stamp what it is asked to stamp may take something else, and says what. */
int net_stamping_switch_on(const char *interface)
{
	struct hwtstamp_config before = {0}, wanted;
	int r = ethtool_request(interface, SIOCGHWTSTAMP, &before);

	if (r < 0)
		return r;
	wanted = before;
	wanted.rx_filter = HWTSTAMP_FILTER_ALL;
	r = ethtool_request(interface, SIOCSHWTSTAMP, &wanted);
	if (r < 0 || wanted.rx_filter == HWTSTAMP_FILTER_ALL)
		return r;
	ethtool_request(interface, SIOCSHWTSTAMP, &before);
	return -ERANGE;
}
