// SPDX-License-Identifier: Apache-2.0
/*
 * Which received packets an interface's card stamps with its clock (SIOCGHWTSTAMP). All programs share the setting, and
 * PTP daemons set it to the packets of PTP: only "all packets" serves everybody, and nothing narrower is set here.
 */
#include "daemon/net/ethtool.h"
#include "daemon/net/net.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>

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
