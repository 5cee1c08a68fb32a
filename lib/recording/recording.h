// SPDX-License-Identifier: Apache-2.0
/* Reads a recording: a pcapng file, maybe compressed by zstd, from its beginning or from a place that its index has. */
#ifndef LIB_RECORDING_RECORDING_H
#define LIB_RECORDING_RECORDING_H

#include "lib/recording/pcapng_read.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define RECORDING_HEAD_BYTES 15 /* RECORDING_INDEX_WORDS, the longest that is compared */

struct recording {
	const char *path;
	int fd;
	uint8_t head[RECORDING_HEAD_BYTES]; /* the file's first bytes, which say what it is */
	size_t head_bytes;
	size_t head_read;            /* of these: given to the reader */
	struct recording_zstd *zstd; /* NULL: not compressed */
	struct pcapng_reader reader;
};

/** Open a file; "-" is standard input. Reads its first bytes, whatever it is. 0 or -errno. */
int recording_open(struct recording *recording, const char *path);

/** Do these bytes begin a pcapng file or a zstd frame? */
bool recording_is_one(const struct recording *recording);

/** Is it an index? A pattern such as a.* names the index beside a recording, too. */
bool recording_is_index(const struct recording *recording);

/** Is it a pcap file, compressed or not? Only after recording_next() has failed. */
bool recording_is_pcap(const struct recording *recording);

/** Does the file end within a zstd frame, so that it was cut off? Only after recording_next() has returned 0. */
bool recording_is_cut_off(const struct recording *recording);

/** Give the file to another reader, from its beginning. NULL: see errno. Then only recording_close() is allowed. */
FILE *recording_give_file(struct recording *recording);

/** Any state but uninitialised. */
void recording_close(struct recording *recording);

/** The next block: as pcapng_read(). After a failure recording_error() names the fault. */
int recording_next(struct recording *recording, struct pcapng_block *block);
const char *recording_error(const struct recording *recording);

/**
 * Go on at offset of the file, where its index says that a piece begins. The file is not compressed, and the interfaces
 * before offset have been read. 0; -errno: not a regular file.
 */
int recording_jump(struct recording *recording, uint64_t offset);

/*
 * Compression in pieces. All pieces are one zstd frame, because Wireshark 4.0 reads a file of several frames wrong
 * behind the first 128 KiB. Each piece can be decompressed as soon as it is written.
 */
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
