// SPDX-License-Identifier: Apache-2.0
/*
 * Compression in pieces. All of them are one zstd frame, in which every piece can be decompressed when it is written.
 * Or, seekable: each piece is a frame of its own, and a table at the end, in zstd's seekable format, says where the
 * frames are; a program begins at any of them. A file without its table lacks nothing else. Wireshark 4.0 reads a file
 * of several frames wrong behind the first 128 KiB.
 */
#ifndef TOOLS_RECORD_ZSTD_FRAMES_H
#define TOOLS_RECORD_ZSTD_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zstd_frames;

/** NULL: no memory. */
struct zstd_frames *zstd_frames_new(int level, bool seekable);
void zstd_frames_free(struct zstd_frames *frames);

/** Compress a piece. What goes to the file, valid until the next call, and its size; NULL: no memory. */
const uint8_t *zstd_frames_compress(struct zstd_frames *frames, const uint8_t *at, size_t bytes, size_t *n_bytes);

/** What was compressed last is in the file. */
void zstd_frames_add(struct zstd_frames *frames);
/** It is not, and the next piece follows the one before. */
void zstd_frames_leave_out(struct zstd_frames *frames);

/** The end of the file: of its frame, or the table, a frame that decompressors pass over. NULL: no memory for it. */
const uint8_t *zstd_frames_end(struct zstd_frames *frames, size_t *bytes);

#endif
