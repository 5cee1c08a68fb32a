// SPDX-License-Identifier: Apache-2.0
/* Walks the headers of a recorded frame to its UDP payload. Nothing in the frame is trusted. */
#include "tools/capture/datagram.h"

#include <stdbool.h>

#define ETHERTYPE_IPV4 0x0800u
#define ETHERTYPE_IPV6 0x86ddu
#define ETHERTYPE_NONE 0u
#define VLAN_TAGS_MAX  4u
#define EXTENSIONS_MAX 8u

enum { NEXT_HOP_BY_HOP = 0, NEXT_UDP = 17, NEXT_ROUTING = 43, NEXT_FRAGMENT = 44, NEXT_DESTINATION = 60 };

/* The part of the frame behind the headers that were read. */
struct rest {
	const uint8_t *at;
	uint32_t captured;
	uint32_t wire; /* at least captured */
};

static uint16_t read_be16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* Check that the rest has so many bytes, on the wire and in the capture. */
static enum datagram_verdict check_bytes(const struct rest *rest, uint32_t bytes)
{
	if (rest->wire < bytes)
		return DATAGRAM_MALFORMED;
	return rest->captured < bytes ? DATAGRAM_CUT : DATAGRAM_WHOLE;
}

static void skip_bytes(struct rest *rest, uint32_t bytes)
{
	rest->at += bytes;
	rest->captured -= bytes;
	rest->wire -= bytes;
}

/* A length in a header says where the packet ends: cut off the padding behind it. False if the frame is shorter. */
static bool cut_at(struct rest *rest, uint32_t bytes)
{
	if (bytes > rest->wire)
		return false;
	rest->wire = bytes;
	if (rest->captured > bytes)
		rest->captured = bytes;
	return true;
}

/* ---- from inside out ------------------------------------------------------------------------------ */

static enum datagram_verdict find_udp(struct rest rest, struct datagram *datagram)
{
	enum datagram_verdict verdict = check_bytes(&rest, 8);
	uint16_t length;

	if (verdict != DATAGRAM_WHOLE)
		return verdict;
	length = read_be16(rest.at + 4);
	if (length < 8 || !cut_at(&rest, length))
		return DATAGRAM_MALFORMED;
	if (rest.captured < length)
		return DATAGRAM_CUT;
	*datagram = (struct datagram){
		.payload = rest.at + 8, .bytes = length - 8u, .destination_port = read_be16(rest.at + 2)};
	return DATAGRAM_WHOLE;
}

static enum datagram_verdict find_ipv4(struct rest rest, struct datagram *datagram)
{
	enum datagram_verdict verdict = check_bytes(&rest, 20);
	uint32_t header_bytes;

	if (verdict != DATAGRAM_WHOLE)
		return verdict;
	header_bytes = (rest.at[0] & 15u) * 4;
	if (rest.at[0] >> 4 != 4 || header_bytes < 20)
		return DATAGRAM_MALFORMED;
	if (rest.at[9] != NEXT_UDP)
		return DATAGRAM_NOT_UDP;
	if (read_be16(rest.at + 6) & 0x3fff) /* more fragments, offset */
		return DATAGRAM_FRAGMENT;
	if (!cut_at(&rest, read_be16(rest.at + 2)))
		return DATAGRAM_MALFORMED;
	verdict = check_bytes(&rest, header_bytes);
	if (verdict != DATAGRAM_WHOLE)
		return verdict;
	skip_bytes(&rest, header_bytes);
	return find_udp(rest, datagram);
}

/* rest begins behind the fixed IPv6 header; next is the type of the header that comes there. */
static enum datagram_verdict walk_extensions(struct rest rest, uint8_t next, struct datagram *datagram)
{
	for (unsigned i = 0; i < EXTENSIONS_MAX && next != NEXT_UDP; i++) {
		enum datagram_verdict verdict = check_bytes(&rest, 8);
		uint32_t bytes;

		if (next != NEXT_HOP_BY_HOP && next != NEXT_ROUTING && next != NEXT_DESTINATION &&
		    next != NEXT_FRAGMENT)
			return DATAGRAM_NOT_UDP;
		if (verdict != DATAGRAM_WHOLE)
			return verdict;
		bytes = next == NEXT_FRAGMENT ? 8 : (rest.at[1] + 1u) * 8;
		if (next == NEXT_FRAGMENT && read_be16(rest.at + 2) & 0xfff9) /* offset, more fragments */
			return rest.at[0] == NEXT_UDP ? DATAGRAM_FRAGMENT : DATAGRAM_NOT_UDP;
		verdict = check_bytes(&rest, bytes);
		if (verdict != DATAGRAM_WHOLE)
			return verdict;
		next = rest.at[0];
		skip_bytes(&rest, bytes);
	}
	return next == NEXT_UDP ? find_udp(rest, datagram) : DATAGRAM_NOT_UDP;
}

static enum datagram_verdict find_ipv6(struct rest rest, struct datagram *datagram)
{
	enum datagram_verdict verdict = check_bytes(&rest, 40);
	uint8_t next;

	if (verdict != DATAGRAM_WHOLE)
		return verdict;
	if (rest.at[0] >> 4 != 6 || !cut_at(&rest, 40u + read_be16(rest.at + 4)))
		return DATAGRAM_MALFORMED;
	next = rest.at[6];
	skip_bytes(&rest, 40);
	return walk_extensions(rest, next, datagram);
}

/* Skip a link header of so many bytes. The two bytes at type_at are the type of the protocol in it. */
static enum datagram_verdict skip_link(struct rest *rest, uint32_t bytes, uint32_t type_at, uint16_t *type)
{
	enum datagram_verdict verdict = check_bytes(rest, bytes);

	if (verdict != DATAGRAM_WHOLE)
		return verdict;
	*type = read_be16(rest->at + type_at);
	skip_bytes(rest, bytes);
	return DATAGRAM_WHOLE;
}

static bool is_vlan_tag(uint16_t type)
{
	return type == 0x8100 || type == 0x88a8 || type == 0x9100;
}

static enum datagram_verdict skip_links(enum datagram_link link, struct rest *rest, uint16_t *type)
{
	enum datagram_verdict verdict = DATAGRAM_WHOLE;

	switch (link) {
	case DATAGRAM_LINK_ETHERNET:
		verdict = skip_link(rest, 14, 12, type);
		break;
	case DATAGRAM_LINK_SLL:
		verdict = skip_link(rest, 16, 14, type);
		break;
	case DATAGRAM_LINK_SLL2:
		verdict = skip_link(rest, 20, 0, type);
		break;
	case DATAGRAM_LINK_PAYLOAD:
	case DATAGRAM_LINK_FRAGMENT:
		return DATAGRAM_NOT_UDP;
	case DATAGRAM_LINK_IP:
		verdict = check_bytes(rest, 1);
		if (verdict != DATAGRAM_WHOLE)
			return verdict;
		*type = rest->at[0] >> 4 == 4   ? ETHERTYPE_IPV4
		        : rest->at[0] >> 4 == 6 ? ETHERTYPE_IPV6
		                                : ETHERTYPE_NONE;
		return DATAGRAM_WHOLE;
	}
	for (unsigned i = 0; i < VLAN_TAGS_MAX && verdict == DATAGRAM_WHOLE && is_vlan_tag(*type); i++)
		verdict = skip_link(rest, 4, 2, type);
	return verdict;
}

static enum datagram_verdict take_payload(const struct rest *rest, struct datagram *datagram)
{
	if (rest->captured < rest->wire)
		return DATAGRAM_CUT;
	*datagram = (struct datagram){.payload = rest->at, .bytes = rest->captured};
	return DATAGRAM_WHOLE;
}

enum datagram_verdict datagram_find(enum datagram_link link, const uint8_t *frame, uint32_t captured,
                                    uint32_t wire_bytes, struct datagram *datagram)
{
	struct rest rest = {.at = frame, .captured = captured, .wire = wire_bytes > captured ? wire_bytes : captured};
	uint16_t type = ETHERTYPE_NONE;
	enum datagram_verdict verdict;

	if (link == DATAGRAM_LINK_FRAGMENT)
		return DATAGRAM_FRAGMENT;
	if (link == DATAGRAM_LINK_PAYLOAD)
		return take_payload(&rest, datagram);
	verdict = skip_links(link, &rest, &type);
	if (verdict != DATAGRAM_WHOLE)
		return verdict;
	switch (type) {
	case ETHERTYPE_IPV4:
		return find_ipv4(rest, datagram);
	case ETHERTYPE_IPV6:
		return find_ipv6(rest, datagram);
	}
	return DATAGRAM_NOT_UDP;
}
