// SPDX-License-Identifier: Apache-2.0
/* Reads MAC address, MTU and link state of the netdev that is the port. */
#include "link.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int link_read(const char *netdev, struct link_facts *facts)
{
	struct ifreq ifr = {};
	int r = -1, fd = (int)syscall(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	strncpy(ifr.ifr_name, netdev, IFNAMSIZ - 1);
	if (ioctl(fd, SIOCGIFHWADDR, &ifr))
		goto out;
	memcpy(facts->mac, ifr.ifr_hwaddr.sa_data, sizeof(facts->mac));
	if (ioctl(fd, SIOCGIFMTU, &ifr))
		goto out;
	facts->mtu = (uint32_t)ifr.ifr_mtu;
	if (ioctl(fd, SIOCGIFFLAGS, &ifr))
		goto out;
	facts->flags = (unsigned short)ifr.ifr_flags;
	facts->up = (facts->flags & IFF_UP) && (facts->flags & IFF_RUNNING);
	r = 0;
out:
	if (r)
		r = -errno;
	syscall(SYS_close, fd); /* close() would be the interposed one */
	return r;
}

enum wire_addressed link_addressed(const struct link_facts *facts, const uint8_t destination[6])
{
	static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	if (!memcmp(destination, facts->mac, 6))
		return WIRE_TO_US;
	if (!memcmp(destination, broadcast, 6))
		return WIRE_BROADCAST;
	return destination[0] & 1 ? WIRE_MULTICAST : WIRE_TO_OTHER;
}
