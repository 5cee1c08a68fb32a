// SPDX-License-Identifier: Apache-2.0
/*
 * Headers of packets to send. Each destination has a template; the headers of a packet are a copy of it with the
 * packet's length, identification and, unless the device computes them, checksums. Pure.
 */
#ifndef DAEMON_PACKET_PACKET_TEMPLATE_H
#define DAEMON_PACKET_PACKET_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#define PACKET_HEADERS_MAX 66 /* Ethernet, a VLAN tag, IPv6, UDP; a header row has at least as many bytes */

enum packet_checksums {
	PACKET_CHECKSUMS_DEVICE,   /* both are 0 in memory: the device fills them in */
	PACKET_CHECKSUMS_ZERO,     /* only that of the IPv4 header; UDP's is 0. Not with IPv6 (RFC 8200, 8.1) */
	PACKET_CHECKSUMS_SOFTWARE, /* both are computed here */
};

/* Addresses in network order; an IPv4 address is in the first four bytes. */
struct packet_route {
	int family; /* AF_INET or AF_INET6 */
	uint8_t destination_mac[6];
	uint8_t source_mac[6];
	uint8_t destination[16];
	uint8_t source[16];
	uint16_t destination_port;
	uint16_t source_port;
	int vlan; /* 0 to 4094; -1: no tag */
	uint8_t dscp;
	uint8_t hop_limit; /* TTL */
};

struct packet_template {
	uint8_t bytes[PACKET_HEADERS_MAX]; /* lengths, identification and checksums are 0 */
	uint8_t header_bytes;              /* 42, 46, 62 or 66 */
	uint8_t l3;                        /* where the IP header starts */
	bool ipv6;
	enum packet_checksums checksums;
	uint32_t ip_sum; /* sum over the IPv4 header as it is in bytes */
	uint32_t
		udp_sum; /* sum over the UDP header as it is in bytes, and the pseudo header's addresses and protocol */
};

/** False: the route has a family, VLAN or DSCP that does not exist, or is IPv6 without checksums. */
bool packet_template_init(struct packet_template *packet, const struct packet_route *route,
                          enum packet_checksums checksums);

/**
 * Write the headers of one packet into the first header_bytes of the row. The rest of PACKET_HEADERS_MAX is
 * overwritten, too. identification: for IPv4; any value, because the packet has the "don't fragment" flag (RFC 6864).
 * payload is read only for PACKET_CHECKSUMS_SOFTWARE, and must then be a copy that no client can write to. The caller
 * has checked the length against the MTU.
 */
void packet_write_headers(const struct packet_template *packet, uint8_t *row, const uint8_t *payload,
                          uint32_t payload_bytes, uint16_t identification);

/**
 * Headers of a packet for PACKET_CHECKSUMS_DEVICE, which the kernel is to send: set their lengths for so many bytes of
 * payload, and the checksums to what the kernel expects. It has no part in that of the IPv4 header, and finishes that
 * of UDP, which begins with the sum of the pseudo header.
 */
void packet_sum_for_kernel(uint8_t *headers, uint32_t header_bytes, uint32_t payload_bytes);

#endif
