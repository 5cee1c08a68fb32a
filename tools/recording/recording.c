// SPDX-License-Identifier: Apache-2.0
/* Opens recordings and reads their blocks. A compressed file is one zstd frame or several. */
#include "tools/recording/recording.h"

#include "tools/recording/recording_words.h"

#include <errno.h>
#include <fcntl.h>
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

/* A pipe cannot be read twice: what was read is kept. */
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
