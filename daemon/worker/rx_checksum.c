// SPDX-License-Identifier: Apache-2.0
/*
 * Verifies the checksums of rows: the sums of the IPv4 header and of UDP, over both rows of a packet. What cannot be
 * summed counts as right: TCP, fragments, packets with extension headers of IPv6, and those of which bytes are missing.
 */
#include "daemon/worker/rx_receive.h"

#include "lib/base/min.h"
#include "lib/frame/frame_checksum.h"

#include <byteswap.h>

#define UDP_LENGTH   4
#define UDP_CHECKSUM 6
#define SUM_OF_RIGHT UINT16_MAX /* of all that a checksum covers, and the checksum */

/* n bytes of a frame from `from` on. Those in the payload row may begin in the middle of a 16-bit word. */
static uint64_t sum_rows(const struct rx_ring *ring, const uint8_t *headers, const uint8_t *payload, uint32_t from,
                         uint32_t n)
{
	uint32_t in_headers = from < ring->header_bytes ? u32_min(n, ring->header_bytes - from) : 0;
	uint32_t at = from + in_headers - ring->header_bytes; /* of no meaning if all bytes are in the header row */
	uint16_t rest = n > in_headers ? checksum_fold(checksum_sum_bytes(payload + at, n - in_headers)) : 0;

	return checksum_sum_bytes(headers + from, in_headers) + (in_headers % 2 ? bswap_16(rest) : rest);
}

/* The headers of a frame, which begin at the address that is returned: the header row, if it has all of them. */
static const uint8_t *find_checked_headers(const struct rx_ring *ring, const uint8_t *headers, const uint8_t *payload,
                                           uint32_t frame_bytes, uint8_t gathered[RX_HEADERS_MAX], struct frame *frame)
{
	*frame = (struct frame){.end = FRAME_UDP};
	if (frame_find_plain(headers, u32_min(frame_bytes, ring->header_bytes), frame)) {
		frame->udp_length = frame_be16(headers + frame->l4_at + UDP_LENGTH);
		return headers;
	}
	frame_walk(gathered, rx_gather_headers(ring, frame_bytes, headers, payload, gathered), frame_bytes, frame);
	return gathered;
}

/* IPv6 has no other sum over its header, so a checksum of 0 is not allowed there (RFC 8200, 8.1). */
static bool has_wrong_checksum(const struct rx_ring *ring, const uint8_t *headers, const uint8_t *payload,
                               uint32_t frame_bytes)
{
	uint32_t present = u32_min(frame_bytes, ring->header_bytes + ring->slot_bytes);
	uint8_t gathered[RX_HEADERS_MAX];
	struct frame frame;
	const uint8_t *first = find_checked_headers(ring, headers, payload, frame_bytes, gathered, &frame);

	if (frame.l4_at && frame.ip_version == 4 &&
	    checksum_fold(checksum_sum_bytes(first + frame.l3_at, frame.l4_at - frame.l3_at)) != SUM_OF_RIGHT)
		return true;
	if (frame.end != FRAME_UDP || frame_is_fragment(&frame) || frame.n_extensions ||
	    frame.udp_length < FRAME_UDP_BYTES || frame.udp_length > present - frame.l4_at)
		return false;
	if (frame_be16(first + frame.l4_at + UDP_CHECKSUM) == 0)
		return frame.ip_version == 6;
	return checksum_fold(frame_pseudo_sum(first, &frame, frame.udp_length) +
	                     sum_rows(ring, headers, payload, frame.l4_at, frame.udp_length)) != SUM_OF_RIGHT;
}

void rx_verify_checksums(const struct rx_ring *ring, const struct rx_span *span, struct backend_event *events)
{
	const uint8_t known = BACKEND_EVENT_CHECKSUM_GOOD | BACKEND_EVENT_CHECKSUM_BAD | BACKEND_EVENT_CHECKSUM_PARTIAL;

	for (uint32_t i = 0; i < span->n; i++) {
		struct backend_event *event = &events[i];

		if (event->status == BACKEND_OK && !(event->flags & known) &&
		    has_wrong_checksum(ring, span->headers + (size_t)i * ring->header_stride,
		                       span->payload + (size_t)i * ring->row_stride, event->bytes))
			event->flags |= BACKEND_EVENT_CHECKSUM_BAD;
		event->flags &= (uint8_t)~BACKEND_EVENT_CHECKSUM_GOOD;
	}
}
