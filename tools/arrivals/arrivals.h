// SPDX-License-Identifier: Apache-2.0
/*
 * A look at the UDP that arrives on this machine's interfaces, counted by destination. It is not promiscuous, ends
 * after the time that the caller gives, and needs CAP_NET_RAW.
 */
#ifndef TOOLS_ARRIVALS_ARRIVALS_H
#define TOOLS_ARRIVALS_ARRIVALS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define ARRIVALS_MAX        512
#define ARRIVAL_SOURCES_MAX 4

struct arrival_address {
	int family; /* AF_INET, AF_INET6 */
	uint16_t port;
	struct in6_addr ip; /* the first 4 bytes of an IPv4 address; the rest is 0 */
};

/* The datagrams that one interface gets for one address and port in one VLAN. */
struct arrival {
	unsigned interface; /* its index */
	int32_t vlan;       /* -1: untagged, or with a priority only */
	struct arrival_address destination;
	bool is_broadcast; /* of Ethernet */
	bool is_multicast;
	bool is_fragmented;
	uint64_t n_datagrams;
	uint32_t bytes_min; /* UDP payload */
	uint32_t bytes_max;
	struct arrival_address sources[ARRIVAL_SOURCES_MAX]; /* the first ones */
	unsigned n_sources;                                  /* of these */
	bool has_more_sources;
};

struct arrivals {
	struct arrival at[ARRIVALS_MAX];
	unsigned n;
	uint64_t n_datagrams;
	uint64_t n_forgotten; /* of these: rare destinations, for which the array had no room */
	uint64_t n_unread;    /* datagrams that came faster than the look read them */
	uint64_t ns;          /* its length */
};

/** Look for that many nanoseconds. 0; -EPERM without CAP_NET_RAW; or another negative errno. */
int arrivals_look(uint64_t ns, struct arrivals *arrivals);

/** Count one packet, from its network header on. Pure; nothing in the packet is trusted. */
void arrivals_add(struct arrivals *arrivals, const struct arrival *where, uint16_t ether_type, const uint8_t *packet,
                  uint32_t captured, uint32_t wire_bytes);

#endif
