// SPDX-License-Identifier: Apache-2.0
/* The masks by which the receive path knows a plain frame. */
#include "daemon/packet/packet_plain.h"

#include <netinet/in.h>

/*
 * The two words of packet_plain_word() as bytes of the frame; bits outside of the mask are ignored. IPv4: EtherType,
 * version and header's length, and the lower byte of the length; its upper byte, the fragment field and the protocol.
 * IPv6: EtherType, version and length; the next header.
 */
static const uint8_t ipv4_mask[2][8] = {{0, 0xff, 0xff, 0xff, 0, 0, 0xff, 0}, {0xff, 0, 0, 0, 0xbf, 0xff, 0, 0xff}};
static const uint8_t ipv6_mask[2][8] = {{0xff, 0xff, 0xf0, 0, 0, 0, 0xff, 0xff}, {0, 0, 0, 0, 0xff, 0, 0, 0}};
static const uint8_t ipv4_length[8] = {0xff, 0, 0, 0, 0, 0, 0xff, 0};
static const uint8_t ipv6_length[8] = {0, 0, 0, 0, 0, 0, 0xff, 0xff};
static const uint8_t ipv4_want[8] = {0, 0x08, 0x00, 0x45, 0, 0, 0, IPPROTO_UDP};
static const uint8_t ipv6_want[8] = {0x86, 0xdd, 0x60, 0, IPPROTO_UDP, 0, 0, 0};

bool packet_plain_init(struct packet_plain *plain, uint32_t header_bytes)
{
	bool ipv6 = header_bytes == 62 || header_bytes == 66;
	uint64_t ip_length;

	if (!ipv6 && header_bytes != 42 && header_bytes != 46)
		return false;
	plain->header_bytes = header_bytes;
	plain->before_udp = header_bytes - PACKET_UDP_BYTES;
	plain->l3 = plain->before_udp - (ipv6 ? PACKET_IPV6_BYTES : PACKET_IPV4_BYTES);
	plain->udp_length_at = ipv6 ? PACKET_UDP_LENGTH_AT_IPV6 : PACKET_UDP_LENGTH_AT_IPV4;
	memcpy(plain->mask, ipv6 ? ipv6_mask : ipv4_mask, sizeof(plain->mask));
	memcpy(&ip_length, ipv6 ? ipv6_length : ipv4_length, sizeof(ip_length));
	plain->counts = (plain->mask[0] | plain->mask[1]) & ~ip_length;
	memcpy(&plain->want, ipv6 ? ipv6_want : ipv4_want, sizeof(plain->want));
	return true;
}
