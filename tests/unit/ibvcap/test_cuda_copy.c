// SPDX-License-Identifier: Apache-2.0
/* The kernels of ibvcap/cuda_place.cuh that copy: each sample has its value, and nothing else is written. */
#include "lib/ibvcap/track/sequence_read.h"
#include "tests/unit/ibvcap/device_batch.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of a packet behind so many of its payload, one after the other. */
static uint32_t gather_payload(const struct ibvcap_packet *packet, uint32_t skip_bytes, uint8_t *to)
{
	uint32_t n = 0;

	for (uint32_t i = packet->payload_at + skip_bytes; i < packet->header_bytes + packet->row_bytes; i++)
		to[n++] = i < packet->header_bytes ? packet->headers[i] : packet->row[i - packet->header_bytes];
	return n;
}

static void expect_sample(const uint8_t *to, uint32_t format, const uint8_t *sample)
{
	const uint32_t bytes = ibvcap_device_made_bytes(format), be16 = (uint32_t)sample[0] << 8 | sample[1];
	const uint32_t le16 = (uint32_t)sample[1] << 8 | sample[0];
	const float floats[IBVCAP_SAMPLES_N] = {
		[IBVCAP_SAMPLES_I8] = (int8_t)sample[0], [IBVCAP_SAMPLES_U8] = sample[0],
		[IBVCAP_SAMPLES_LE16] = (int16_t)le16,   [IBVCAP_SAMPLES_BE16] = (int16_t)be16,
		[IBVCAP_SAMPLES_LEU16] = (float)le16,    [IBVCAP_SAMPLES_BEU16] = (float)be16};
	uint8_t expected[4];

	for (uint32_t i = 0; i < bytes; i++)
		expected[i] = sample[bytes - 1 - i];
	if (format >= IBVCAP_SAMPLES_I8)
		memcpy(expected, &floats[format], sizeof(float));
	cr_assert_arr_eq(to, expected, bytes);
}

static void expect_row(const struct ibvcap_packet *packet, const struct dense *dense, uint64_t at)
{
	static uint8_t payload[3 * UINT16_MAX];
	const uint32_t bytes = ibvcap_device_sample_bytes(dense->format),
		       made = ibvcap_device_made_bytes(dense->format);
	const uint32_t n = gather_payload(packet, dense->skip_bytes, payload), n_row = dense->row_bytes / bytes;
	const uint8_t *row = dense->to + at * n_row * made;

	cr_assert_eq(dense->lengths[at], n < dense->row_bytes ? n : dense->row_bytes);
	for (uint32_t i = 0; i < n_row; i++) {
		float fill = dense->fill;

		if (i < n / bytes)
			expect_sample(row + i * made, dense->format, payload + i * bytes);
		else if (dense->format >= IBVCAP_SAMPLES_I8)
			cr_assert_arr_eq(row + i * made, &fill, sizeof(fill));
		else
			cr_assert_eq(row[i * made], (uint8_t)fill);
	}
}

static bool is_inside(const struct ibvcap_placed *placed, const struct dense *dense)
{
	return placed->kind == IBVCAP_PLACED_FIRST && placed->array < dense->arrays &&
	       placed->source < dense->sources && placed->row < dense->numbers;
}

/* Records of rows that differ, and some that no placer makes. */
static void random_places(const struct dense *dense, struct ibvcap_placed *placed)
{
	const uint32_t n = dense->arrays * dense->sources * dense->numbers, shift = below(n);

	for (uint32_t i = 0; i < ROWS; i++) {
		const uint32_t at = (i + shift) % n;

		placed[i] = (struct ibvcap_placed){.kind = below(5) ? IBVCAP_PLACED_FIRST : below(9),
		                                   .array = at / dense->numbers / dense->sources,
		                                   .source = at / dense->numbers % dense->sources,
		                                   .row = at % dense->numbers};
		if (below(5) == 0)
			fill_random((uint8_t *)&placed[i] + 4 * (1 + below(3)), 4);
	}
}

static void expect_copies(struct dense *dense)
{
	const uint64_t n = (uint64_t)dense->arrays * dense->sources * dense->numbers;
	const size_t row_bytes = (size_t)dense->row_bytes / ibvcap_device_sample_bytes(dense->format) *
	                         ibvcap_device_made_bytes(dense->format);
	struct made_batch made = random_batch();
	struct ibvcap_placed placed[ROWS];
	uint8_t *untouched = allocate(row_bytes);
	bool *is_written = calloc(n, sizeof(*is_written));
	struct ibvcap_packet packet;

	dense->to = allocate(n * row_bytes);
	dense->lengths = allocate(n * sizeof(*dense->lengths));
	random_places(dense, placed);
	copy_rows(&made.batch, placed, dense, random_threads());
	for (uint32_t i = 0; i < ROWS; i++) {
		const uint64_t at = ((uint64_t)placed[i].array * dense->sources + placed[i].source) * dense->numbers +
		                    placed[i].row;

		if (!is_inside(&placed[i], dense) ||
		    !sequence_packet_of_row(&made.batch, i, made.batch.header_bytes,
		                            made.batch.application_header_bytes, &packet))
			continue;
		if (!is_written[at])
			expect_row(&packet, dense, at);
		is_written[at] = true;
	}
	for (uint64_t i = 0; i < n; i++)
		if (!is_written[i])
			cr_assert_arr_eq(dense->to + i * row_bytes, untouched, row_bytes);
	free(untouched);
	free(is_written);
	free(dense->to);
	free(dense->lengths);
	free_batch(&made);
}

Test(cuda_copy, each_format_is_copied_whole_and_nothing_else_is_written)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct dense dense = {.arrays = 1 + below(3),
		                      .sources = 1 + below(2),
		                      .numbers = ROWS,
		                      .skip_bytes = below(4) ? below(40) : (uint32_t)next_random(),
		                      .format = below(IBVCAP_SAMPLES_N),
		                      .fill = (float)below(256)};

		dense.row_bytes = 4 * below(60);
		expect_copies(&dense);
	}
}

Test(cuda_copy, rows_of_missing_numbers_are_filled_and_no_others)
{
	for (uint32_t format = 0; format < IBVCAP_SAMPLES_N; format++) {
		const uint32_t row_bytes = 12 / ibvcap_device_sample_bytes(format) * ibvcap_device_made_bytes(format);
		const uint8_t present[4] = {1, 0, 2, 0};
		const struct dense dense = {.to = allocate(4 * (size_t)row_bytes),
		                            .lengths = allocate(4 * sizeof(uint16_t)),
		                            .arrays = 2,
		                            .sources = 1,
		                            .numbers = 2,
		                            .row_bytes = 12,
		                            .format = format,
		                            .fill = 7};
		const float value = 7;

		fill_missing(present, &dense, format % 2 ? 64 : 1);
		for (uint32_t i = 0; i < 4 * row_bytes; i++) {
			uint8_t expected = format >= IBVCAP_SAMPLES_I8 ? ((const uint8_t *)&value)[i % 4] : 7;

			cr_assert_eq(dense.to[i], present[i / row_bytes] ? 0xa5 : expected);
		}
		for (uint32_t i = 0; i < 4; i++)
			cr_expect_eq(dense.lengths[i], present[i] ? 0xa5a5 : 0);
		free(dense.to);
		free(dense.lengths);
	}
}

Test(cuda_copy, a_format_that_does_not_exist_copies_nothing)
{
	struct dense dense = {.arrays = 1, .sources = 1, .numbers = ROWS, .row_bytes = 64, .format = IBVCAP_SAMPLES_N};
	struct ibvcap_placed placed[ROWS] = {{0}};
	struct made_batch made = random_batch();
	uint8_t nothing[1] = {0};

	dense.to = nothing;
	copy_rows(&made.batch, placed, &dense, 64);
	fill_missing(nothing, &dense, 64);
	cr_expect_eq(nothing[0], 0);
	free_batch(&made);
}
