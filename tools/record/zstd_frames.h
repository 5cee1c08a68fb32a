// SPDX-License-Identifier: Apache-2.0
/*
 * Compression in pieces: each piece is a zstd frame of its own, and a table at the end, in zstd's seekable format, says
 * where the frames are. Every zstd decompresses such a file from its beginning; a program that knows the table begins
 * at any frame. A file without its table lacks nothing else.
 */
#ifndef TOOLS_RECORD_ZSTD_FRAMES_H
#define TOOLS_RECORD_ZSTD_FRAMES_H

#include <stddef.h>
#include <stdint.h>

struct zstd_frames;

/** NULL: no memory. */
struct zstd_frames *zstd_frames_new(int level);
void zstd_frames_free(struct zstd_frames *frames);

/** Compress a piece. The frame, valid until the next call, and its size; NULL: no memory. */
const uint8_t *zstd_frames_compress(struct zstd_frames *frames, const uint8_t *at, size_t bytes, size_t *frame_bytes);

/** The frame that was compressed last is in the file: it gets its row in the table. */
void zstd_frames_add(struct zstd_frames *frames);

/** The table, a frame that decompressors pass over. NULL: no memory for it. */
const uint8_t *zstd_frames_table(struct zstd_frames *frames, size_t *bytes);

#endif
