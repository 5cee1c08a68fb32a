// SPDX-License-Identifier: Apache-2.0
/*
 * Compression in pieces. All pieces are one zstd frame, because Wireshark 4.0 reads a file of several frames wrong
 * behind the first 128 KiB. Each piece can be decompressed as soon as it is written.
 */
#ifndef LIB_RECORDING_ZSTD_FRAMES_H
#define LIB_RECORDING_ZSTD_FRAMES_H

#include <stddef.h>
#include <stdint.h>

struct zstd_frames;

/** NULL: no memory. */
struct zstd_frames *zstd_frames_new(int level);
void zstd_frames_free(struct zstd_frames *frames);

/** Compress a piece. Returns the bytes for the file, which are valid until the next call. NULL: no memory. */
const uint8_t *zstd_frames_compress(struct zstd_frames *frames, const uint8_t *at, size_t bytes, size_t *n_bytes);

/** The file has the piece that was compressed last. */
void zstd_frames_add(struct zstd_frames *frames);
/** The file does not have it: the next piece follows the one before. */
void zstd_frames_leave_out(struct zstd_frames *frames);

/** The end of the frame, for the end of the file. Without a piece in the file it has no bytes. */
const uint8_t *zstd_frames_end(const struct zstd_frames *frames, size_t *bytes);

#endif
