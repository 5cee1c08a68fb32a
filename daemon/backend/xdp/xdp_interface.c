// SPDX-License-Identifier: Apache-2.0
/* What the kernel and the driver say of an interface that is to receive by XDP. */
#include "daemon/backend/xdp/xdp.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* A driver that does not answer leaves the command as it is. */
static bool interface_ask_driver(int fd, const struct xdp_interface *interface, void *command)
{
	struct ifreq request = {.ifr_data = command};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface->name);
	return ioctl(fd, SIOCETHTOOL, &request) == 0;
}

uint32_t xdp_interface_count_queues(const struct xdp_interface *interface)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t n = 0;

	if (fd >= 0 && interface_ask_driver(fd, interface, &channels))
		n = channels.rx_count + channels.combined_count;
	if (fd >= 0)
		close(fd);
	return n;
}

uint32_t xdp_interface_mtu(const struct xdp_interface *interface)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface->name);
	if (fd < 0 || ioctl(fd, SIOCGIFMTU, &request) < 0)
		request.ifr_mtu = 0;
	if (fd >= 0)
		close(fd);
	return (uint32_t)request.ifr_mtu;
}

static void interface_read_queues(struct xdp_interface *interface, int fd)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	struct ethtool_ringparam rings = {.cmd = ETHTOOL_GRINGPARAM};

	interface->n_card_queues = interface->max_card_queues = 1;
	if (interface_ask_driver(fd, interface, &channels) && channels.rx_count + channels.combined_count > 0) {
		interface->n_card_queues = channels.rx_count + channels.combined_count;
		interface->max_card_queues = channels.max_rx + channels.max_combined;
	}
	if (interface->max_card_queues < interface->n_card_queues)
		interface->max_card_queues = interface->n_card_queues;
	if (interface_ask_driver(fd, interface, &rings))
		interface->ring_slots = rings.rx_pending;
}

static int interface_read_index(struct xdp_interface *interface, int fd)
{
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface->name);
	if (ioctl(fd, SIOCGIFINDEX, &request) < 0)
		return -errno;
	interface->index = (unsigned)request.ifr_ifindex;
	if (ioctl(fd, SIOCGIFMTU, &request) < 0)
		return -errno;
	interface->mtu = (uint32_t)request.ifr_mtu;
	return 0;
}

int xdp_interface_read(struct xdp_interface *interface, const char *name, struct failure *failure)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	*interface = (struct xdp_interface){0};
	snprintf(interface->name, sizeof(interface->name), "%s", name);
	r = fd < 0 ? -errno : interface_read_index(interface, fd);
	if (r == 0)
		interface_read_queues(interface, fd);
	else
		failure_set(failure, EX_UNAVAILABLE, -r, "interface %s: %s", name, strerror(-r));
	if (fd >= 0)
		close(fd);
	return r;
}
