// SPDX-License-Identifier: Apache-2.0
/* Finds out by which program a file was compressed, and gives its bytes through the decompressor. */
#include "lib/recording/unpack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (128u << 10)

static const struct unpack_format *const formats[] = {&unpack_zstd, &unpack_gzip, &unpack_lz4};

static ssize_t read_as_it_is(struct unpack *unpack, void *to, size_t n)
{
	size_t left = unpack->head_bytes - unpack->head_read;
	ssize_t r;

	if (left) {
		n = n < left ? n : left;
		memcpy(to, unpack->head + unpack->head_read, n);
		unpack->head_read += n;
		return (ssize_t)n;
	}
	r = read(unpack->fd, to, n);
	return r < 0 ? -errno : r;
}

/* 1: there is input; 0: the file has ended; -errno. */
static ssize_t fill_packed(struct unpack *unpack)
{
	ssize_t n;

	if (unpack->begin < unpack->end)
		return 1;
	n = read_as_it_is(unpack, unpack->buffer, BUFFER_BYTES);
	if (n <= 0)
		return n;
	unpack->begin = 0;
	unpack->end = (size_t)n;
	return 1;
}

ssize_t unpack_read(struct unpack *unpack, void *to, size_t n)
{
	struct unpack_step step = {.to = to, .room = n};

	if (!unpack->format)
		return read_as_it_is(unpack, to, n);
	while (step.room == n) {
		ssize_t r = fill_packed(unpack);
		int failed;

		if (r < 0)
			return r;
		/* Within a frame the decompressor may hold output that it has had no room for. */
		if (r == 0 && !unpack->in_frame)
			return 0;
		step.at = unpack->buffer + unpack->begin;
		step.bytes = unpack->end - unpack->begin;
		failed = unpack->format->step(unpack->state, &step);
		if (failed < 0)
			return failed;
		unpack->begin = unpack->end - step.bytes;
		unpack->in_frame = step.in_frame;
		if (r == 0 && step.room == n)
			return 0; /* cut off within a frame */
	}
	return (ssize_t)(n - step.room);
}

bool unpack_is_cut_off(const struct unpack *unpack)
{
	return unpack->in_frame;
}

static int read_magic(struct unpack *unpack)
{
	while (unpack->head_bytes < UNPACK_MAGIC_BYTES) {
		ssize_t n =
			read(unpack->fd, unpack->head + unpack->head_bytes, UNPACK_MAGIC_BYTES - unpack->head_bytes);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		unpack->head_bytes += (size_t)n;
	}
	return 0;
}

static int begin_unpacking(struct unpack *unpack, const struct unpack_format *format)
{
	unpack->buffer = malloc(BUFFER_BYTES);
	unpack->state = format->begin();
	unpack->format = format;
	return unpack->buffer && unpack->state ? 0 : -ENOMEM;
}

int unpack_open(struct unpack *unpack, int fd)
{
	int r;

	*unpack = (struct unpack){.fd = fd};
	r = read_magic(unpack);
	for (size_t i = 0; r == 0 && i < sizeof(formats) / sizeof(formats[0]); i++)
		if (unpack->head_bytes >= formats[i]->magic_bytes &&
		    !memcmp(unpack->head, formats[i]->magic, formats[i]->magic_bytes))
			r = begin_unpacking(unpack, formats[i]);
	return r;
}

void unpack_close(struct unpack *unpack)
{
	if (unpack->state)
		unpack->format->end(unpack->state);
	unpack->state = NULL;
	free(unpack->buffer);
	unpack->buffer = NULL;
	if (unpack->fd > STDIN_FILENO)
		close(unpack->fd);
	unpack->fd = -1;
}
