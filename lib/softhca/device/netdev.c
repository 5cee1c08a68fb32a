// SPDX-License-Identifier: Apache-2.0
#include "netdev.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int request(const char *netdev, unsigned long number, struct ifreq *ifr)
{
	int r, fd = (int)syscall(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	memset(ifr, 0, sizeof(*ifr));
	strncpy(ifr->ifr_name, netdev, IFNAMSIZ - 1);
	r = ioctl(fd, number, ifr) ? -errno : 0;
	syscall(SYS_close, fd);
	return r;
}

bool netdev_link_up(const char *netdev)
{
	struct ifreq ifr;

	return !request(netdev, SIOCGIFFLAGS, &ifr) && (ifr.ifr_flags & IFF_UP) &&
	       (ifr.ifr_flags & IFF_RUNNING);
}

bool netdev_exists(const char *netdev)
{
	return if_nametoindex(netdev) != 0;
}

int netdev_mtu(const char *netdev)
{
	struct ifreq ifr;
	int r = request(netdev, SIOCGIFMTU, &ifr);

	return r ? r : ifr.ifr_mtu;
}

int netdev_mac(const char *netdev, uint8_t mac[6])
{
	struct ifreq ifr;
	int r = request(netdev, SIOCGIFHWADDR, &ifr);

	if (r)
		memset(mac, 0, 6);
	else
		memcpy(mac, ifr.ifr_hwaddr.sa_data, 6);
	return r;
}

static void eui64(const uint8_t mac[6], uint8_t eui[8])
{
	memcpy(eui, mac, 3);
	eui[0] ^= 2;
	eui[3] = 0xff;
	eui[4] = 0xfe;
	memcpy(eui + 5, mac + 3, 3);
}

uint64_t netdev_guid(const char *netdev)
{
	uint8_t mac[6], eui[8];
	uint64_t guid = 0;

	netdev_mac(netdev, mac);
	eui64(mac, eui);
	for (int i = 0; i < 8; i++)
		guid = guid << 8 | eui[i];
	return guid;
}

static size_t add(struct gid *gids, size_t n, size_t max, const uint8_t raw[16])
{
	for (size_t i = 0; i < n; i++)
		if (!memcmp(gids[i].raw, raw, 16))
			return n;
	if (n + 2 > max)
		return n;
	memcpy(gids[n].raw, raw, 16);
	gids[n].type = GID_ROCE_V1;
	memcpy(gids[n + 1].raw, raw, 16);
	gids[n + 1].type = GID_ROCE_V2;
	return n + 2;
}

size_t netdev_gids(const char *netdev, struct gid *gids, size_t max)
{
	uint8_t raw[16] = {0xfe, 0x80}, mac[6];
	struct ifaddrs *list = NULL;
	size_t n = 0;

	if (netdev_mac(netdev, mac))
		return 0;
	eui64(mac, raw + 8);
	n = add(gids, n, max, raw);
	if (getifaddrs(&list))
		return n;
	for (struct ifaddrs *a = list; a; a = a->ifa_next) {
		if (!a->ifa_addr || strcmp(a->ifa_name, netdev))
			continue;
		if (a->ifa_addr->sa_family == AF_INET) {
			memset(raw, 0, 16);
			raw[10] = raw[11] = 0xff;
			memcpy(raw + 12, &((struct sockaddr_in *)a->ifa_addr)->sin_addr, 4);
			n = add(gids, n, max, raw);
		} else if (a->ifa_addr->sa_family == AF_INET6) {
			n = add(gids, n, max,
				((struct sockaddr_in6 *)a->ifa_addr)->sin6_addr.s6_addr);
		}
	}
	freeifaddrs(list);
	return n;
}
