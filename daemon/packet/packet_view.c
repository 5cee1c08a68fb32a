// SPDX-License-Identifier: Apache-2.0
/* Finds the UDP payload of a frame: the slow path by parsing, and the masks of the fast path. */
#include "daemon/packet/packet_view.h"

#include <net/ethernet.h>
#include <netinet/in.h>

#define ETHERNET_BYTES      14
#define VLAN_BYTES          4
#define VLAN_TAGS_MAX       2
#define IPV6_EXTENSIONS_MAX 8

static uint16_t packet_load_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/* Position and protocol of the next header to parse, and the length of the IP payload. */
struct packet_cursor {
	const uint8_t *frame;
	uint32_t bytes;
	uint32_t at;
	uint32_t ip_payload_length; /* from at on */
	uint8_t protocol;
	bool fragment;
	bool first_fragment; /* or not a fragment: a UDP header follows */
};

static bool packet_cursor_has(const struct packet_cursor *cursor, uint32_t bytes)
{
	return cursor->bytes - cursor->at >= bytes;
}

/* Parse Ethernet and VLAN tags; cursor ends at the IP header. Returns the ethertype, 0 if the frame is cut off. */
static uint16_t packet_parse_link(struct packet_cursor *cursor)
{
	if (!packet_cursor_has(cursor, ETHERNET_BYTES))
		return 0;
	uint16_t ethertype = packet_load_be16(cursor->frame + ETHERNET_BYTES - 2);

	cursor->at = ETHERNET_BYTES;
	for (int tags = 0; (ethertype == 0x8100 || ethertype == 0x88a8) && tags < VLAN_TAGS_MAX; tags++) {
		if (!packet_cursor_has(cursor, VLAN_BYTES))
			return 0;
		ethertype = packet_load_be16(cursor->frame + cursor->at + 2);
		cursor->at += VLAN_BYTES;
	}
	return ethertype;
}

static bool packet_parse_ipv4(struct packet_cursor *cursor)
{
	const uint8_t *ip = cursor->frame + cursor->at;

	if (!packet_cursor_has(cursor, 20) || ip[0] >> 4 != 4)
		return false;
	uint32_t header_bytes = (ip[0] & 0xfu) * 4;
	uint32_t total_bytes = packet_load_be16(ip + 2);

	if (header_bytes < 20 || total_bytes < header_bytes || !packet_cursor_has(cursor, header_bytes))
		return false;
	uint16_t fragment = packet_load_be16(ip + 6);

	cursor->fragment = fragment & 0x3fff;
	cursor->first_fragment = !(fragment & 0x1fff);
	cursor->protocol = ip[9];
	cursor->ip_payload_length = total_bytes - header_bytes;
	cursor->at += header_bytes;
	return true;
}

/* Parse one extension header (RFC 8200, section 4). False: it is cut off. */
static bool packet_parse_ipv6_extension(struct packet_cursor *cursor)
{
	const uint8_t *extension = cursor->frame + cursor->at;

	if (!packet_cursor_has(cursor, 8))
		return false;
	uint32_t extension_bytes = (extension[1] + 1u) * 8;

	if (cursor->protocol == IPPROTO_FRAGMENT) {
		uint16_t fragment = packet_load_be16(extension + 2);

		extension_bytes = 8;
		cursor->fragment = fragment & 0xfff9; /* offset and M flag; an atomic fragment (RFC 6946) is whole */
		cursor->first_fragment = !(fragment & 0xfff8);
	}
	if (!packet_cursor_has(cursor, extension_bytes) || cursor->ip_payload_length < extension_bytes)
		return false;
	cursor->protocol = extension[0];
	cursor->ip_payload_length -= extension_bytes;
	cursor->at += extension_bytes;
	return true;
}

static bool packet_parse_ipv6(struct packet_cursor *cursor)
{
	const uint8_t *ip = cursor->frame + cursor->at;

	if (!packet_cursor_has(cursor, 40) || ip[0] >> 4 != 6)
		return false;
	cursor->protocol = ip[6];
	cursor->ip_payload_length = packet_load_be16(ip + 4);
	cursor->first_fragment = true;
	cursor->at += 40;
	for (int i = 0; i < IPV6_EXTENSIONS_MAX && cursor->first_fragment; i++) {
		bool extension = cursor->protocol == IPPROTO_HOPOPTS || cursor->protocol == IPPROTO_ROUTING ||
		                 cursor->protocol == IPPROTO_DSTOPTS || cursor->protocol == IPPROTO_FRAGMENT;

		if (!extension)
			return true;
		if (!packet_parse_ipv6_extension(cursor))
			return false;
	}
	return true;
}

bool packet_view_parse(const uint8_t *frame, uint32_t bytes, struct packet_view *view)
{
	struct packet_cursor cursor = {.frame = frame, .bytes = bytes};
	uint16_t ethertype = packet_parse_link(&cursor);
	bool parsed = ethertype == ETHERTYPE_IP ? packet_parse_ipv4(&cursor)
	                                        : ethertype == ETHERTYPE_IPV6 && packet_parse_ipv6(&cursor);

	if (!parsed || cursor.protocol != IPPROTO_UDP)
		return false;
	uint32_t payload_length = cursor.ip_payload_length, datagram_length = payload_length;

	if (cursor.first_fragment) {
		if (!packet_cursor_has(&cursor, PACKET_UDP_BYTES) || payload_length < PACKET_UDP_BYTES)
			return false;
		uint32_t udp_length = packet_load_be16(frame + cursor.at + 4);

		if (udp_length < PACKET_UDP_BYTES)
			return false;
		if (!cursor.fragment && udp_length < payload_length)
			payload_length = udp_length; /* bytes after the datagram are not its payload */
		datagram_length = cursor.fragment && udp_length > payload_length ? udp_length : payload_length;
		datagram_length -= PACKET_UDP_BYTES;
		payload_length -= PACKET_UDP_BYTES;
		cursor.at += PACKET_UDP_BYTES;
	}
	view->header_length = (uint16_t)cursor.at;
	view->payload_length = (uint16_t)payload_length;
	view->datagram_length = (uint16_t)datagram_length;
	view->fragment = cursor.fragment;
	return true;
}

/* The two words of packet_is_plain() as bytes of the frame; bits outside of the mask are ignored. */
static const uint8_t ipv4_mask[2][8] = {{0xff, 0xff, 0xff, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0xbf, 0xff, 0, 0xff}};
static const uint8_t ipv4_want[2][8] = {{0x08, 0x00, 0x45, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, IPPROTO_UDP}};
static const uint8_t ipv6_mask[2][8] = {{0xff, 0xff, 0xf0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0xff, 0, 0, 0}};
static const uint8_t ipv6_want[2][8] = {{0x86, 0xdd, 0x60, 0, 0, 0, 0, 0}, {0, 0, 0, 0, IPPROTO_UDP, 0, 0, 0}};

bool packet_plain_init(struct packet_plain *plain, uint32_t header_bytes)
{
	bool ipv6 = header_bytes == 62 || header_bytes == 66;

	if (!ipv6 && header_bytes != 42 && header_bytes != 46)
		return false;
	plain->header_bytes = header_bytes;
	plain->l3 = header_bytes - PACKET_UDP_BYTES - (ipv6 ? PACKET_IPV6_BYTES : PACKET_IPV4_BYTES);
	memcpy(plain->mask, ipv6 ? ipv6_mask : ipv4_mask, sizeof(plain->mask));
	memcpy(plain->want, ipv6 ? ipv6_want : ipv4_want, sizeof(plain->want));
	return true;
}
