// SPDX-License-Identifier: Apache-2.0
/* Reads the netdev's link state, MTU, MAC address and IP addresses, and makes GUID and GID table from them. */
#include "netdev.h"

#include "../wire/link.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

bool netdev_link_up(const char *netdev)
{
	struct link_facts link;

	return !link_read(netdev, &link) && link.up;
}

int netdev_mtu(const char *netdev)
{
	struct link_facts link;
	int r = link_read(netdev, &link);

	return r ? r : (int)link.mtu;
}

/* A packet has at most this beside its payload: GRH, UDP, BTH, an XRC and an atomic header, the CRC. */
#define IB_OVERHEAD_BYTES (40 + 8 + 12 + 4 + 28 + 4)

uint8_t netdev_ib_mtu(int mtu)
{
	uint8_t ib = 1;

	while (ib < 5 && 128 << (ib + 1) <= mtu - IB_OVERHEAD_BYTES)
		ib++;
	return ib;
}

static void netdev_eui64(const uint8_t mac[6], uint8_t eui[8])
{
	memcpy(eui, mac, 3);
	eui[0] ^= 2;
	eui[3] = 0xff;
	eui[4] = 0xfe;
	memcpy(eui + 5, mac + 3, 3);
}

uint64_t netdev_guid(const char *netdev)
{
	struct link_facts link = {};
	uint64_t guid = 0;
	uint8_t eui[8];

	link_read(netdev, &link);
	netdev_eui64(link.mac, eui);
	for (int i = 0; i < 8; i++)
		guid = guid << 8 | eui[i];
	return guid;
}

static size_t netdev_add_gid(struct gid *gids, size_t n, size_t max, const uint8_t raw[16])
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
	uint8_t raw[16] = {0xfe, 0x80};
	struct ifaddrs *list = NULL;
	struct link_facts link;
	size_t n = 0;

	if (link_read(netdev, &link))
		return 0;
	netdev_eui64(link.mac, raw + 8);
	n = netdev_add_gid(gids, n, max, raw);
	if (getifaddrs(&list))
		return n;
	for (struct ifaddrs *a = list; a; a = a->ifa_next) {
		if (!a->ifa_addr || strcmp(a->ifa_name, netdev))
			continue;
		if (a->ifa_addr->sa_family == AF_INET) {
			memset(raw, 0, 16);
			raw[10] = raw[11] = 0xff;
			memcpy(raw + 12, &((struct sockaddr_in *)a->ifa_addr)->sin_addr, 4);
			n = netdev_add_gid(gids, n, max, raw);
		} else if (a->ifa_addr->sa_family == AF_INET6) {
			n = netdev_add_gid(gids, n, max, ((struct sockaddr_in6 *)a->ifa_addr)->sin6_addr.s6_addr);
		}
	}
	freeifaddrs(list);
	return n;
}
