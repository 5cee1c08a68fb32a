// SPDX-License-Identifier: Apache-2.0
/* Computes the checksum of a frame whose sender left it to a card, as the card would have done. */
#include "lib/recording/row_frame.h"

#include "lib/base/min.h"
#include "lib/frame/frame_checksum.h"

#include <string.h>

#define HEADERS_MAX 256

/* The first bytes of the frame, one behind the other. Returns how many there are, at most HEADERS_MAX. */
static uint32_t row_frame_gather(const struct row_frame *frame, uint8_t headers[HEADERS_MAX])
{
	uint32_t first = u32_min(frame->bytes[0], HEADERS_MAX), rest = u32_min(frame->bytes[1], HEADERS_MAX - first);

	memcpy(headers, frame->at[0], first);
	memcpy(headers + first, frame->at[1], rest);
	return first + rest;
}

/* Of bytes that may lie in both pieces. In the second one they may begin with the lower half of a 16-bit word. */
static uint64_t row_frame_sum(const struct row_frame *frame, uint32_t from, uint32_t n)
{
	uint32_t first = from < frame->bytes[0] ? u32_min(n, frame->bytes[0] - from) : 0;
	uint32_t skipped = from + first - frame->bytes[0];
	uint64_t rest = first < n ? checksum_sum_bytes(frame->at[1] + skipped, n - first) : 0;

	if (first % 2)
		rest = __builtin_bswap16(checksum_fold(rest));
	return rest + (first ? checksum_sum_bytes(frame->at[0] + from, first) : 0);
}

void row_frame_find_checksum(struct row_frame *frame)
{
	uint32_t bytes = frame->bytes[0] + frame->bytes[1];
	uint8_t headers[HEADERS_MAX];
	struct frame_checksum found;

	if (bytes < frame->wire_bytes || !frame_find_checksum(headers, row_frame_gather(frame, headers), &found) ||
	    found.from + found.bytes > bytes || !frame_checksum_is_partial(headers, &found))
		return;
	frame->checksum_at = found.at;
	frame->checksum = checksum_of_transport(row_frame_sum(frame, found.from, found.bytes));
}
