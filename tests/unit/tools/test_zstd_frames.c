// SPDX-License-Identifier: Apache-2.0
/* What is compressed piece by piece is the same again, also if a piece did not get into the file. */
#include "tools/record/zstd_frames.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <endian.h>
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
	struct zstd_frames *frames = zstd_frames_new(3, false);
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

ParameterizedTestParameters(zstd_frames, a_piece_that_was_left_out_harms_no_other)
{
	static bool seekable[] = {false, true};

	return cr_make_param_array(bool, seekable, 2);
}

ParameterizedTest(bool *seekable, zstd_frames, a_piece_that_was_left_out_harms_no_other)
{
	struct zstd_frames *frames = zstd_frames_new(3, *seekable);
	unsigned n_frames;

	compress_piece(frames, true);
	compress_piece(frames, false);
	compress_piece(frames, false);
	compress_piece(frames, true);
	compress_piece(frames, true);
	compress_piece(frames, false);
	end_file(frames);
	cr_expect_eq(decompress(n_file, &n_frames), n_wanted);
	cr_expect_eq(n_frames, *seekable ? 4 : 2); /* the table is one, too */
}

/* ---- the seek table -------------------------------------------------------------------------------- */

static uint32_t le32_at(size_t offset)
{
	uint32_t value;

	memcpy(&value, file + offset, sizeof(value));
	return le32toh(value);
}

Test(zstd_frames, the_seek_table_has_each_frame)
{
	struct zstd_frames *frames = zstd_frames_new(3, true);
	uint32_t frame_bytes[5];
	size_t table;

	for (unsigned i = 0; i < 5; i++) {
		size_t before = n_file;

		compress_piece(frames, i == 3);
		frame_bytes[i] = (uint32_t)(n_file - before);
	}
	table = n_file;
	end_file(frames);
	cr_assert_eq(n_file - table, 8 + 4 * 8 + 9);
	cr_expect_eq(le32_at(table), 0x184d2a5e);
	cr_expect_eq(le32_at(table + 4), 4 * 8 + 9);
	for (unsigned i = 0; i < 4; i++) {
		cr_expect_eq(le32_at(table + 8 + 8 * i), frame_bytes[i == 3 ? 4 : i]);
		cr_expect_eq(le32_at(table + 12 + 8 * i), PIECE_BYTES);
	}
	cr_expect_eq(le32_at(n_file - 9), 4);
	cr_expect_eq(file[n_file - 5], 0, "no checksums");
	cr_expect_eq(le32_at(n_file - 4), 0x8f92eab1);
}

Test(zstd_frames, a_file_of_nothing_is_empty)
{
	struct zstd_frames *frames = zstd_frames_new(3, false);

	end_file(frames);
	cr_expect_eq(n_file, 0);
	frames = zstd_frames_new(3, true);
	end_file(frames);
	cr_expect_eq(n_file, 8 + 9);
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
	struct zstd_frames *frames = zstd_frames_new(3, false);
	size_t bytes;

	has_no_memory = true;
	cr_expect_not(zstd_frames_compress(frames, piece, sizeof(piece), &bytes));
	has_no_memory = false;
	compress_piece(frames, false);
	has_no_memory = true;
	compress_piece(frames, false);
	end_file(frames);
}

Test(zstd_frames, a_table_that_lacks_a_frame_is_not_written)
{
	struct zstd_frames *frames = zstd_frames_new(3, true);
	size_t bytes;

	for (unsigned i = 0; i < 4; i++)
		compress_piece(frames, false);
	has_no_memory = true;
	compress_piece(frames, false);
	has_no_memory = false;
	cr_expect_not(zstd_frames_end(frames, &bytes));
	zstd_frames_free(frames);
}
