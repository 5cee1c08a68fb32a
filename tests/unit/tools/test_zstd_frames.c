// SPDX-License-Identifier: Apache-2.0
/* What is compressed piece by piece is the same again, also if a piece did not get into the file. */
#include "lib/recording/zstd_frames.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define PIECE_BYTES 300000u

static uint8_t file[8 * PIECE_BYTES], wanted[8 * PIECE_BYTES], found[8 * PIECE_BYTES], piece[PIECE_BYTES];
static size_t n_file, n_wanted;

/* Half of it is random; the rest is that of the piece before, so that the compressor refers to it. */
static void renew_piece(void)
{
	for (size_t i = 0; i < PIECE_BYTES / 2; i++)
		piece[i] = (uint8_t)rand();
}

static void compress_piece(struct zstd_frames *frames, bool leave_out)
{
	size_t bytes;
	const uint8_t *at;

	renew_piece();
	at = zstd_frames_compress(frames, piece, sizeof(piece), &bytes);
	cr_assert(at);
	if (leave_out) {
		zstd_frames_leave_out(frames);
		return;
	}
	memcpy(file + n_file, at, bytes);
	n_file += bytes;
	memcpy(wanted + n_wanted, piece, sizeof(piece));
	n_wanted += sizeof(piece);
	zstd_frames_add(frames);
}

/* Of the first bytes of the file; all of its frames, of which the last may not have its end. */
static size_t decompress(size_t bytes, unsigned *n_frames)
{
	ZSTD_DCtx *context = ZSTD_createDCtx();
	ZSTD_inBuffer in = {.src = file, .size = bytes};
	ZSTD_outBuffer out = {.dst = found, .size = sizeof(found)};

	*n_frames = 0;
	while (in.pos < in.size) {
		size_t r = ZSTD_decompressStream(context, &out, &in);

		cr_assert_not(ZSTD_isError(r), "%s", ZSTD_getErrorName(r));
		*n_frames += r == 0;
	}
	ZSTD_freeDCtx(context);
	cr_expect_eq(memcmp(found, wanted, out.pos), 0);
	return out.pos;
}

static void end_file(struct zstd_frames *frames)
{
	size_t bytes;
	const uint8_t *end = zstd_frames_end(frames, &bytes);

	cr_assert(end);
	memcpy(file + n_file, end, bytes);
	n_file += bytes;
	zstd_frames_free(frames);
}

Test(zstd_frames, every_piece_can_be_read_as_soon_as_it_is_written)
{
	struct zstd_frames *frames = zstd_frames_new(3);
	unsigned n_frames;

	for (int i = 0; i < 4; i++) {
		compress_piece(frames, false);
		cr_expect_eq(decompress(n_file, &n_frames), n_wanted);
		cr_expect_eq(n_frames, 0);
	}
	end_file(frames);
	cr_expect_eq(decompress(n_file, &n_frames), n_wanted);
	cr_expect_eq(n_frames, 1, "Wireshark 4.0 reads one frame");
}

Test(zstd_frames, a_piece_that_was_left_out_harms_no_other)
{
	struct zstd_frames *frames = zstd_frames_new(3);
	unsigned n_frames;

	compress_piece(frames, true);
	compress_piece(frames, false);
	compress_piece(frames, false);
	compress_piece(frames, true);
	compress_piece(frames, true);
	compress_piece(frames, false);
	end_file(frames);
	cr_expect_eq(decompress(n_file, &n_frames), n_wanted);
	cr_expect_eq(n_frames, 2);
}

Test(zstd_frames, a_file_of_nothing_is_empty)
{
	struct zstd_frames *frames = zstd_frames_new(3);

	end_file(frames);
	cr_expect_eq(n_file, 0);
}

/* ---- without memory -------------------------------------------------------------------------------- */

static bool has_no_memory;

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

void *__wrap_realloc(void *memory, size_t bytes)
{
	return has_no_memory ? NULL : __real_realloc(memory, bytes);
}

Test(zstd_frames, without_memory_a_piece_is_refused)
{
	struct zstd_frames *frames = zstd_frames_new(3);
	size_t bytes;

	has_no_memory = true;
	cr_expect_not(zstd_frames_compress(frames, piece, sizeof(piece), &bytes));
	has_no_memory = false;
	compress_piece(frames, false);
	has_no_memory = true;
	compress_piece(frames, false);
	end_file(frames);
}
