// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel and the driver about an interface that is to receive by XDP. */
#include "daemon/backend/xdp/xdp.h"

#include "daemon/net/ethtool.h"
#include "daemon/net/net.h"

#include <stdio.h>

uint32_t xdp_interface_count_queues(const struct xdp_interface *interface)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};

	/* A driver that does not answer leaves the command as it is. */
	ethtool_ask(interface->name, &channels);
	return channels.rx_count + channels.combined_count;
}

uint32_t xdp_interface_mtu(const struct xdp_interface *interface)
{
	struct net_interface now;

	return net_interface_read(interface->name, &now, NULL) == 0 ? now.mtu : 0;
}

static void interface_read_queues(struct xdp_interface *interface)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	struct ethtool_ringparam rings = {.cmd = ETHTOOL_GRINGPARAM};

	interface->n_card_queues = interface->max_card_queues = 1;
	ethtool_ask(interface->name, &channels);
	if (channels.rx_count + channels.combined_count > 0) {
		interface->n_card_queues = channels.rx_count + channels.combined_count;
		interface->max_card_queues = channels.max_rx + channels.max_combined;
	}
	if (interface->max_card_queues < interface->n_card_queues)
		interface->max_card_queues = interface->n_card_queues;
	ethtool_ask(interface->name, &rings);
	interface->ring_slots = rings.rx_pending;
}

int xdp_interface_read(struct xdp_interface *interface, const char *name, struct failure *failure)
{
	struct net_interface now;
	struct net_driver driver;
	int r = net_interface_read(name, &now, failure);

	if (r < 0)
		return r;
	*interface = (struct xdp_interface){.index = now.index, .mtu = now.mtu};
	snprintf(interface->name, sizeof(interface->name), "%s", name);
	interface_read_queues(interface);
	net_driver_read(name, &driver);
	interface->has_device = driver.has_device;
	return 0;
}
