// SPDX-License-Identifier: Apache-2.0
/* Explains the state of a next hop in words. */
#include "daemon/net/next_hop.h"

#include <arpa/inet.h>
#include <stdio.h>

const char *next_hop_explain(const struct next_hop *next_hop, const char *interface, char *buffer, size_t bytes)
{
	const uint8_t *mac = next_hop->mac;
	char address[INET6_ADDRSTRLEN] = "";

	if (next_hop->address.family != AF_UNSPEC)
		inet_ntop(next_hop->address.family, next_hop->address.address, address, sizeof(address));
	switch (next_hop->state) {
	case NEXT_HOP_READY:
		snprintf(buffer, bytes, "goes to %02x:%02x:%02x:%02x:%02x:%02x%s%s", mac[0], mac[1], mac[2], mac[3],
		         mac[4], mac[5], address[0] ? ", " : "", address);
		break;
	case NEXT_HOP_LINK_DOWN:
		snprintf(buffer, bytes, "%s is down; 'ip link show %s'", interface, interface);
		break;
	case NEXT_HOP_NO_ROUTE:
		snprintf(buffer, bytes, "no route to it leaves by %s; 'ip route' lists those there are", interface);
		break;
	case NEXT_HOP_NOT_A_HOST:
		snprintf(buffer, bytes,
		         "it is this machine's own address, a broadcast address or prohibited; see 'ip route get'");
		break;
	case NEXT_HOP_NO_SOURCE:
		snprintf(buffer, bytes,
		         "%s has no address to send from; add one ('ip address add ADDRESS dev %s') or set source",
		         interface, interface);
		break;
	case NEXT_HOP_ASKED_FOR:
		snprintf(buffer, bytes, "the Ethernet address of its next hop %s is being resolved", address);
		break;
	case NEXT_HOP_NO_ANSWER:
		snprintf(buffer, bytes,
		         "its next hop %s does not answer on %s ('ip neigh show %s'); if it never does, "
		         "set next_hop_mac",
		         address, interface, address);
		break;
	}
	return buffer;
}
