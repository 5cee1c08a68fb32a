// SPDX-License-Identifier: Apache-2.0
/* Builds the headers of packets to send. All sums are in the byte order of memory. */
#include "daemon/packet/packet_template.h"

#include "daemon/packet/packet_plain.h"
#include "lib/frame/checksum.h"

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <string.h>

#define IPV4_LENGTH        2
#define IPV4_ID            4
#define IPV4_DONT_FRAGMENT 0x4000
#define IPV4_CHECKSUM      10
#define IPV6_LENGTH        4
#define UDP_LENGTH         4
#define UDP_CHECKSUM       6
#define VLAN_ID_MAX        4094
#define DSCP_MAX           63

static void packet_store16(uint8_t *at, uint16_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* ---- the template --------------------------------------------------------------------------------- */

static uint8_t *packet_put(uint8_t *at, const void *bytes, uint32_t n)
{
	memcpy(at, bytes, n);
	return at + n;
}

static uint8_t *packet_put16(uint8_t *at, uint32_t value)
{
	packet_store16(at, htons((uint16_t)value));
	return at + 2;
}

static uint8_t *packet_put_link(uint8_t *at, const struct packet_route *route)
{
	at = packet_put(at, route->destination_mac, 6);
	at = packet_put(at, route->source_mac, 6);
	if (route->vlan >= 0)
		at = packet_put16(packet_put16(at, ETHERTYPE_VLAN), (uint32_t)route->vlan);
	return packet_put16(at, route->family == AF_INET6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
}

static uint8_t *packet_put_ipv4(uint8_t *at, const struct packet_route *route)
{
	const uint8_t fixed[PACKET_IPV4_BYTES - 8] = {
		0x45,        (uint8_t)(route->dscp << 2), 0, 0, 0, 0, IPV4_DONT_FRAGMENT >> 8, 0, route->hop_limit,
		IPPROTO_UDP,
	};

	at = packet_put(at, fixed, sizeof(fixed));
	at = packet_put(at, route->source, 4);
	return packet_put(at, route->destination, 4);
}

static uint8_t *packet_put_ipv6(uint8_t *at, const struct packet_route *route)
{
	const uint8_t fixed[PACKET_IPV6_BYTES - 32] = {
		(uint8_t)(0x60 | route->dscp >> 2),
		(uint8_t)(route->dscp << 6),
		0,
		0,
		0,
		0,
		IPPROTO_UDP,
		route->hop_limit,
	};

	at = packet_put(at, fixed, sizeof(fixed));
	at = packet_put(at, route->source, 16);
	return packet_put(at, route->destination, 16);
}

bool packet_template_init(struct packet_template *packet, const struct packet_route *route,
                          enum packet_checksums checksums)
{
	uint32_t address_bytes = route->family == AF_INET6 ? 16 : 4;
	uint8_t *ip, *udp, *end;

	if ((route->family != AF_INET && route->family != AF_INET6) || route->vlan < -1 || route->vlan > VLAN_ID_MAX ||
	    route->dscp > DSCP_MAX || (route->family == AF_INET6 && checksums == PACKET_CHECKSUMS_ZERO))
		return false;
	memset(packet, 0, sizeof(*packet));
	packet->ipv6 = route->family == AF_INET6;
	packet->checksums = checksums;
	ip = packet_put_link(packet->bytes, route);
	udp = packet->ipv6 ? packet_put_ipv6(ip, route) : packet_put_ipv4(ip, route);
	end = packet_put16(packet_put16(udp, route->source_port), route->destination_port) + PACKET_UDP_BYTES - 4;
	packet->l3 = (uint8_t)(ip - packet->bytes);
	packet->header_bytes = (uint8_t)(end - packet->bytes);
	packet->ip_sum = packet->ipv6 ? 0 : checksum_fold(checksum_sum_bytes(ip, PACKET_IPV4_BYTES));
	packet->udp_sum = checksum_fold(checksum_sum_bytes(route->source, address_bytes) +
	                                checksum_sum_bytes(route->destination, address_bytes) + htons(IPPROTO_UDP) +
	                                checksum_sum_bytes(udp, PACKET_UDP_BYTES));
	return true;
}

/* ---- a packet ------------------------------------------------------------------------------------- */

void packet_write_headers(const struct packet_template *packet, uint8_t *row, const uint8_t *payload,
                          uint32_t payload_bytes, uint16_t identification)
{
	uint8_t *ip = row + packet->l3, *udp = row + packet->header_bytes - PACKET_UDP_BYTES;
	uint16_t udp_length_be = htons((uint16_t)(PACKET_UDP_BYTES + payload_bytes));

	/* Copy the maximum and not header_bytes, because the compiler turns a copy of a fixed size into a few moves. */
	memcpy(row, packet->bytes, PACKET_HEADERS_MAX);
	packet_store16(udp + UDP_LENGTH, udp_length_be);
	if (packet->ipv6) {
		packet_store16(ip + IPV6_LENGTH, udp_length_be);
	} else {
		uint16_t length_be = htons((uint16_t)(PACKET_IPV4_BYTES + PACKET_UDP_BYTES + payload_bytes));
		uint16_t id_be = htons(identification);

		packet_store16(ip + IPV4_LENGTH, length_be);
		packet_store16(ip + IPV4_ID, id_be);
		if (packet->checksums != PACKET_CHECKSUMS_DEVICE)
			packet_store16(ip + IPV4_CHECKSUM,
			               (uint16_t)~checksum_fold((uint64_t)packet->ip_sum + length_be + id_be));
	}
	if (packet->checksums == PACKET_CHECKSUMS_SOFTWARE) {
		/* The length counts twice: in the pseudo header and in the header. */
		packet_store16(udp + UDP_CHECKSUM, checksum_of_transport(packet->udp_sum + 2ull * udp_length_be +
		                                                         checksum_sum_bytes(payload, payload_bytes)));
	}
}

void packet_sum_for_kernel(uint8_t *headers, uint32_t header_bytes, uint32_t payload_bytes)
{
	uint8_t *udp = headers + header_bytes - PACKET_UDP_BYTES, *ip = udp - PACKET_IPV6_BYTES;
	uint16_t udp_length_be = htons((uint16_t)(PACKET_UDP_BYTES + payload_bytes));
	uint32_t address_bytes = 2 * 16;

	if (header_bytes < ETHER_HDR_LEN + PACKET_IPV6_BYTES + PACKET_UDP_BYTES) {
		uint16_t sum;

		ip = udp - PACKET_IPV4_BYTES;
		address_bytes = 2 * 4;
		packet_store16(ip + IPV4_LENGTH,
		               htons((uint16_t)(PACKET_IPV4_BYTES + PACKET_UDP_BYTES + payload_bytes)));
		packet_store16(ip + IPV4_CHECKSUM, 0);
		sum = checksum_fold(checksum_sum_bytes(ip, PACKET_IPV4_BYTES));
		packet_store16(ip + IPV4_CHECKSUM, (uint16_t)~sum);
	} else {
		packet_store16(ip + IPV6_LENGTH, udp_length_be);
	}
	packet_store16(udp + UDP_LENGTH, udp_length_be);
	/* The addresses end the IP header. */
	packet_store16(udp + UDP_CHECKSUM, checksum_fold(checksum_sum_bytes(udp - address_bytes, address_bytes) +
	                                                 htons(IPPROTO_UDP) + udp_length_be));
}
