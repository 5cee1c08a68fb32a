// SPDX-License-Identifier: Apache-2.0
/*
 * Flushes one zstd frame (RFC 8878) piece by piece. A piece that was not written makes the next one begin a frame.
 */
#include "lib/recording/zstd_frames.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* A block header (RFC 8878, 3.1.1.2): the frame's last block, raw, of no bytes. */
static const uint8_t last_block[3] = {1, 0, 0};

#define FLUSH_BYTES (sizeof(last_block) + 64) /* beyond ZSTD_compressBound(): headers of the frame and of a block */

struct zstd_frames {
	ZSTD_CCtx *context;
	uint8_t *buffer;
	size_t buffer_bytes;
	bool is_open;      /* the file has a frame without its last block */
	bool has_left_out; /* the context knows bytes that are not in the file: another frame has to begin */
};

struct zstd_frames *zstd_frames_new(int level)
{
	struct zstd_frames *frames = calloc(1, sizeof(*frames));

	if (frames)
		frames->context = ZSTD_createCCtx();
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

/* The piece goes on with the frame, and can be decompressed as soon as it is in the file. */
const uint8_t *zstd_frames_compress(struct zstd_frames *frames, const uint8_t *at, size_t bytes, size_t *n_bytes)
{
	ZSTD_inBuffer in = {.src = at, .size = bytes};
	ZSTD_outBuffer out = {0};

	if (!make_frame_room(frames, ZSTD_compressBound(bytes) + FLUSH_BYTES))
		return NULL;
	out.dst = frames->buffer;
	out.size = frames->buffer_bytes;
	if (frames->has_left_out) {
		ZSTD_CCtx_reset(frames->context, ZSTD_reset_session_only);
		if (frames->is_open) {
			memcpy(frames->buffer, last_block, sizeof(last_block));
			out.pos = sizeof(last_block);
		}
	}
	if (ZSTD_compressStream2(frames->context, &out, &in, ZSTD_e_flush) != 0)
		return NULL;
	*n_bytes = out.pos;
	return frames->buffer;
}

void zstd_frames_add(struct zstd_frames *frames)
{
	frames->has_left_out = false;
	frames->is_open = true;
}

void zstd_frames_leave_out(struct zstd_frames *frames)
{
	frames->has_left_out = true;
}

const uint8_t *zstd_frames_end(const struct zstd_frames *frames, size_t *bytes)
{
	*bytes = frames->is_open ? sizeof(last_block) : 0;
	return last_block;
}
