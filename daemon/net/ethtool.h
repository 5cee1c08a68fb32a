// SPDX-License-Identifier: Apache-2.0
/* One request to the driver of an interface. */
#ifndef DAEMON_NET_ETHTOOL_H
#define DAEMON_NET_ETHTOOL_H

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/** An ioctl (SIOCGHWTSTAMP, …) whose argument is a struct ifreq with data. 0 or -errno. */
static inline int ethtool_request(const char *interface, unsigned long number, void *data)
{
	struct ifreq request = {.ifr_data = data};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return -errno;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	r = ioctl(fd, number, &request) < 0 ? -errno : 0;
	close(fd);
	return r;
}

/** A struct of linux/ethtool.h that begins with its command. 0 or -errno. */
static inline int ethtool_ask(const char *interface, void *command)
{
	return ethtool_request(interface, SIOCETHTOOL, command);
}

#endif
