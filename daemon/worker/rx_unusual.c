// SPDX-License-Identifier: Apache-2.0
/* Rows that are not ordinary: errors, truncated and malformed packets, irregular headers, bad checksums. */
#include "daemon/worker/rx_receive.h"

#include "lib/base/min.h"
#include "lib/frame/frame.h"

#include <string.h>

/* wire: bytes of payload that the packet has. They begin at offset of the row, which holds present bytes. */
static void describe_payload(uint32_t wire, uint32_t offset, uint32_t present, uint32_t slot_bytes,
                             struct ibvcap_meta *meta)
{
	uint32_t length = u32_min(wire, present > offset ? present - offset : 0);

	meta->length = (uint16_t)length;
	meta->wire_length = (uint16_t)u32_min(wire, UINT16_MAX);
	if (length < wire)
		meta->flags |= IBVCAP_PACKET_FLAG_TRUNCATED;
	if (offset + length < slot_bytes)
		meta->flags |= IBVCAP_PACKET_FLAG_SHORT;
}

uint32_t rx_gather_headers(const struct rx_ring *ring, uint32_t frame_bytes, const uint8_t *headers,
                           const uint8_t *payload, uint8_t frame[RX_HEADERS_MAX])
{
	uint32_t in_headers = u32_min(u32_min(frame_bytes, ring->header_bytes), RX_HEADERS_MAX);
	uint32_t in_payload = u32_min(u32_min(frame_bytes - in_headers, ring->slot_bytes), RX_HEADERS_MAX - in_headers);

	memcpy(frame, headers, in_headers);
	if (ring->flags & IBVCAP_RING_FLAG_LENT)
		return in_headers;
	memcpy(frame + in_headers, payload, in_payload);
	return in_headers + in_payload;
}

/* No socket gets anything of it. The row has the frame, as far as it came and has room. */
static void describe_malformed(const struct rx_ring *ring, uint32_t frame_bytes, uint32_t present,
                               struct ibvcap_meta *meta)
{
	meta->flags |= IBVCAP_PACKET_FLAG_MALFORMED | IBVCAP_PACKET_FLAG_UNUSABLE;
	meta->length = (uint16_t)u32_min(present, UINT16_MAX);
	meta->wire_length = (uint16_t)u32_min(frame_bytes - u32_min(frame_bytes, ring->header_bytes), UINT16_MAX);
}

/*
 * The headers may not end where they end in a plain frame: there is a VLAN tag, IP options or a fragment. If they are
 * longer, the payload follows them in the payload row. If they are shorter, or the packet ends in the application's
 * header, the row is unusable.
 */
static void describe_datagram(const struct rx_receive *receive, uint32_t frame_bytes, uint32_t present,
                              const uint8_t *headers, const uint8_t *payload, struct ibvcap_meta *meta)
{
	const struct rx_ring *ring = receive->ring;
	uint32_t plain_bytes = receive->plain.header_bytes, application_bytes = ring->application_header_bytes;
	uint8_t gathered[RX_HEADERS_MAX];
	struct frame frame;

	frame_walk(gathered, rx_gather_headers(ring, frame_bytes, headers, payload, gathered), frame_bytes, &frame);
	if (frame_is_malformed(&frame, frame_bytes)) {
		describe_malformed(ring, frame_bytes, present, meta);
		return;
	}
	if (!packet_is_plain(&receive->plain, headers + receive->plain.l3))
		meta->flags |= IBVCAP_PACKET_FLAG_IRREGULAR;
	if (frame.end != FRAME_UDP && frame.end != FRAME_LATER_FRAGMENT) {
		meta->flags |= IBVCAP_PACKET_FLAG_UNUSABLE;
		return;
	}
	if (frame_is_fragment(&frame))
		meta->flags |= IBVCAP_PACKET_FLAG_FRAGMENT;
	if (frame.payload_at < plain_bytes || frame.payload_bytes < application_bytes ||
	    frame_bytes < frame.payload_at + application_bytes) {
		meta->flags |= IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_UNUSABLE;
	} else {
		meta->header_length = (uint8_t)frame.payload_at;
		describe_payload(frame.payload_bytes - application_bytes, frame.payload_at - plain_bytes, present,
		                 ring->slot_bytes, meta);
	}
	meta->wire_length = (uint16_t)(frame.datagram_bytes - u32_min(frame.datagram_bytes, application_bytes));
}

static void describe_frame(const struct rx_ring *ring, uint32_t frame_bytes, uint32_t present, struct ibvcap_meta *meta)
{
	if (frame_bytes < ring->header_bytes)
		meta->flags |= IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_UNUSABLE;
	else
		describe_payload(frame_bytes - ring->header_bytes, 0, present, ring->slot_bytes, meta);
}

static void tally_unusual(const struct ibvcap_meta *meta, struct rx_tally *tally)
{
	tally->unusual++;
	tally->errored += !!(meta->flags & IBVCAP_PACKET_FLAG_ERROR);
	tally->bytes += meta->length;
	tally->shorts += !!(meta->flags & IBVCAP_PACKET_FLAG_SHORT);
	tally->truncated += !!(meta->flags & IBVCAP_PACKET_FLAG_TRUNCATED);
	tally->irregular += !!(meta->flags & IBVCAP_PACKET_FLAG_IRREGULAR);
	if (meta->flags & IBVCAP_PACKET_FLAG_FRAGMENT) {
		tally->fragments++;
		tally->fragment_lost_bytes += (uint32_t)(meta->wire_length - meta->length);
	}
	tally->bad_checksum += !!(meta->flags & IBVCAP_PACKET_FLAG_BAD_CHECKSUM);
	tally->malformed += !!(meta->flags & IBVCAP_PACKET_FLAG_MALFORMED);
}

/*
 * Zero the bytes behind the packet in both rows; the header row always, because only the packet's own length field says
 * where it ends.
 */
static void zero_unusual(const struct rx_receive *receive, const struct rx_span *span, uint32_t i, uint32_t frame_bytes,
                         uint32_t present)
{
	const struct rx_ring *ring = receive->ring;
	const struct ibvcap_meta *meta = &span->meta[i];
	uint8_t *headers = span->headers + (size_t)i * ring->header_stride;
	uint32_t in_headers = u32_min(frame_bytes, ring->header_bytes), from = present;

	if (ring->flags & IBVCAP_RING_FLAG_ZERO_REST || !(meta->flags & IBVCAP_PACKET_FLAG_ERROR))
		memset(headers + in_headers, 0, ring->header_bytes - in_headers);
	if (!(ring->flags & IBVCAP_RING_FLAG_ZERO_REST))
		return;
	if (!(meta->flags & (IBVCAP_PACKET_FLAG_ERROR | IBVCAP_PACKET_FLAG_UNUSABLE)))
		from = u32_min(meta->header_length - receive->plain.header_bytes + meta->length, present);
	rx_zero_rest(ring, span, i, from);
}

__attribute__((noinline, cold)) void rx_describe_unusual(const struct rx_receive *receive,
                                                         const struct backend_event *event, const struct rx_span *span,
                                                         uint32_t i, struct rx_tally *tally)
{
	const struct rx_ring *ring = receive->ring;
	const uint8_t *headers = span->headers + (size_t)i * ring->header_stride;
	const uint8_t *payload = span->payload + (size_t)i * ring->row_stride;
	bool is_error = event->status != BACKEND_OK;
	uint32_t frame_bytes = is_error ? 0 : event->bytes;
	uint32_t present = u32_min(frame_bytes - u32_min(frame_bytes, ring->header_bytes), ring->slot_bytes);
	struct ibvcap_meta *meta = &span->meta[i];
	uint32_t header_bytes =
		is_error ? receive->plain.header_bytes : u32_min(receive->plain.header_bytes, frame_bytes);

	*meta = (struct ibvcap_meta){.timestamp_ns = meta->timestamp_ns, .header_length = (uint8_t)header_bytes};
	if (event->flags & BACKEND_EVENT_CHECKSUM_BAD)
		meta->flags |= IBVCAP_PACKET_FLAG_BAD_CHECKSUM;
	if (event->flags & BACKEND_EVENT_CHECKSUM_PARTIAL)
		meta->flags |= IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM;
	if (is_error)
		meta->flags = IBVCAP_PACKET_FLAG_ERROR;
	else if (ring->flags & IBVCAP_RING_FLAG_FRAMES)
		describe_frame(ring, frame_bytes, present, meta);
	else
		describe_datagram(receive, frame_bytes, present, headers, payload, meta);
	zero_unusual(receive, span, i, frame_bytes, present);
	tally_unusual(meta, tally);
}
