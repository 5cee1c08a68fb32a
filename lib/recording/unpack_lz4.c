// SPDX-License-Identifier: Apache-2.0
/* Unpacks what lz4 has compressed, in LZ4's frame format. */
#include "lib/recording/unpack.h"

#include <errno.h>
#include <lz4frame.h>

static void *begin_lz4(void)
{
	LZ4F_dctx *context;

	return LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)) ? NULL : context;
}

static int step_lz4(void *state, struct unpack_step *step)
{
	size_t n_in = step->bytes, n_out = step->room;
	size_t left = LZ4F_decompress(state, step->to, &n_out, step->at, &n_in, NULL);

	if (LZ4F_isError(left))
		return -EBADMSG;
	step->at += n_in;
	step->bytes -= n_in;
	step->to += n_out;
	step->room -= n_out;
	step->in_frame = left != 0;
	return 0;
}

static void end_lz4(void *state)
{
	LZ4F_freeDecompressionContext(state);
}

const struct unpack_format unpack_lz4 = {
	.magic = {0x04, 0x22, 0x4d, 0x18},
	.magic_bytes = 4,
	.begin = begin_lz4,
	.step = step_lz4,
	.end = end_lz4,
};
