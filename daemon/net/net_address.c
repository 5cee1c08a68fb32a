// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel whether it has an address, and which an interface has. */
#include "daemon/net/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

static const void *net_bytes_of(const struct sockaddr *address)
{
	return address->sa_family == AF_INET ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
	                                     : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;
}

/* An IPv4 address may have a label, "eth0:1", in place of the interface's name. */
static bool net_is_on(const struct ifaddrs *entry, const char *interface)
{
	size_t n = strcspn(entry->ifa_name, ":");

	return strlen(interface) == n && strncmp(entry->ifa_name, interface, n) == 0;
}

static void net_list_address(const struct ifaddrs *entry, char *text, size_t bytes)
{
	char form[INET6_ADDRSTRLEN] = "";
	size_t used = strlen(text);

	inet_ntop(entry->ifa_addr->sa_family, net_bytes_of(entry->ifa_addr), form, sizeof(form));
	if (used + sizeof(", ") + strlen(form) <= bytes)
		snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", form);
}

/* By the netmask: an address that was added without a broadcast address has one all the same. */
static bool net_broadcast_of(const struct ifaddrs *entry, struct config_address *broadcast)
{
	uint32_t own, mask;

	*broadcast = (struct config_address){.family = AF_UNSPEC};
	if (entry->ifa_addr->sa_family != AF_INET || !(entry->ifa_flags & IFF_BROADCAST) || !entry->ifa_netmask)
		return false;
	memcpy(&own, net_bytes_of(entry->ifa_addr), sizeof(own));
	memcpy(&mask, net_bytes_of(entry->ifa_netmask), sizeof(mask));
	if (ntohl(~mask) <= 1) /* two addresses of a /31 are both of stations (RFC 3021) */
		return false;
	own |= ~mask;
	broadcast->family = AF_INET;
	memcpy(broadcast->address, &own, sizeof(own));
	return true;
}

int net_find_address(const struct config_address *address, const char *interface, struct net_address_location *location)
{
	size_t bytes = address->family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
	struct config_address broadcast;
	struct ifaddrs *entries;

	*location = (struct net_address_location){.is_here = false};
	if (getifaddrs(&entries) < 0)
		return -errno;
	for (const struct ifaddrs *entry = entries; entry; entry = entry->ifa_next) {
		if (!entry->ifa_addr || entry->ifa_addr->sa_family != address->family)
			continue;
		if (net_is_on(entry, interface)) {
			net_list_address(entry, location->addresses, sizeof(location->addresses));
			location->is_broadcast |=
				net_broadcast_of(entry, &broadcast) && config_is_same_address(&broadcast, address);
		}
		location->is_here |= memcmp(net_bytes_of(entry->ifa_addr), address->address, bytes) == 0;
	}
	freeifaddrs(entries);
	return 0;
}
