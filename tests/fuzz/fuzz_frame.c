// SPDX-License-Identifier: Apache-2.0
/*
 * The walk over the headers of any frame reads nothing outside of the captured bytes, and what it finds lies in them. A
 * frame of which a byte less was captured has the same answer, or is cut. The BPF programs find the same ports in the
 * frames that they know. The first byte is how many bytes were not captured.
 */
#include "daemon/backend/bpf/flow_key.h"
#include "lib/frame/frame_checksum.h"
#include "lib/recording/capture.h"
#include "tests/fuzz/require.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_places(const struct frame *frame, uint32_t captured)
{
	uint32_t l3_end = frame->l3_at + (frame->ip_version == 4 ? 20u : frame->ip_version == 6 ? 40u : 0u);
	bool has_payload = frame->end == FRAME_UDP || frame->end == FRAME_LATER_FRAGMENT;

	require(frame->n_tags <= FRAME_TAGS_MAX && frame->n_extensions <= FRAME_EXTENSIONS_MAX, "the bounds hold");
	require(l3_end <= captured && frame->l4_at <= captured, "headers lie in the captured bytes");
	require(!frame->l4_at || frame->l4_at >= l3_end, "behind each other");
	require(has_payload == (frame->payload_at != 0), "only UDP has a payload");
	if (!has_payload)
		return;
	require(frame->payload_at >= frame->l4_at && frame->payload_at <= captured, "the payload follows the headers");
	require(frame->payload_at + frame->payload_bytes <= frame->ip_end, "and lies in the IP packet");
	require(frame->datagram_bytes >= frame->payload_bytes, "a fragment is no longer than its datagram");
	require((frame->end == FRAME_LATER_FRAGMENT) == (frame->fragment_offset != 0),
	        "a later fragment has an offset");
}

static void check_plain(const uint8_t *bytes, uint32_t captured, const struct frame *frame)
{
	struct frame plain;

	if (!frame_find_plain(bytes, captured, &plain))
		return;
	require(plain.l3_at == frame->l3_at && plain.l4_at == frame->l4_at && plain.ip_version == frame->ip_version,
	        "the fast path finds the same headers");
	require(frame->protocol == IPPROTO_UDP && !frame_is_fragment(frame), "of UDP");
}

/* One byte less was captured: the walk ends at the same place, or was cut before. */
static void check_cut(const uint8_t *bytes, uint32_t captured, uint32_t wire_bytes, const struct frame *whole)
{
	struct frame frame;

	if (captured == 0)
		return;
	frame_walk(bytes, captured - 1, wire_bytes, &frame);
	require(frame.end == FRAME_CUT || (frame.end == whole->end && frame.l4_at == whole->l4_at &&
	                                   frame.payload_bytes == whole->payload_bytes),
	        "one byte less changes nothing");
}

static void check_datagram(const uint8_t *bytes, uint32_t captured, uint32_t wire_bytes, const struct frame *frame)
{
	struct datagram datagram;

	if (datagram_find(DATAGRAM_LINK_ETHERNET, bytes, captured, wire_bytes, &datagram) != DATAGRAM_WHOLE)
		return;
	require(frame->end == FRAME_UDP && !frame_is_fragment(frame), "a whole datagram is UDP");
	require(datagram.payload == bytes + frame->payload_at && datagram.bytes == frame->payload_bytes, "the payload");
	require(frame->payload_at + datagram.bytes <= captured, "was captured");
}

static void check_checksum(const uint8_t *bytes, uint32_t captured, const struct frame *frame)
{
	struct frame_checksum checksum;

	if (!frame_find_checksum(bytes, captured, &checksum))
		return;
	require(checksum.from == frame->l4_at && !frame_is_fragment(frame), "it is of the header that the walk finds");
	require(checksum.at + 2 <= captured && checksum.at - checksum.from < checksum.bytes, "which has the field");
}

/* The programs take no more than two tags, none of type 0x9100, and no extension headers. */
static void check_programs(const uint8_t *bytes, uint32_t captured, const struct frame *frame)
{
	struct flow_headers headers = {0};
	bool is_read = flow_key_read_frame(bytes, bytes + captured, 0, &headers, true);

	for (uint32_t i = 0; i < frame->n_tags; i++)
		if (frame_be16(bytes + 12 + 4 * i) == 0x9100)
			return;
	if (frame->end != FRAME_UDP || frame->n_tags > 2 || frame->n_extensions)
		return;
	require(is_read && headers.key.ip_version == frame->ip_version && headers.key.protocol == IPPROTO_UDP,
	        "the programs know UDP");
	require(memcmp(&headers.key.source_port_be, bytes + frame->l4_at, 2) == 0 &&
	                memcmp(&headers.key.destination_port_be, bytes + frame->l4_at + 2, 2) == 0,
	        "they find the same ports");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t captured = size ? (uint32_t)size - 1 : 0, wire_bytes = captured + (size ? data[0] : 0);
	uint8_t *bytes = malloc(captured ? captured : 1);
	struct frame frame;

	if (!bytes)
		abort();
	/* Of that size exactly, so that a read behind it is found. */
	memcpy(bytes, data + !!size, captured);
	frame_walk(bytes, captured, wire_bytes, &frame);
	require(frame.end != FRAME_CUT || wire_bytes > captured, "only what was not captured is cut");
	check_places(&frame, captured);
	check_plain(bytes, captured, &frame);
	check_cut(bytes, captured, wire_bytes + 1, &frame);
	check_datagram(bytes, captured, wire_bytes, &frame);
	check_checksum(bytes, captured, &frame);
	check_programs(bytes, captured, &frame);
	free(bytes);
	return 0;
}
