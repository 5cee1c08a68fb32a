// SPDX-License-Identifier: Apache-2.0
/* Judges whether the UDP payload of a frame can be sent again. Nothing in a frame is trusted. */
#include "lib/recording/datagram.h"

#include "lib/base/min.h"

#include <net/ethernet.h>
#include <netinet/in.h>
#include <stdbool.h>

#define SLL_BYTES      16
#define SLL2_BYTES     20
#define LOOPBACK_BYTES 4

/* Link types of pcapng files (LINKTYPE_ of tcpdump.org). */
static const struct {
	uint16_t type;
	enum datagram_link link;
} link_types[] = {
	{0, DATAGRAM_LINK_LOOPBACK},                            /* NULL: in the order of the machine that captured */
	{1, DATAGRAM_LINK_ETHERNET},   {12, DATAGRAM_LINK_IP},  /* raw IP in files of some BSDs */
	{14, DATAGRAM_LINK_IP},        {101, DATAGRAM_LINK_IP}, /* RAW */
	{108, DATAGRAM_LINK_LOOPBACK},                          /* LOOP: in the order of the network */
	{113, DATAGRAM_LINK_SLL},      {228, DATAGRAM_LINK_IP}, /* IPV4 */
	{229, DATAGRAM_LINK_IP},                                /* IPV6 */
	{276, DATAGRAM_LINK_SLL2},
};

enum datagram_link datagram_link_of(uint16_t link_type)
{
	for (unsigned i = 0; i < sizeof(link_types) / sizeof(link_types[0]); i++)
		if (link_types[i].type == link_type)
			return link_types[i].link;
	return DATAGRAM_LINK_UNKNOWN;
}

/* The EtherType of an address family. Systems number IPv6's differently: Linux, Windows, NetBSD, FreeBSD, Darwin. */
static uint16_t type_of_family(const uint8_t *at)
{
	uint32_t family = (uint32_t)frame_be16(at) << 16 | frame_be16(at + 2);

	if (family > UINT16_MAX)
		family = __builtin_bswap32(family);
	switch (family) {
	case 2:
		return ETHERTYPE_IP;
	case 10:
	case 23:
	case 24:
	case 28:
	case 30:
		return ETHERTYPE_IPV6;
	default:
		return 0;
	}
}

void datagram_walk(enum datagram_link link, const uint8_t *bytes, uint32_t captured, uint32_t wire_bytes,
                   struct frame *frame)
{
	uint8_t version = captured ? bytes[0] >> 4 : 4;

	switch (link) {
	case DATAGRAM_LINK_SLL:
		frame_walk_from(bytes, captured, wire_bytes, SLL_BYTES,
		                captured < SLL_BYTES ? 0 : frame_be16(bytes + SLL_BYTES - 2), frame);
		return;
	case DATAGRAM_LINK_SLL2:
		frame_walk_from(bytes, captured, wire_bytes, SLL2_BYTES, captured < 2 ? 0 : frame_be16(bytes), frame);
		return;
	case DATAGRAM_LINK_LOOPBACK:
		frame_walk_from(bytes, captured, wire_bytes, LOOPBACK_BYTES,
		                captured < LOOPBACK_BYTES ? 0 : type_of_family(bytes), frame);
		return;
	case DATAGRAM_LINK_IP:
		frame_walk_from(bytes, captured, wire_bytes, 0,
		                version == 4   ? ETHERTYPE_IP
		                : version == 6 ? ETHERTYPE_IPV6
		                               : 0,
		                frame);
		return;
	default:
		frame_walk(bytes, captured, wire_bytes, frame);
	}
}

static enum datagram_verdict judge_frame(const struct frame *frame, uint32_t captured, uint32_t wire_bytes)
{
	bool is_udp = frame->ip_version && frame->protocol == IPPROTO_UDP;

	if (is_udp && frame_is_fragment(frame))
		return captured < wire_bytes && captured < frame->ip_end ? DATAGRAM_CUT : DATAGRAM_FRAGMENT;
	if (frame_is_malformed(frame, wire_bytes))
		return DATAGRAM_MALFORMED;
	switch (frame->end) {
	case FRAME_UDP:
		return frame->payload_at + frame->payload_bytes > captured ? DATAGRAM_CUT : DATAGRAM_WHOLE;
	case FRAME_CUT:
		return DATAGRAM_CUT;
	default:
		return DATAGRAM_NOT_UDP;
	}
}

enum datagram_verdict datagram_find(enum datagram_link link, const uint8_t *frame, uint32_t captured,
                                    uint32_t wire_bytes, struct datagram *datagram)
{
	uint32_t whole_bytes = wire_bytes > captured ? wire_bytes : captured;
	enum datagram_verdict verdict;
	struct frame headers;

	if (link == DATAGRAM_LINK_UNKNOWN)
		return DATAGRAM_UNKNOWN_LINK;
	if (link == DATAGRAM_LINK_FRAGMENT)
		return DATAGRAM_FRAGMENT;
	if (link == DATAGRAM_LINK_PAYLOAD) {
		*datagram = (struct datagram){.payload = frame, .bytes = captured, .whole_bytes = whole_bytes};
		return captured < whole_bytes ? DATAGRAM_CUT : DATAGRAM_WHOLE;
	}
	datagram_walk(link, frame, captured, whole_bytes, &headers);
	verdict = judge_frame(&headers, captured, whole_bytes);
	if (headers.end == FRAME_UDP && verdict != DATAGRAM_MALFORMED)
		*datagram =
			(struct datagram){.payload = frame + headers.payload_at,
		                          .bytes = verdict == DATAGRAM_WHOLE ? headers.payload_bytes
		                                                             : u32_min(headers.payload_bytes,
		                                                                       captured - headers.payload_at),
		                          .whole_bytes = headers.payload_bytes,
		                          .destination_port = frame_be16(frame + headers.l4_at + 2),
		                          .ip_at = headers.l3_at};
	return verdict;
}
