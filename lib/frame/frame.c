// SPDX-License-Identifier: Apache-2.0
/* The walk over the headers of a frame, one header after another and each once. */
#include "lib/frame/frame.h"

#define EXTENSION_BYTES_MIN 8

#define IPV4_OFFSET_BITS 0x1fff
#define IPV4_MORE        0x2000
#define IPV6_OFFSET_BITS 0xfff8
#define IPV6_MORE        0x0001

#define IPV6_NEXT_HEADER 6

struct walk {
	const uint8_t *bytes;
	uint32_t captured;
	uint32_t wire_bytes;
};

/* False: a header that ends at `at` was not captured, and the walk ends. */
static bool walk_reaches(const struct walk *walk, uint32_t at, struct frame *frame)
{
	if (at <= walk->captured)
		return true;
	frame->end = at > walk->wire_bytes ? FRAME_SHORT : FRAME_CUT;
	return false;
}

static void walk_udp(const struct walk *walk, struct frame *frame)
{
	uint32_t ip_bytes = frame->ip_end - frame->l4_at;

	if (ip_bytes < FRAME_UDP_BYTES) {
		frame->end = FRAME_MALFORMED;
		return;
	}
	if (!walk_reaches(walk, frame->l4_at + FRAME_UDP_BYTES, frame))
		return;
	frame->udp_length = frame_be16(walk->bytes + frame->l4_at + 4);
	if (frame->udp_length == 0 && frame->ip_version == 6) /* of a jumbogram (RFC 2675); Linux takes others, too */
		frame->udp_length = (uint16_t)ip_bytes;
	if (frame->udp_length < FRAME_UDP_BYTES) {
		frame->end = FRAME_MALFORMED;
		return;
	}
	frame->end = FRAME_UDP;
	frame->payload_at = frame->l4_at + FRAME_UDP_BYTES;
	frame->payload_bytes = frame->datagram_bytes = ip_bytes - FRAME_UDP_BYTES;
	if (frame->more_fragments && frame->udp_length > ip_bytes)
		frame->datagram_bytes = frame->udp_length - FRAME_UDP_BYTES;
	else if (!frame->more_fragments && frame->udp_length < ip_bytes) /* bytes follow that are not of the datagram */
		frame->payload_bytes = frame->datagram_bytes = frame->udp_length - FRAME_UDP_BYTES;
}

static void walk_transport(const struct walk *walk, uint32_t at, struct frame *frame)
{
	frame->l4_at = at;
	if (frame->protocol != IPPROTO_UDP) {
		frame->end = FRAME_OTHER_PROTOCOL;
	} else if (frame->ip_end < at) {
		frame->end = FRAME_MALFORMED;
	} else if (frame->fragment_offset) {
		frame->end = FRAME_LATER_FRAGMENT;
		frame->payload_at = at;
		frame->payload_bytes = frame->datagram_bytes = frame->ip_end - at;
	} else {
		walk_udp(walk, frame);
	}
}

bool frame_is_malformed(const struct frame *frame, uint32_t wire_bytes)
{
	if (frame->end == FRAME_SHORT || frame->end == FRAME_MALFORMED)
		return true;
	if (frame->ip_version && frame->protocol == IPPROTO_UDP && frame->ip_end > wire_bytes)
		return true;
	return frame->end == FRAME_UDP && !frame->more_fragments && frame->l4_at + frame->udp_length > frame->ip_end;
}

static void walk_ipv4(const struct walk *walk, struct frame *frame)
{
	const uint8_t *ip = walk->bytes + frame->l3_at;
	uint32_t header_bytes;
	uint16_t fragment;

	if (!walk_reaches(walk, frame->l3_at + FRAME_IPV4_BYTES, frame))
		return;
	header_bytes = (ip[0] & 15u) * 4;
	if (ip[0] >> 4 != 4 || header_bytes < FRAME_IPV4_BYTES) {
		frame->end = FRAME_MALFORMED;
		return;
	}
	fragment = frame_be16(ip + 6);
	frame->ip_version = 4;
	frame->ip_end = frame->l3_at + frame_be16(ip + 2);
	frame->fragment_id = frame_be16(ip + 4);
	frame->more_fragments = fragment & IPV4_MORE;
	frame->fragment_offset = (uint16_t)((fragment & IPV4_OFFSET_BITS) << 3);
	frame->protocol = ip[9];
	if (walk_reaches(walk, frame->l3_at + header_bytes, frame))
		walk_transport(walk, frame->l3_at + header_bytes, frame);
}

static void read_fragment(const uint8_t *extension, struct frame *frame)
{
	uint16_t fragment = frame_be16(extension + 2);

	frame->fragment_offset = fragment & IPV6_OFFSET_BITS;
	frame->more_fragments |= fragment & IPV6_MORE; /* neither: an atomic fragment (RFC 6946), which is whole */
	frame->fragment_id = (uint32_t)frame_be16(extension + 4) << 16 | frame_be16(extension + 6);
}

/* The size of an extension header, from its length byte (RFC 8200, section 4; AH: RFC 4302). 0: no such header. */
static uint32_t extension_bytes(uint8_t protocol, uint32_t length)
{
	switch (protocol) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
		return (length + 1) * 8;
	case IPPROTO_AH:
		return (length + 2) * 4;
	case IPPROTO_FRAGMENT:
		return EXTENSION_BYTES_MIN;
	default:
		return 0;
	}
}

/* Move *at behind the extension headers. False: the walk ends. */
static bool walk_extensions(const struct walk *walk, uint32_t *at, struct frame *frame)
{
	uint32_t named_at = frame->l3_at + IPV6_NEXT_HEADER;

	for (; extension_bytes(frame->protocol, 0) && !frame->fragment_offset; frame->n_extensions++) {
		const uint8_t *extension = walk->bytes + *at;
		uint32_t bytes;

		if (frame->n_extensions == FRAME_EXTENSIONS_MAX) {
			frame->end = FRAME_TOO_MANY_EXTENSIONS;
			return false;
		}
		if (!walk_reaches(walk, *at + EXTENSION_BYTES_MIN, frame))
			return false;
		bytes = extension_bytes(frame->protocol, extension[1]);
		if (*at + bytes > frame->ip_end) {
			frame->end = FRAME_MALFORMED;
			return false;
		}
		if (!walk_reaches(walk, *at + bytes, frame))
			return false;
		if (frame->protocol == IPPROTO_FRAGMENT) {
			read_fragment(extension, frame);
			frame->fragment_at = *at;
			frame->fragment_named_at = named_at;
		}
		frame->protocol = extension[0];
		named_at = *at;
		*at += bytes;
	}
	return true;
}

static void walk_ipv6(const struct walk *walk, struct frame *frame)
{
	const uint8_t *ip = walk->bytes + frame->l3_at;
	uint32_t at = frame->l3_at + FRAME_IPV6_BYTES;

	if (!walk_reaches(walk, at, frame))
		return;
	if (ip[0] >> 4 != 6) {
		frame->end = FRAME_MALFORMED;
		return;
	}
	frame->ip_version = 6;
	frame->ip_end = at + frame_be16(ip + 4);
	frame->protocol = ip[6];
	if (walk_extensions(walk, &at, frame))
		walk_transport(walk, at, frame);
}

static bool is_tag(uint16_t type)
{
	return type == ETHERTYPE_VLAN || type == 0x88a8 || type == 0x9100;
}

void frame_walk_from(const uint8_t *bytes, uint32_t captured, uint32_t wire_bytes, uint32_t at, uint16_t ether_type,
                     struct frame *frame)
{
	const struct walk walk = {bytes, captured, wire_bytes};

	*frame = (struct frame){.ether_type = ether_type};
	if (!walk_reaches(&walk, at, frame))
		return;
	for (; is_tag(frame->ether_type); frame->n_tags++, at += FRAME_TAG_BYTES) {
		if (frame->n_tags == FRAME_TAGS_MAX) {
			frame->end = FRAME_TOO_MANY_TAGS;
			return;
		}
		if (!walk_reaches(&walk, at + FRAME_TAG_BYTES, frame))
			return;
		frame->ether_type = frame_be16(bytes + at + 2);
	}
	frame->l3_at = at;
	if (frame->ether_type == ETHERTYPE_IP)
		walk_ipv4(&walk, frame);
	else if (frame->ether_type == ETHERTYPE_IPV6)
		walk_ipv6(&walk, frame);
	else
		frame->end = FRAME_OTHER_TYPE;
}

void frame_walk(const uint8_t *bytes, uint32_t captured, uint32_t wire_bytes, struct frame *frame)
{
	frame_walk_from(bytes, captured, wire_bytes, ETHER_HDR_LEN,
	                captured < ETHER_HDR_LEN ? 0 : frame_be16(bytes + ETHER_HDR_LEN - 2), frame);
}
