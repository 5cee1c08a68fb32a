// SPDX-License-Identifier: Apache-2.0
/*
 * Headers of packets to send: a template for each destination, from which those of a packet are a copy with its
 * length, its identification and, where that is not the device's work, its checksums. Pure.
 */
#ifndef DAEMON_PACKET_PACKET_TEMPLATE_H
#define DAEMON_PACKET_PACKET_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#define PACKET_HEADERS_MAX 66 /* Ethernet, a VLAN tag, IPv6, UDP; a header row has at least so many bytes */

enum packet_checksums {
	PACKET_CHECKSUMS_DEVICE,   /* both are 0 in memory: the device fills them in */
	PACKET_CHECKSUMS_ZERO,     /* the IPv4 header's is right, UDP's 0: none. Not with IPv6 (RFC 8200, 8.1) */
	PACKET_CHECKSUMS_SOFTWARE, /* both are right */
};

/* From whom to whom. Addresses and MACs as they are on the wire; an IPv4 address is the first four bytes. */
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
	uint32_t ip_sum;  /* of the IPv4 header as it is in bytes */
	uint32_t udp_sum; /* of the UDP header as it is in bytes, and the pseudo header's addresses and protocol */
};

/** False: a family, a VLAN, a DSCP or checksums (none, for IPv6) that a packet can't have. */
bool packet_template_init(struct packet_template *packet, const struct packet_route *route,
                          enum packet_checksums checksums);

/**
 * Write the headers of one packet: the first header_bytes of the row; what is behind them in PACKET_HEADERS_MAX is
 * overwritten too. identification: of IPv4, any (the packet says "don't fragment": RFC 6864). payload is read for
 * PACKET_CHECKSUMS_SOFTWARE only, and must then be a copy that nobody else can write to. The caller has checked the
 * length against the MTU.
 */
void packet_write_headers(const struct packet_template *packet, uint8_t *row, const uint8_t *payload,
                          uint32_t payload_bytes, uint16_t identification);

#endif
