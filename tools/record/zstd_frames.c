// SPDX-License-Identifier: Apache-2.0
/* The format: RFC 8878; seekable: https://github.com/facebook/zstd/blob/dev/contrib/seekable_format */
#include "tools/record/zstd_frames.h"

#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define TABLE_FRAME_MAGIC 0x184d2a5eu /* of a frame that is passed over */
#define TABLE_END_MAGIC   0x8f92eab1u
#define TABLE_HEAD_BYTES  8u
#define TABLE_ROW_BYTES   8u
#define TABLE_END_BYTES   9u

/* A block header (RFC 8878, 3.1.1.2): the frame's last block, raw, of no bytes. */
static const uint8_t last_block[3] = {1, 0, 0};

#define FLUSH_BYTES (sizeof(last_block) + 64) /* beyond ZSTD_compressBound(): headers of the frame and of a block */

struct frame_row {
	uint32_t frame_bytes;
	uint32_t raw_bytes;
};

struct zstd_frames {
	ZSTD_CCtx *context;
	uint8_t *buffer;
	size_t buffer_bytes;
	struct frame_row newest;
	struct frame_row *rows;
	size_t n_rows;
	bool is_incomplete; /* no memory for a row */
	bool is_seekable;
	/* Unless it is: */
	bool is_open;      /* the file has a frame without its last block */
	bool has_left_out; /* the context knows bytes that are not in the file: another frame has to begin */
};

struct zstd_frames *zstd_frames_new(int level, bool seekable)
{
	struct zstd_frames *frames = calloc(1, sizeof(*frames));

	if (frames) {
		frames->context = ZSTD_createCCtx();
		frames->is_seekable = seekable;
	}
	if (frames && frames->context &&
	    !ZSTD_isError(ZSTD_CCtx_setParameter(frames->context, ZSTD_c_compressionLevel, level)))
		return frames;
	zstd_frames_free(frames);
	return NULL;
}

void zstd_frames_free(struct zstd_frames *frames)
{
	if (!frames)
		return;
	ZSTD_freeCCtx(frames->context);
	free(frames->buffer);
	free(frames->rows);
	free(frames);
}

static bool make_frame_room(struct zstd_frames *frames, size_t bytes)
{
	uint8_t *buffer;

	if (bytes <= frames->buffer_bytes)
		return true;
	buffer = realloc(frames->buffer, bytes);
	if (!buffer)
		return false;
	frames->buffer = buffer;
	frames->buffer_bytes = bytes;
	return true;
}

/* A frame for the piece alone. 0: no memory. */
static size_t compress_frame(struct zstd_frames *frames, const uint8_t *at, size_t bytes)
{
	size_t n = ZSTD_compress2(frames->context, frames->buffer, frames->buffer_bytes, at, bytes);

	if (ZSTD_isError(n))
		return 0;
	frames->newest = (struct frame_row){.frame_bytes = (uint32_t)n, .raw_bytes = (uint32_t)bytes};
	return n;
}

/* More of the frame, all of it behind which the piece can be decompressed. 0: no memory. */
static size_t compress_more(struct zstd_frames *frames, const uint8_t *at, size_t bytes)
{
	ZSTD_inBuffer in = {.src = at, .size = bytes};
	ZSTD_outBuffer out = {.dst = frames->buffer, .size = frames->buffer_bytes};

	if (frames->has_left_out) {
		ZSTD_CCtx_reset(frames->context, ZSTD_reset_session_only);
		if (frames->is_open) {
			memcpy(frames->buffer, last_block, sizeof(last_block));
			out.pos = sizeof(last_block);
		}
	}
	return ZSTD_compressStream2(frames->context, &out, &in, ZSTD_e_flush) == 0 ? out.pos : 0;
}

const uint8_t *zstd_frames_compress(struct zstd_frames *frames, const uint8_t *at, size_t bytes, size_t *n_bytes)
{
	if (!make_frame_room(frames, ZSTD_compressBound(bytes) + FLUSH_BYTES))
		return NULL;
	*n_bytes = frames->is_seekable ? compress_frame(frames, at, bytes) : compress_more(frames, at, bytes);
	return *n_bytes ? frames->buffer : NULL;
}

static void add_row(struct zstd_frames *frames)
{
	struct frame_row *rows = frames->rows;

	/* Grow at powers of two. */
	if ((frames->n_rows & (frames->n_rows - 1)) == 0)
		rows = realloc(rows, (frames->n_rows ? 2 * frames->n_rows : 1) * sizeof(*rows));
	if (!rows) {
		frames->is_incomplete = true;
		return;
	}
	frames->rows = rows;
	rows[frames->n_rows++] = frames->newest;
}

void zstd_frames_add(struct zstd_frames *frames)
{
	frames->has_left_out = false;
	frames->is_open = !frames->is_seekable;
	if (frames->is_seekable)
		add_row(frames);
}

void zstd_frames_leave_out(struct zstd_frames *frames)
{
	frames->has_left_out = true;
}

static uint8_t *put_le32(uint8_t *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
	return to + sizeof(value);
}

static const uint8_t *make_table(struct zstd_frames *frames, size_t *bytes)
{
	size_t rows_bytes = frames->n_rows * TABLE_ROW_BYTES;
	uint8_t *to;

	*bytes = TABLE_HEAD_BYTES + rows_bytes + TABLE_END_BYTES;
	if (frames->is_incomplete || !make_frame_room(frames, *bytes))
		return NULL;
	to = put_le32(frames->buffer, TABLE_FRAME_MAGIC);
	to = put_le32(to, (uint32_t)(rows_bytes + TABLE_END_BYTES));
	for (size_t i = 0; i < frames->n_rows; i++) {
		to = put_le32(to, frames->rows[i].frame_bytes);
		to = put_le32(to, frames->rows[i].raw_bytes);
	}
	to = put_le32(to, (uint32_t)frames->n_rows);
	*to++ = 0; /* no checksums */
	put_le32(to, TABLE_END_MAGIC);
	return frames->buffer;
}

const uint8_t *zstd_frames_end(struct zstd_frames *frames, size_t *bytes)
{
	if (frames->is_seekable)
		return make_table(frames, bytes);
	*bytes = frames->is_open ? sizeof(last_block) : 0;
	return last_block;
}
