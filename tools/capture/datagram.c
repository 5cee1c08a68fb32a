// SPDX-License-Identifier: Apache-2.0
/* Judges whether the UDP payload of a recorded frame can be sent again. Nothing in the frame is trusted. */
#include "tools/capture/datagram.h"

#include "lib/frame/frame.h"

#include <net/ethernet.h>
#include <netinet/in.h>

#define SLL_BYTES  16
#define SLL2_BYTES 20

static void walk_link(enum datagram_link link, const uint8_t *bytes, uint32_t captured, uint32_t wire_bytes,
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
		return DATAGRAM_FRAGMENT;
	if (is_udp && frame->ip_end > wire_bytes)
		return DATAGRAM_MALFORMED;
	switch (frame->end) {
	case FRAME_UDP:
		if (frame->l4_at + frame->udp_length > frame->ip_end)
			return DATAGRAM_MALFORMED;
		return frame->payload_at + frame->payload_bytes > captured ? DATAGRAM_CUT : DATAGRAM_WHOLE;
	case FRAME_CUT:
		return DATAGRAM_CUT;
	case FRAME_SHORT:
	case FRAME_MALFORMED:
		return DATAGRAM_MALFORMED;
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

	if (link == DATAGRAM_LINK_FRAGMENT)
		return DATAGRAM_FRAGMENT;
	if (link == DATAGRAM_LINK_PAYLOAD) {
		*datagram = (struct datagram){.payload = frame, .bytes = captured};
		return captured < whole_bytes ? DATAGRAM_CUT : DATAGRAM_WHOLE;
	}
	walk_link(link, frame, captured, whole_bytes, &headers);
	verdict = judge_frame(&headers, captured, whole_bytes);
	if (verdict == DATAGRAM_WHOLE)
		*datagram = (struct datagram){.payload = frame + headers.payload_at,
		                              .bytes = headers.payload_bytes,
		                              .destination_port = frame_be16(frame + headers.l4_at + 2)};
	return verdict;
}
