// SPDX-License-Identifier: Apache-2.0
/* Finds the headers of a frame, from Ethernet to UDP. Pure and bounded; nothing in the frame is trusted. */
#ifndef LIB_FRAME_FRAME_H
#define LIB_FRAME_FRAME_H

#include <net/ethernet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define FRAME_TAGS_MAX       4
#define FRAME_EXTENSIONS_MAX 8
#define FRAME_TAG_BYTES      4
#define FRAME_IPV4_BYTES     20 /* without options */
#define FRAME_IPV6_BYTES     40 /* without extension headers */
#define FRAME_UDP_BYTES      8

/* Why the walk ended. */
enum frame_end {
	FRAME_UDP,            /* at the payload of a datagram, or of its first fragment */
	FRAME_LATER_FRAGMENT, /* at the payload of a later fragment of UDP, which has no UDP header */
	FRAME_OTHER_PROTOCOL, /* the protocol behind the IP headers is not UDP */
	FRAME_OTHER_TYPE,     /* the EtherType behind the tags is not that of IP */
	FRAME_TOO_MANY_TAGS,
	FRAME_TOO_MANY_EXTENSIONS,
	FRAME_CUT,       /* the next header ends behind the bytes that were captured */
	FRAME_SHORT,     /* the next header ends behind the frame */
	FRAME_MALFORMED, /* the IP version is not that of the EtherType, or lengths contradict each other */
};

/* Positions count bytes from the beginning of the frame. Members that the walk did not reach are 0. */
struct frame {
	enum frame_end end;
	uint16_t ether_type; /* behind the tags */
	uint8_t n_tags;
	uint8_t n_extensions;
	uint8_t ip_version; /* 4 or 6: the IP header at l3_at was captured, but for the options of IPv4 */
	uint8_t protocol;   /* the last one that an IP header names */
	bool more_fragments;
	uint16_t fragment_offset; /* 0: not a fragment, or the first one */
	uint16_t udp_length;
	uint32_t fragment_id;
	uint32_t l3_at;
	uint32_t l4_at;  /* behind the IP headers, which were captured */
	uint32_t ip_end; /* by the length in the IP header; may be anywhere */
	/* IPv6: the fragment header, and the byte that names it in the header before it. */
	uint32_t fragment_at;
	uint32_t fragment_named_at;
	/* For FRAME_UDP and FRAME_LATER_FRAGMENT. By the headers: the frame may have less. */
	uint32_t payload_at;
	/* By the shorter of the IP and UDP lengths; in fragments, and if the UDP length of IPv6 is 0, by that of IP. */
	uint32_t payload_bytes;
	uint32_t datagram_bytes; /* payload of all fragments, if this is the first one; else payload_bytes */
};

static inline bool frame_is_fragment(const struct frame *frame)
{
	return frame->more_fragments || frame->fragment_offset;
}

/**
 * Do the lengths in its headers contradict each other, or does the frame end before they say? A socket gets nothing of
 * such a packet. wire_bytes as for the walk. A first fragment's UDP length counts other fragments, too.
 */
bool frame_is_malformed(const struct frame *frame, uint32_t wire_bytes);

static inline uint16_t frame_be16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/**
 * Walk a frame that had wire_bytes, of which the first captured bytes are readable: Ethernet, VLAN tags (0x8100,
 * 0x88a8, 0x9100), IPv4 with options or IPv6 with extension headers, UDP. It does not look into tunnels.
 */
void frame_walk(const uint8_t *bytes, uint32_t captured, uint32_t wire_bytes, struct frame *frame);

/** The same for another link header, which ends at `at` and names this EtherType. */
void frame_walk_from(const uint8_t *bytes, uint32_t captured, uint32_t wire_bytes, uint32_t at, uint16_t ether_type,
                     struct frame *frame);

/**
 * Fast path for callers that need no lengths: UDP behind at most one tag, and IP without options, extension headers
 * and fragments. Sets only ip_version, protocol, fragment_offset, l3_at and l4_at, to the values of frame_walk().
 * False: the frame is of another kind; call frame_walk().
 */
static inline bool frame_find_plain(const uint8_t *bytes, uint32_t captured, struct frame *frame)
{
	uint32_t l3_at = ETHER_HDR_LEN, ip_bytes;
	const uint8_t *ip;
	uint16_t type;

	if (captured < ETHER_HDR_LEN + FRAME_TAG_BYTES)
		return false;
	type = frame_be16(bytes + ETHER_HDR_LEN - 2);
	if (type == ETHERTYPE_VLAN) {
		type = frame_be16(bytes + ETHER_HDR_LEN + 2);
		l3_at += FRAME_TAG_BYTES;
	}
	ip = bytes + l3_at;
	ip_bytes = type == ETHERTYPE_IP ? FRAME_IPV4_BYTES : FRAME_IPV6_BYTES;
	if (captured < l3_at + ip_bytes + FRAME_UDP_BYTES)
		return false;
	if (type == ETHERTYPE_IP) {
		if (ip[0] != 0x45 || ip[9] != IPPROTO_UDP || frame_be16(ip + 6) & 0x3fff)
			return false;
	} else if (type != ETHERTYPE_IPV6 || ip[0] >> 4 != 6 || ip[6] != IPPROTO_UDP) {
		return false;
	}
	frame->ip_version = ip[0] >> 4;
	frame->protocol = IPPROTO_UDP;
	frame->fragment_offset = 0;
	frame->l3_at = l3_at;
	frame->l4_at = l3_at + ip_bytes;
	return true;
}

#endif
