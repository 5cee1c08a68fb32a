// SPDX-License-Identifier: Apache-2.0
/* Finds the checksum of UDP or TCP in a frame, and whether the sender's machine has left it to a card. Pure. */
#ifndef LIB_FRAME_FRAME_CHECKSUM_H
#define LIB_FRAME_FRAME_CHECKSUM_H

#include "lib/frame/checksum.h"
#include "lib/frame/frame.h"

/* Positions count bytes from the beginning of the frame. */
struct frame_checksum {
	uint32_t at;     /* of the field */
	uint32_t from;   /* of the UDP or TCP header, where the bytes begin that it covers … */
	uint32_t bytes;  /* … with the pseudo header; by the headers: the frame may have less */
	uint16_t pseudo; /* sum of the pseudo header, in the order of memory */
};

/** Of a frame whose IP header was captured: for `bytes` of UDP, TCP or another protocol. In the order of memory. */
uint16_t frame_pseudo_sum(const uint8_t *bytes, const struct frame *frame, uint32_t transport_bytes);

/** The frame's first captured bytes have a header of UDP or TCP, and it is no fragment. Does not look into tunnels. */
bool frame_find_checksum(const uint8_t *bytes, uint32_t captured, struct frame_checksum *checksum);

/**
 * A kernel that leaves the checksum to a card stores the sum of the pseudo header in the field: the sum over `bytes` is
 * then that of all that the checksum covers. If the field has that by chance and is right, the result is the same.
 */
static inline bool frame_checksum_is_partial(const uint8_t *bytes, const struct frame_checksum *checksum)
{
	uint16_t field;

	memcpy(&field, bytes + checksum->at, sizeof(field));
	return field == checksum->pseudo;
}

#endif
