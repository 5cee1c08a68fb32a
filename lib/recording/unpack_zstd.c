// SPDX-License-Identifier: Apache-2.0
/* Unpacks what zstd has compressed (RFC 8878). */
#include "lib/recording/unpack.h"

#include <errno.h>
#include <zstd.h>

static void *begin_zstd(void)
{
	return ZSTD_createDCtx();
}

static int step_zstd(void *state, struct unpack_step *step)
{
	ZSTD_inBuffer in = {.src = step->at, .size = step->bytes};
	ZSTD_outBuffer out = {.dst = step->to, .size = step->room};
	size_t left = ZSTD_decompressStream(state, &out, &in);

	if (ZSTD_isError(left))
		return -EBADMSG;
	step->at += in.pos;
	step->bytes -= in.pos;
	step->to += out.pos;
	step->room -= out.pos;
	step->in_frame = left != 0;
	return 0;
}

static void end_zstd(void *state)
{
	ZSTD_freeDCtx(state);
}

const struct unpack_format unpack_zstd = {
	.magic = {0x28, 0xb5, 0x2f, 0xfd}, /* 3.1.1 */
	.magic_bytes = 4,
	.begin = begin_zstd,
	.step = step_zstd,
	.end = end_zstd,
};
