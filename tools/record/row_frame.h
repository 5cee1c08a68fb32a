// SPDX-License-Identifier: Apache-2.0
/* Turns a row of a batch into the frame that came from the wire: the only place that knows how a row is laid out. */
#ifndef TOOLS_RECORD_ROW_FRAME_H
#define TOOLS_RECORD_ROW_FRAME_H

#include <ibvcap/ibvcap.h>

/* Two pieces of memory: the headers, and what is in the payload's row. */
struct row_frame {
	const uint8_t *at[2];
	uint32_t bytes[2];
	uint32_t wire_bytes; /* of the whole frame, without padding and FCS */
};

static inline uint32_t row_frame_min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/**
 * The device splits a frame at the same byte always. Headers that are longer than that go on in the payload's row, up
 * to payload_offset. Of a row without a payload that is known (IBVCAP_PACKET_FLAG_UNUSABLE) only the headers are.
 */
static inline void row_frame_of(const struct ibvcap_rx_batch *batch, uint32_t i, struct row_frame *frame)
{
	const struct ibvcap_meta *meta = &batch->meta[i];
	uint32_t header_length = meta->header_length, offset = row_frame_min(meta->payload_offset, header_length);
	uint32_t length = meta->length, wire = meta->wire_length;

	/* A datagram's wire_length is that of all its fragments. */
	if ((meta->flags & (IBVCAP_PACKET_FLAG_FRAGMENT | IBVCAP_PACKET_FLAG_TRUNCATED)) == IBVCAP_PACKET_FLAG_FRAGMENT)
		wire = length;
	frame->at[0] = ibvcap_rx_headers(batch, i);
	frame->bytes[0] = row_frame_min(header_length - offset, batch->header_stride);
	frame->at[1] = batch->payload + (size_t)i * batch->stride;
	frame->bytes[1] = row_frame_min(offset + length, batch->stride);
	if (length == 0 && offset == 0)
		frame->bytes[1] = 0;
	frame->wire_bytes = header_length + (wire > length ? wire : length);
}

/** Leave only the first bytes of the frame. */
static inline void row_frame_cut(struct row_frame *frame, uint32_t bytes)
{
	frame->bytes[0] = row_frame_min(frame->bytes[0], bytes);
	frame->bytes[1] = row_frame_min(frame->bytes[1], bytes - frame->bytes[0]);
}

#endif
