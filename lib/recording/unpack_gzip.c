// SPDX-License-Identifier: Apache-2.0
/* Unpacks what gzip has compressed (RFC 1952), with zlib. */
#include "lib/recording/unpack.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define ONLY_GZIP 16 /* added to the window's size: a header of gzip, none of zlib */

static void *begin_gzip(void)
{
	z_stream *stream = calloc(1, sizeof(*stream));

	if (stream && inflateInit2(stream, MAX_WBITS + ONLY_GZIP) == Z_OK)
		return stream;
	free(stream);
	return NULL;
}

/* zlib counts in 32 bits. */
static uInt step_size(size_t bytes)
{
	return bytes < 1u << 30 ? (uInt)bytes : 1u << 30;
}

static int step_gzip(void *state, struct unpack_step *step)
{
	z_stream *stream = state;
	uInt n_in = step_size(step->bytes), n_out = step_size(step->room);
	int r;

	stream->next_in = (Bytef *)step->at;
	stream->avail_in = n_in;
	stream->next_out = step->to;
	stream->avail_out = n_out;
	r = inflate(stream, Z_NO_FLUSH);
	if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR) /* the last one: nothing to do without more bytes */
		return r == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
	step->at += n_in - stream->avail_in;
	step->bytes -= n_in - stream->avail_in;
	step->to += n_out - stream->avail_out;
	step->room -= n_out - stream->avail_out;
	step->in_frame = r != Z_STREAM_END;
	if (r == Z_STREAM_END)
		inflateReset(stream);
	return 0;
}

static void end_gzip(void *state)
{
	inflateEnd(state);
	free(state);
}

const struct unpack_format unpack_gzip = {
	.magic = {0x1f, 0x8b},
	.magic_bytes = 2,
	.begin = begin_gzip,
	.step = step_gzip,
	.end = end_gzip,
};
