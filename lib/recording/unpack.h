// SPDX-License-Identifier: Apache-2.0
/*
 * The bytes of a file, unpacked if it is compressed by zstd, gzip or lz4. The file is a single compressed frame, or
 * several one behind the other.
 */
#ifndef LIB_RECORDING_UNPACK_H
#define LIB_RECORDING_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define UNPACK_MAGIC_BYTES 4 /* the longest */

/* One call of a decompressor: it moves `at` and `to` on, and makes the sizes smaller. */
struct unpack_step {
	const uint8_t *at;
	size_t bytes;
	uint8_t *to;
	size_t room;
	bool in_frame; /* set: more of the frame is to come */
};

/* A decompressor. */
struct unpack_format {
	uint8_t magic[UNPACK_MAGIC_BYTES];
	size_t magic_bytes;
	/** NULL: no memory. */
	void *(*begin)(void);
	/** 0; -EBADMSG: the bytes are no such frame. */
	int (*step)(void *state, struct unpack_step *step);
	void (*end)(void *state);
};

extern const struct unpack_format unpack_zstd, unpack_gzip, unpack_lz4;

struct unpack {
	int fd;
	uint8_t head[UNPACK_MAGIC_BYTES]; /* the file's first bytes: a pipe cannot be read twice */
	size_t head_bytes;
	size_t head_read;                   /* of these: given on */
	const struct unpack_format *format; /* NULL: not compressed */
	void *state;
	bool in_frame;   /* the last call ended within a frame */
	uint8_t *buffer; /* compressed bytes */
	size_t begin;
	size_t end;
};

/** Begin to read a file, which unpack_close() closes unless it is standard input. 0 or -errno. */
int unpack_open(struct unpack *unpack, int fd);

/** Read up to n bytes. The number read; 0 at the end; -EBADMSG: the compressed data is damaged; another -errno. */
ssize_t unpack_read(struct unpack *unpack, void *to, size_t n);

/** Does the file end within a compressed frame, so that it was cut off? Only after unpack_read() has returned 0. */
bool unpack_is_cut_off(const struct unpack *unpack);

/** Any state but uninitialised. */
void unpack_close(struct unpack *unpack);

#endif
