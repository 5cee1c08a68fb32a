// SPDX-License-Identifier: Apache-2.0
/*
 * Opens recordings and reads their blocks. A compressed file is one zstd frame or several. Compression flushes one zstd
 * frame (RFC 8878) piece by piece. A piece that was not written makes the next one begin a frame.
 */
#include "lib/recording/recording.h"

#include "lib/recording/recording_words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

static const uint8_t zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd}; /* RFC 8878, 3.1.1 */
static const uint8_t pcapng_magic[4] = {0x0a, 0x0d, 0x0d, 0x0a};

struct recording_zstd {
	ZSTD_DCtx *context;
	ZSTD_inBuffer in;
	bool in_frame; /* the last call ended within a frame */
	size_t bytes;  /* of buffer */
	uint8_t buffer[];
};

/* ---- sources ------------------------------------------------------------------------------------- */

static ssize_t read_plain(void *context, void *to, size_t n)
{
	struct recording *recording = context;
	size_t left = recording->head_bytes - recording->head_read;
	ssize_t r;

	if (left) {
		n = n < left ? n : left;
		memcpy(to, recording->head + recording->head_read, n);
		recording->head_read += n;
		return (ssize_t)n;
	}
	r = read(recording->fd, to, n);
	return r < 0 ? -errno : r;
}

/* 1: there is input; 0: the file has ended; -errno. */
static ssize_t fill_input(struct recording *recording)
{
	struct recording_zstd *zstd = recording->zstd;
	ssize_t n;

	if (zstd->in.pos < zstd->in.size)
		return 1;
	n = read_plain(recording, zstd->buffer, zstd->bytes);
	if (n <= 0)
		return n;
	zstd->in = (ZSTD_inBuffer){.src = zstd->buffer, .size = (size_t)n};
	return 1;
}

static ssize_t read_compressed(void *context, void *to, size_t n)
{
	struct recording *recording = context;
	struct recording_zstd *zstd = recording->zstd;
	ZSTD_outBuffer out = {.dst = to, .size = n};

	while (out.pos == 0) {
		ssize_t r = fill_input(recording);
		size_t left;

		if (r < 0)
			return r;
		/* Within a frame the decompressor may hold output that it has had no room for. */
		if (r == 0 && !zstd->in_frame)
			return 0;
		left = ZSTD_decompressStream(zstd->context, &out, &zstd->in);
		if (ZSTD_isError(left))
			return -EBADMSG;
		zstd->in_frame = left != 0;
		if (r == 0 && out.pos == 0)
			return 0; /* cut off within a frame: the reader finds out whether within a block */
	}
	return (ssize_t)out.pos;
}

static int recording_begin_zstd(struct recording *recording)
{
	size_t bytes = ZSTD_DStreamInSize();
	struct recording_zstd *zstd = calloc(1, sizeof(*zstd) + bytes);

	if (!zstd)
		return -ENOMEM;
	zstd->bytes = bytes;
	zstd->context = ZSTD_createDCtx();
	if (!zstd->context) {
		free(zstd);
		return -ENOMEM;
	}
	recording->zstd = zstd;
	return 0;
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* A pipe cannot be read twice, so the bytes that were read are kept. */
static int read_head(struct recording *recording)
{
	while (recording->head_bytes < RECORDING_HEAD_BYTES) {
		ssize_t n = read(recording->fd, recording->head + recording->head_bytes,
		                 RECORDING_HEAD_BYTES - recording->head_bytes);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		recording->head_bytes += (size_t)n;
	}
	return 0;
}

static bool head_is(const struct recording *recording, const uint8_t magic[4])
{
	return recording->head_bytes >= 4 && !memcmp(recording->head, magic, 4);
}

bool recording_is_one(const struct recording *recording)
{
	return recording->zstd || head_is(recording, pcapng_magic);
}

bool recording_is_index(const struct recording *recording)
{
	return recording->head_bytes == RECORDING_HEAD_BYTES &&
	       !memcmp(recording->head, RECORDING_INDEX_HEAD, RECORDING_HEAD_BYTES);
}

bool recording_is_pcap(const struct recording *recording)
{
	/* In both byte orders, with times in us and in ns. */
	static const uint32_t magics[] = {0xa1b2c3d4, 0xd4c3b2a1, 0xa1b23c4d, 0x4d3cb2a1};
	const struct pcapng_reader *reader = &recording->reader;
	uint32_t magic;

	if (reader->n_sections || reader->end - reader->begin < sizeof(magic))
		return false;
	memcpy(&magic, reader->buffer + reader->begin, sizeof(magic));
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if (magic == magics[i])
			return true;
	return false;
}

bool recording_is_cut_off(const struct recording *recording)
{
	return recording->zstd && recording->zstd->in_frame;
}

FILE *recording_give_file(struct recording *recording)
{
	FILE *file = fdopen(recording->fd, "r");

	if (!file)
		return NULL;
	recording->fd = -1;
	/* The C library takes back more than one byte, which is all that C promises. */
	while (recording->head_bytes && ungetc(recording->head[recording->head_bytes - 1], file) != EOF)
		recording->head_bytes--;
	return file;
}

int recording_open(struct recording *recording, const char *path)
{
	int r;

	*recording = (struct recording){.path = path};
	recording->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (recording->fd < 0)
		return -errno;
	r = read_head(recording);
	if (r == 0 && head_is(recording, zstd_magic))
		r = recording_begin_zstd(recording);
	pcapng_reader_init(&recording->reader, recording->zstd ? read_compressed : read_plain, recording);
	if (r < 0)
		recording_close(recording);
	return r;
}

void recording_close(struct recording *recording)
{
	pcapng_reader_deinit(&recording->reader);
	if (recording->zstd)
		ZSTD_freeDCtx(recording->zstd->context);
	free(recording->zstd);
	recording->zstd = NULL;
	if (recording->fd > STDIN_FILENO)
		close(recording->fd);
	recording->fd = -1;
}

int recording_next(struct recording *recording, struct pcapng_block *block)
{
	return pcapng_read(&recording->reader, block);
}

const char *recording_error(const struct recording *recording)
{
	return recording->reader.error;
}

int recording_jump(struct recording *recording, uint64_t offset)
{
	if (offset > INT64_MAX || lseek(recording->fd, (off_t)offset, SEEK_SET) < 0)
		return -errno;
	recording->head_read = recording->head_bytes;
	pcapng_reader_jump(&recording->reader, offset);
	return 0;
}

/* ---- compression --------------------------------------------------------------------------------- */

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
