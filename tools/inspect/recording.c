// SPDX-License-Identifier: Apache-2.0
/*
 * Opens recordings and reads their blocks. A compressed file is a row of zstd frames, one for each piece of the index,
 * so reading can begin at any of them.
 */
#include "tools/inspect/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

static const uint8_t zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd}; /* RFC 8878, 3.1.1 */

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
	const struct recording *recording = context;
	ssize_t r;

	do
		r = read(recording->fd, to, n);
	while (r < 0 && errno == EINTR);
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

/* A pipe cannot be read twice, so only a file with the right ending or magic number is taken for compressed. */
static bool recording_is_zstd(const struct recording *recording)
{
	uint8_t head[sizeof(zstd_magic)];

	return pread(recording->fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
	       !memcmp(head, zstd_magic, sizeof(head));
}

int recording_open(struct recording *recording, const char *path)
{
	struct stat status;
	int r = 0;

	*recording = (struct recording){.path = path};
	recording->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (recording->fd < 0)
		return -errno;
	if (fstat(recording->fd, &status) == 0 && S_ISDIR(status.st_mode)) {
		recording_close(recording);
		return -EISDIR;
	}
	if (recording_is_zstd(recording))
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
	if (recording->zstd) {
		ZSTD_DCtx_reset(recording->zstd->context, ZSTD_reset_session_only);
		recording->zstd->in = (ZSTD_inBuffer){.src = recording->zstd->buffer};
		recording->zstd->in_frame = false;
	}
	pcapng_reader_jump(&recording->reader, offset);
	return 0;
}
