// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the parts of a packet in its row, of a ring or of a file of `record --raw`, and the checksum that it would have
 * on a wire.
 */
#ifndef LIB_RECORDING_ROW_FRAME_H
#define LIB_RECORDING_ROW_FRAME_H

#include "lib/frame/frame.h"

#include <ibvcap/ibvcap.h>

/* Two pieces of memory: the headers, and the bytes in the payload's row. */
struct row_frame {
	const uint8_t *at[2];
	uint32_t bytes[2];
	uint32_t wire_bytes; /* length of the whole frame, without padding and FCS */
	/* What a copy of the frame gets at this byte, because the sender's machine left it out; 0: nothing. */
	uint32_t checksum_at;
	uint16_t checksum; /* in the order of memory */
};

/** Compute the checksum of a frame with IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM, if all of the frame is in its row. */
void row_frame_find_checksum(struct row_frame *frame);

static inline uint32_t row_frame_min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint32_t row_frame_max(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/**
 * The device splits each frame behind the headers of an ordinary packet of the stream. Longer headers continue in
 * the row of the payload. Returns how many of their bytes are there.
 */
static inline uint32_t row_frame_longer(const struct ibvcap_meta *meta, uint32_t ordinary_bytes)
{
	return meta->header_length - row_frame_min(ordinary_bytes, meta->header_length);
}

/*
 * A row with IBVCAP_PACKET_FLAG_UNUSABLE has no known payload. The frame is its network headers, and what follows them
 * in the header row if, by the length in its IP header, the packet ends there. Otherwise more came from the wire than
 * the file gets. The length of a malformed packet says nothing: it ends in the header row.
 */
static inline void row_frame_of_unusable(const struct ibvcap_rx_batch *batch, uint32_t i, struct row_frame *frame)
{
	uint32_t network_bytes = row_frame_min(batch->meta[i].header_length, batch->header_bytes);
	struct frame headers;

	frame_walk(ibvcap_rx_headers(batch, i), batch->header_bytes, batch->header_bytes, &headers);
	if (headers.ip_end >= network_bytes && headers.ip_end && headers.ip_end < batch->header_bytes)
		network_bytes = headers.ip_end;
	frame->at[0] = ibvcap_rx_headers(batch, i);
	frame->bytes[0] = network_bytes;
	frame->at[1] = batch->payload + (size_t)i * batch->stride;
	frame->bytes[1] = 0;
	if (batch->meta[i].flags & IBVCAP_PACKET_FLAG_MALFORMED)
		frame->wire_bytes = network_bytes;
	else
		frame->wire_bytes = headers.ip_end >= network_bytes ? headers.ip_end : batch->header_bytes;
}

/** The frame that came from the wire. */
static inline void row_frame_of(const struct ibvcap_rx_batch *batch, uint32_t i, struct row_frame *frame)
{
	const struct ibvcap_meta *meta = &batch->meta[i];
	uint32_t ordinary_bytes = batch->header_bytes - batch->application_header_bytes;
	uint32_t longer = row_frame_longer(meta, ordinary_bytes);
	uint32_t length = meta->length, wire = meta->wire_length;

	frame->checksum_at = 0;
	if (meta->flags & IBVCAP_PACKET_FLAG_UNUSABLE && !length) {
		row_frame_of_unusable(batch, i, frame);
		return;
	}
	/* A datagram's wire_length is that of all its fragments. */
	if ((meta->flags & (IBVCAP_PACKET_FLAG_FRAGMENT | IBVCAP_PACKET_FLAG_TRUNCATED)) == IBVCAP_PACKET_FLAG_FRAGMENT)
		wire = length;
	frame->at[0] = ibvcap_rx_headers(batch, i);
	frame->bytes[0] = batch->header_bytes;
	frame->at[1] = batch->payload + (size_t)i * batch->stride;
	frame->bytes[1] = row_frame_min(longer + length, batch->stride);
	frame->wire_bytes = meta->header_length + batch->application_header_bytes + row_frame_max(wire, length);
	if (meta->flags & IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM) {
		/* A copy, so that the compiler can keep the caller's frame in registers: see recorder.c. */
		struct row_frame copy = *frame;

		row_frame_find_checksum(&copy);
		*frame = copy;
	}
}

/** Leave only the first bytes of the frame. */
static inline void row_frame_cut(struct row_frame *frame, uint32_t bytes)
{
	frame->bytes[0] = row_frame_min(frame->bytes[0], bytes);
	frame->bytes[1] = row_frame_min(frame->bytes[1], bytes - frame->bytes[0]);
}

#endif
