// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a filter on rows. libpcap takes no frame in which its filter must look behind the bytes that are there. In a row
 * that has only a part of its frame, a second filter, the contrary of the first one, tells a frame that does not match
 * from one of which the row does not say whether it matches: neither filter takes the latter.
 */
#include "tools/record/row_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row_filter {
	struct packet_filter *filter;
	struct packet_filter *contrary;
	uint8_t *frame; /* both pieces, one behind the other */
	size_t frame_bytes;
	uint8_t *rows; /* that were taken out of a batch: meta, header rows, rows */
	size_t rows_bytes;
};

struct row_filter *row_filter_new(const char *text, char error[PACKET_FILTER_ERROR_BYTES])
{
	size_t bytes = strlen(text) + sizeof("not ()");
	struct row_filter *filter = calloc(1, sizeof(*filter));
	char *contrary = malloc(bytes);

	snprintf(error, PACKET_FILTER_ERROR_BYTES, "out of memory");
	if (filter && contrary && (filter->filter = packet_filter_new(text, error))) {
		snprintf(contrary, bytes, "not (%s)", text);
		filter->contrary = packet_filter_new(contrary, error);
	}
	free(contrary);
	if (filter && filter->contrary)
		return filter;
	row_filter_free(filter);
	return NULL;
}

void row_filter_free(struct row_filter *filter)
{
	if (!filter)
		return;
	packet_filter_free(filter->filter);
	packet_filter_free(filter->contrary);
	free(filter->frame);
	free(filter->rows);
	free(filter);
}

static bool grow_to(uint8_t **at, size_t *bytes, size_t needed)
{
	uint8_t *grown;

	if (needed <= *bytes)
		return true;
	grown = realloc(*at, needed);
	if (!grown)
		return false;
	*at = grown;
	*bytes = needed;
	return true;
}

bool row_filter_takes(struct row_filter *filter, const struct row_frame *frame)
{
	uint32_t bytes = frame->bytes[0] + frame->bytes[1];
	const uint8_t *at = frame->bytes[0] ? frame->at[0] : frame->at[1];

	if (frame->bytes[0] && frame->bytes[1]) {
		if (!grow_to(&filter->frame, &filter->frame_bytes, bytes))
			return true;
		memcpy(filter->frame, frame->at[0], frame->bytes[0]);
		memcpy(filter->frame + frame->bytes[0], frame->at[1], frame->bytes[1]);
		at = filter->frame;
	}
	return packet_filter_takes(filter->filter, at, bytes, frame->wire_bytes) ||
	       (bytes < frame->wire_bytes && !packet_filter_takes(filter->contrary, at, bytes, frame->wire_bytes));
}

bool row_filter_cut_batch(struct row_filter *filter, const struct ibvcap_rx_batch *batch, struct ibvcap_rx_batch *taken)
{
	size_t meta_bytes = batch->n * sizeof(*batch->meta), headers_bytes = (size_t)batch->n * batch->header_stride;
	uint8_t *meta, *headers, *payload;
	struct row_frame frame;
	uint32_t n = 0;

	if (!grow_to(&filter->rows, &filter->rows_bytes, meta_bytes + headers_bytes + (size_t)batch->n * batch->stride))
		return false;
	meta = filter->rows;
	headers = meta + meta_bytes;
	payload = headers + headers_bytes;
	*taken = *batch;
	for (uint32_t i = 0; i < batch->n; i++) {
		row_frame_of(batch, i, &frame);
		if (!(batch->meta[i].flags & IBVCAP_PACKET_FLAG_ERROR) && !row_filter_takes(filter, &frame))
			continue;
		if (n == 0)
			taken->sequence = batch->sequence + i;
		memcpy(meta + n * sizeof(*batch->meta), &batch->meta[i], sizeof(*batch->meta));
		memcpy(headers + (size_t)n * batch->header_stride, ibvcap_rx_headers(batch, i), batch->header_stride);
		memcpy(payload + (size_t)n * batch->stride, batch->payload + (size_t)i * batch->stride, batch->stride);
		n++;
	}
	taken->n = n;
	if (n < batch->n) {
		taken->meta = (const struct ibvcap_meta *)(const void *)meta;
		taken->headers = headers;
		taken->payload = payload;
	}
	return true;
}
