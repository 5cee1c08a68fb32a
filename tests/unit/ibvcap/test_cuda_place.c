// SPDX-License-Identifier: Apache-2.0
/*
 * The kernels of ibvcap/cuda_place.cuh, run on the host, a call for each thread: they read what the library reads, put
 * packets where a placer puts them, and touch nothing else. The memory that they get has exactly the size that they may
 * use, for AddressSanitizer.
 */
#include "lib/ibvcap/sequence.h"
#include "lib/ibvcap/track/sequence_read.h"
#include "tests/support/frames.h"
#include "tests/unit/ibvcap/device_batch.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SAME(type, device, field)                                                                       \
	static_assert(offsetof(struct type, field) == offsetof(struct device, field) &&                 \
	                      sizeof(((struct type *)0)->field) == sizeof(((struct device *)0)->field), \
	              "the same layout")

static_assert(sizeof(struct ibvcap_meta) == sizeof(struct ibvcap_device_meta), "the same layout");
SAME(ibvcap_meta, ibvcap_device_meta, length);
SAME(ibvcap_meta, ibvcap_device_meta, flags);
SAME(ibvcap_meta, ibvcap_device_meta, header_length);
static_assert(sizeof(struct ibvcap_placed) == sizeof(struct ibvcap_device_placed), "the same layout");
SAME(ibvcap_placed, ibvcap_device_placed, kind);
SAME(ibvcap_placed, ibvcap_device_placed, array);
SAME(ibvcap_placed, ibvcap_device_placed, source);
SAME(ibvcap_placed, ibvcap_device_placed, row);
static_assert(sizeof(struct ibvcap_place_source) == sizeof(struct ibvcap_device_source), "the same layout");
SAME(ibvcap_place_source, ibvcap_device_source, destination);
SAME(ibvcap_place_source, ibvcap_device_source, port);
SAME(ibvcap_place_source, ibvcap_device_source, destination_port);
SAME(ibvcap_place_source, ibvcap_device_source, field);
static_assert(sizeof(struct ibvcap_sequence) == sizeof(struct ibvcap_device_sequence), "the same layout");
SAME(ibvcap_sequence, ibvcap_device_sequence, little_endian);
SAME(ibvcap_sequence, ibvcap_device_sequence, upper_offset);
SAME(ibvcap_sequence, ibvcap_device_sequence, source_offset);
SAME(ibvcap_sequence, ibvcap_device_sequence, source);
SAME(ibvcap_sequence, ibvcap_device_sequence, frame_offset);
SAME(ibvcap_sequence, ibvcap_device_sequence, frame_bits);
SAME(ibvcap_sequence, ibvcap_device_sequence, step);
SAME(ibvcap_sequence, ibvcap_device_sequence, modulus);
SAME(ibvcap_sequence, ibvcap_device_sequence, upper_step);
SAME(ibvcap_sequence, ibvcap_device_sequence, jump);
SAME(ibvcap_sequence, ibvcap_device_sequence, source_mask);
static_assert(IBVCAP_DEVICE_FLAG_FRAGMENT == IBVCAP_PACKET_FLAG_FRAGMENT, "the same flag");
static_assert(IBVCAP_DEVICE_FLAG_ERROR == IBVCAP_PACKET_FLAG_ERROR, "the same flag");
static_assert(IBVCAP_DEVICE_FLAG_UNUSABLE == IBVCAP_PACKET_FLAG_UNUSABLE, "the same flag");
static_assert(IBVCAP_DEVICE_FIRST == IBVCAP_PLACED_FIRST && IBVCAP_DEVICE_EMPTY == IBVCAP_PLACED_EMPTY, "the same");

/* A sound description, of every kind; fields often lie at the beginning of short payloads. */
static struct ibvcap_sequence random_description(void)
{
	struct ibvcap_sequence s;
	struct sequence_fault fault;

	do {
		s = (struct ibvcap_sequence){.offset = (uint16_t)below(24),
		                             .bytes = (uint8_t)(1 + below(8)),
		                             .little_endian = (uint8_t)below(2),
		                             .upper_bytes = (uint8_t)(below(3) ? 0 : 1 + below(8)),
		                             .upper_offset = (uint16_t)below(24),
		                             .count_bytes = (uint8_t)(below(4) ? 0 : 1 + below(2)),
		                             .count_offset = (uint16_t)below(24),
		                             .source_bytes = (uint8_t)(below(2) ? 0 : 1 + below(16)),
		                             .source_offset = (uint16_t)below(24),
		                             .source = (uint8_t)below(4),
		                             .frame_bytes = (uint8_t)(below(3) ? 0 : 1 + below(8)),
		                             .frame_offset = (uint16_t)below(24),
		                             .step = below(3) ? 1 : 1 + below(3000),
		                             .upper_step = below(2) ? 1 : 1 + below(5),
		                             .window = 64,
		                             .jump = 1 + below(1000),
		                             .modulus = below(3) ? 0 : 1 + below(1u << 20)};
		s.shift = (uint8_t)(below(2) ? 0 : below(8u * s.bytes));
		s.bits = (uint8_t)(below(2) ? 0 : below(8u * s.bytes + 1));
		s.upper_bits = (uint8_t)(below(2) ? 0 : below(8u * s.upper_bytes + 1));
		s.frame_bits = (uint8_t)(below(2) ? 0 : below(8u * s.frame_bytes + 1));
		fill_random(s.source_mask, sizeof(s.source_mask));
	} while (!sequence_check(&s, &fault));
	return s;
}

static struct ibvcap_device_rows device_rows(const struct ibvcap_rx_batch *batch)
{
	return (struct ibvcap_device_rows){.payload = batch->payload,
	                                   .headers = batch->headers,
	                                   .meta = (const struct ibvcap_device_meta *)batch->meta,
	                                   .n = batch->n,
	                                   .stride = batch->stride,
	                                   .header_stride = batch->header_stride,
	                                   .header_bytes = batch->header_bytes,
	                                   .application_header_bytes = batch->application_header_bytes};
}

/* ---- numbers ------------------------------------------------------------------------------------- */

static bool has_same_source(const struct sequence_key *key, const struct ibvcap_device_source *source)
{
	return memcmp(key->field, source->field, sizeof(key->field)) == 0 &&
	       memcmp(key->address, source->address, sizeof(key->address)) == 0 &&
	       memcmp(key->destination, source->destination, sizeof(key->destination)) == 0 &&
	       key->port == source->port && key->destination_port == source->destination_port;
}

static struct ibvcap_device_sequence device_sequence(const struct ibvcap_sequence *sequence)
{
	struct ibvcap_device_sequence device;

	memcpy(&device, sequence, sizeof(device));
	return device;
}

/* How many numbers were read: so a test knows that it tested something. */
static uint32_t expect_same_reading(const struct sequence_reader *reader, const struct ibvcap_rx_batch *batch,
                                    uint32_t i)
{
	const struct ibvcap_device_sequence sequence = device_sequence(&reader->sequence);
	const struct ibvcap_device_rows rows = device_rows(batch);
	struct ibvcap_device_reading found = {0};
	struct sequence_reading expected = {0};
	struct ibvcap_device_packet packet;
	struct ibvcap_packet same;
	uint64_t frame = 0;
	const bool has = sequence_packet_of_row(batch, i, batch->header_bytes, batch->application_header_bytes, &same);
	bool is_read = has && (same.has_headers || reader->sequence.source == IBVCAP_SOURCE_NONE) &&
	               sequence_read(reader, &same, &expected) && sequence_read_frame(reader, &same, &frame);

	cr_assert_eq(ibvcap_device_packet_of_row(&rows, i, &packet) != 0, has);
	cr_assert_eq(has && ibvcap_device_read(&sequence, &packet, &found), is_read);
	if (!is_read)
		return 0;
	cr_assert_eq(found.number, expected.number);
	cr_assert_eq(found.n, expected.n);
	cr_assert_eq(found.frame, frame);
	cr_assert(has_same_source(&expected.key, &found.source));
	cr_assert_eq(ibvcap_device_cycle(&sequence), reader->cycle);
	return 1;
}

Test(cuda_place, the_device_reads_numbers_frames_and_sources_as_the_library)
{
	uint32_t n_read = 0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct ibvcap_sequence sequence = random_description();
		struct made_batch made = random_batch();
		struct sequence_reader reader;

		cr_assert_eq(sequence_reader_init(&reader, &sequence, "a test"), 0);
		for (uint32_t i = 0; i < ROWS; i++)
			n_read += expect_same_reading(&reader, &made.batch, i);
		free_batch(&made);
	}
	cr_expect_gt(n_read, ROUNDS * ROWS / 8);
	cr_expect_lt(n_read, ROUNDS * ROWS);
}

/* IPv6 with n destination options, and UDP. */
static void put_extensions(struct made_batch *made, uint32_t i, uint32_t n)
{
	uint8_t frame[200] = {[12] = 0x86, [13] = 0xdd, [14] = 0x60, [19] = 140, [20] = n ? 60 : 17};

	frame[22 + below(32)] = 1;
	for (uint32_t k = 0; k < n; k++)
		frame[54 + 8 * k] = k + 1 < n ? 60 : 17;
	frame[54 + 8 * n + 1] = (uint8_t)n;
	put_frame(made, i, frame, sizeof(frame), 62, 0);
}

/* A later fragment, whose IP length is right or shorter than its header. */
static void put_later_fragment(struct made_batch *made, uint32_t i, uint8_t ip_bytes)
{
	uint8_t frame[100] = {[12] = 8, [14] = 0x45, [17] = ip_bytes, [21] = 7, [23] = 17};

	put_frame(made, i, frame, sizeof(frame), 34, IBVCAP_PACKET_FLAG_FRAGMENT);
}

Test(cuda_place, extension_headers_and_fragments_are_what_the_library_takes_them_for)
{
	const struct ibvcap_sequence sequence = {
		.bytes = 1, .step = 1, .upper_step = 1, .window = 64, .jump = 5, .source = IBVCAP_SOURCE_FLOW};
	struct made_batch made = make_batch(13, 50, 0, 150);
	struct sequence_reader reader;
	uint32_t n_read = 0;

	cr_assert_eq(sequence_reader_init(&reader, &sequence, "a test"), 0);
	for (uint32_t i = 0; i < 11; i++)
		put_extensions(&made, i, i);
	put_later_fragment(&made, 11, 86);
	put_later_fragment(&made, 12, 19);
	for (uint32_t i = 0; i < 13; i++)
		n_read += expect_same_reading(&reader, &made.batch, i);
	cr_expect_eq(n_read, 12, "a later fragment has no number, a frame with wrong lengths has");
	free_batch(&made);
}

/* ---- kernels -------------------------------------------------------------------------------------- */

struct ring {
	uint64_t first;
	uint32_t at;
	uint32_t numbers;
	uint32_t n_sources;
	const struct ibvcap_place_source *sources;
	uint8_t *present;
	uint64_t counts[IBVCAP_DEVICE_COUNTS];
};

/* Each thread of a grid, one after the other. */
static void index_rows(const struct ibvcap_rx_batch *batch, const struct ibvcap_sequence *sequence, struct ring *ring,
                       uint32_t side, uint32_t threads, struct ibvcap_placed *placed)
{
	const struct ibvcap_device_sequence description = device_sequence(sequence);

	for (uint32_t thread = 0; thread < threads; thread++) {
		ibvcap_device_host = (struct ibvcap_device_grid){thread, threads};
		ibvcap_index_rows(batch->payload, batch->headers, (const struct ibvcap_device_meta *)batch->meta,
		                  batch->n, batch->stride, batch->header_stride, batch->header_bytes,
		                  batch->application_header_bytes, &description,
		                  (const struct ibvcap_device_source *)ring->sources, ring->n_sources, ring->first,
		                  ring->at, ring->numbers, side, ring->present, (struct ibvcap_device_placed *)placed,
		                  (ibvcap_u64 *)ring->counts);
	}
}

/* ---- the same places as a placer's ---------------------------------------------------------------- */

#define NUMBERS     16
#define PLACED_ROWS 48
#define DATA_BYTES  40

/* Two sources by a byte of the payload; a packet takes as many numbers as another byte says. */
static struct ibvcap_sequence two_sources(void)
{
	struct ibvcap_sequence sequence = {.offset = 2,
	                                   .bytes = 4,
	                                   .step = 1,
	                                   .upper_step = 1,
	                                   .window = 64,
	                                   .jump = 1000,
	                                   .count_offset = 1,
	                                   .count_bytes = 1,
	                                   .source = IBVCAP_SOURCE_NONE,
	                                   .source_bytes = 1};

	memset(sequence.source_mask, 0xff, sizeof(sequence.source_mask));
	return sequence;
}

static void put_numbered(struct made_batch *made, uint32_t i, uint64_t first)
{
	static uint8_t frame[FRAME_BYTES_MAX];
	const struct frame_options options = {.payload_bytes = 6 + below(DATA_BYTES), .no_padding = true};
	const uint32_t bytes = frame_build(&options, (uint8_t)next_random(), frame);
	const uint32_t n = below(6) ? 1 : below(4), number = (uint32_t)first + below(NUMBERS - 3);
	uint8_t *payload = frame + bytes - options.payload_bytes;

	payload[0] = (uint8_t)(below(8) ? below(2) : 9);
	payload[1] = (uint8_t)(below(16) ? n : 255);
	payload[2] = (uint8_t)(number >> 24);
	payload[3] = (uint8_t)(number >> 16);
	payload[4] = (uint8_t)(number >> 8);
	payload[5] = (uint8_t)number;
	put_frame(made, i, frame, bytes, 42, (uint16_t)(below(10) ? 0 : IBVCAP_PACKET_FLAG_ERROR));
}

static void expect_same_array(const struct ibvcap_place_array *array, const struct dense *dense, const uint8_t *present)
{
	for (uint32_t source = 0; source < 2; source++) {
		const size_t at = source * array->stride_numbers, ours = (size_t)source * NUMBERS + array->at;

		cr_assert_arr_eq(array->present + at, present + ours, array->n_numbers);
		for (uint32_t i = 0; i < array->n_numbers; i++) {
			/* A packet with several numbers is in one row; the placer leaves the others as they are. */
			if (array->present[at + i] && array->lengths[at + i] == 0)
				continue;
			cr_assert_eq(array->lengths[at + i], dense->lengths[ours + i]);
			cr_assert_arr_eq(array->payload + (at + i) * array->row_bytes,
			                 dense->to + (ours + i) * dense->row_bytes, dense->row_bytes);
		}
	}
}

static void place_on_both(struct ibvcap_placer *placer, struct ring *ring, const struct dense *dense, uint32_t side)
{
	const struct ibvcap_sequence sequence = two_sources();
	const uint32_t application = below(2) ? 0 : 1 + below(20);
	/* Which of two packets with one number is the first depends on the order of threads: here that of the rows. */
	const uint32_t threads = below(2) ? 1 : 32 * (2 + below(3));
	struct made_batch made = make_batch(PLACED_ROWS, 42 + application, application, 64);
	struct ibvcap_placed expected[PLACED_ROWS], placed[PLACED_ROWS];

	for (uint32_t i = 0; i < PLACED_ROWS; i++)
		put_numbered(&made, i, ring->first);
	for (uint32_t i = 0; i < PLACED_ROWS;) {
		int taken = ibvcap_place_add(placer, &made.batch, i, side, expected);

		cr_assert_gt(taken, 0);
		i += (uint32_t)taken;
	}
	index_rows(&made.batch, &sequence, ring, side, threads, placed);
	copy_rows(&made.batch, placed, dense, threads);
	for (uint32_t i = 0; i < PLACED_ROWS; i++) {
		cr_assert_eq(placed[i].kind, expected[i].kind, "row %u: %u, not %u", i, placed[i].kind,
		             expected[i].kind);
		if (placed[i].kind <= IBVCAP_PLACED_DUPLICATE)
			cr_assert(placed[i].row == expected[i].row && placed[i].source == expected[i].source);
	}
	free_batch(&made);
}

static void expect_same_placement(uint64_t first)
{
	const struct ibvcap_sequence sequence = two_sources();
	const struct ibvcap_place_source sources[] = {{.field = {0}}, {.field = {1}}};
	const struct ibvcap_placer_options options = {.size = sizeof(options),
	                                              .numbers = NUMBERS,
	                                              .row_bytes = 32,
	                                              .skip_bytes = below(8),
	                                              .sides = 2,
	                                              .fill = 0xee,
	                                              .n_sources = 2,
	                                              .sources = sources};
	struct ring ring = {.first = first, .numbers = NUMBERS, .n_sources = 2, .sources = sources};
	const struct dense dense = {.to = allocate(2 * NUMBERS * 32),
	                            .lengths = allocate(2 * NUMBERS * sizeof(uint16_t)),
	                            .arrays = 1,
	                            .sources = 2,
	                            .numbers = NUMBERS,
	                            .row_bytes = 32,
	                            .skip_bytes = options.skip_bytes,
	                            .fill = 0xee};
	struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);
	struct ibvcap_placer *placer;

	ring.present = calloc(2, NUMBERS);
	cr_assert_eq(ibvcap_placer_new(&sequence, &options, &placer), 0, "%s", ibvcap_error_text());
	for (uint32_t side = 0; side < 2; side++)
		place_on_both(placer, &ring, &dense, side);
	fill_missing(ring.present, &dense, random_threads());
	ibvcap_place_flush(placer);
	if (ibvcap_place_next(placer, &array) == 1)
		expect_same_array(&array, &dense, ring.present);
	ibvcap_placer_free(placer);
	free(ring.present);
	free(dense.to);
	free(dense.lengths);
}

Test(cuda_place, packets_are_where_a_placer_puts_them)
{
	for (uint32_t round = 0; round < ROUNDS / 10; round++)
		expect_same_placement((uint64_t)NUMBERS * below(1000));
}

Test(cuda_place, a_ring_of_numbers_goes_on_where_the_number_wraps)
{
	/* 8 bits in steps of 4: 64 numbers; the ring begins at 62, in its row 2. */
	const struct ibvcap_sequence sequence = {
		.bytes = 1, .step = 4, .upper_step = 1, .window = 64, .jump = 5, .source = IBVCAP_SOURCE_NONE};
	const uint8_t numbers[ROWS] = {62, 63, 0, 1, 2, 60, 62, 15};
	const uint32_t kinds[ROWS] = {IBVCAP_PLACED_FIRST,     IBVCAP_PLACED_FIRST, IBVCAP_PLACED_FIRST,
	                              IBVCAP_PLACED_FIRST,     IBVCAP_PLACED_FAR,   IBVCAP_PLACED_LATE,
	                              IBVCAP_PLACED_DUPLICATE, IBVCAP_PLACED_FAR};
	const uint32_t rows[] = {2, 3, 0, 1};
	struct ring ring = {.first = 62, .at = 2, .numbers = 4, .present = calloc(1, 4)};
	struct made_batch made = make_batch(ROWS, 0, 0, 1);
	struct ibvcap_placed placed[ROWS];

	for (uint32_t i = 0; i < ROWS; i++) {
		made.payload[i] = (uint8_t)(4 * numbers[i]);
		made.meta[i].length = 1;
	}
	index_rows(&made.batch, &sequence, &ring, 3, ROWS, placed);
	for (uint32_t i = 0; i < ROWS; i++) {
		cr_expect_eq(placed[i].kind, kinds[i], "row %u: %u", i, placed[i].kind);
		cr_expect_eq(placed[i].row, i < 4 || i == 6 ? rows[i % 6] : IBVCAP_PLACE_NOWHERE);
	}
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_eq(ring.present[i], 1 << 3);
	cr_expect_eq(ring.counts[IBVCAP_PLACED_FIRST], 4);
	cr_expect_eq(ring.counts[IBVCAP_PLACED_FAR], 2);
	/* Number 2 is behind the ring by one; number 15 is farther away than a gap may be. */
	cr_expect_eq(ring.counts[IBVCAP_DEVICE_COUNT_AHEAD], 5);
	free(ring.present);
	free_batch(&made);
}

Test(cuda_place, a_packet_with_several_numbers_may_begin_before_the_ring)
{
	const struct ibvcap_sequence sequence = {.bytes = 4,
	                                         .count_offset = 4,
	                                         .count_bytes = 1,
	                                         .step = 1,
	                                         .upper_step = 1,
	                                         .window = 64,
	                                         .jump = 5,
	                                         .source = IBVCAP_SOURCE_NONE};
	struct ring ring = {.first = 10, .numbers = 4, .present = calloc(1, 4)};
	const uint8_t numbers[] = {8, 8, 13, 11}, counts[] = {2, 4, 2, 2}, present[] = {1, 1, 1, 1};
	struct made_batch made = make_batch(4, 0, 0, 5);
	struct ibvcap_placed placed[4];

	for (uint32_t i = 0; i < 4; i++) {
		memcpy(made.payload + (size_t)5 * i, (uint8_t[5]){0, 0, 0, numbers[i], counts[i]}, 5);
		made.meta[i].length = 5;
	}
	index_rows(&made.batch, &sequence, &ring, 0, 1, placed);
	cr_expect_eq(placed[0].kind, IBVCAP_PLACED_LATE, "8 and 9");
	cr_expect(placed[1].kind == IBVCAP_PLACED_FIRST && placed[1].row == 0, "8 to 11");
	cr_expect(placed[2].kind == IBVCAP_PLACED_FIRST && placed[2].row == 3, "13 and 14");
	cr_expect(placed[3].kind == IBVCAP_PLACED_FIRST && placed[3].row == 2, "11, which had come, and 12");
	cr_expect_arr_eq(ring.present, present, 4);
	cr_expect_eq(ring.counts[IBVCAP_DEVICE_COUNT_AHEAD], 5);
	free(ring.present);
	free_batch(&made);
}

/* The senders of a stream, by address and port. */
static void expect_listed(enum ibvcap_source source, uint32_t expected_other_port, uint32_t expected_other_address)
{
	static uint8_t frame[FRAME_BYTES_MAX];
	const struct ibvcap_sequence sequence = {
		.bytes = 1, .step = 1, .upper_step = 1, .window = 64, .jump = 5, .source = (uint8_t)source};
	const struct frame_options options = {.payload_bytes = 30};
	const uint32_t bytes = frame_build(&options, 0, frame);
	struct made_batch made = make_batch(3, 42, 0, 64);
	struct ibvcap_place_source listed = {.field_bytes = 0};
	struct ring ring = {.numbers = 256, .n_sources = 1, .sources = &listed, .present = calloc(1, 256)};
	struct ibvcap_placed placed[3];

	listed.address[10] = listed.address[11] = listed.destination[10] = listed.destination[11] = 0xff;
	memcpy(listed.address + 12, frame + 26, 4);
	memcpy(listed.destination + 12, frame + 30, 4);
	listed.port = (uint16_t)(frame[34] << 8 | frame[35]);
	listed.destination_port = (uint16_t)(frame[36] << 8 | frame[37]);
	put_frame(&made, 0, frame, bytes, 42, 0);
	frame[35] ^= 1;
	put_frame(&made, 1, frame, bytes, 42, 0);
	frame[35] ^= 1;
	frame[29] ^= 1;
	put_frame(&made, 2, frame, bytes, 42, 0);
	index_rows(&made.batch, &sequence, &ring, 0, 3, placed);
	cr_expect_eq(placed[0].kind, IBVCAP_PLACED_FIRST);
	cr_expect_eq(placed[1].kind, expected_other_port);
	cr_expect_eq(placed[2].kind, expected_other_address);
	free(ring.present);
	free_batch(&made);
}

Test(cuda_place, packets_of_a_source_that_is_not_listed_are_unlisted)
{
	expect_listed(IBVCAP_SOURCE_FLOW, IBVCAP_PLACED_UNLISTED, IBVCAP_PLACED_UNLISTED);
	expect_listed(IBVCAP_SOURCE_PORT, IBVCAP_PLACED_UNLISTED, IBVCAP_PLACED_UNLISTED);
	expect_listed(IBVCAP_SOURCE_ADDRESS, IBVCAP_PLACED_DUPLICATE, IBVCAP_PLACED_UNLISTED);
	expect_listed(IBVCAP_SOURCE_NONE, IBVCAP_PLACED_DUPLICATE, IBVCAP_PLACED_DUPLICATE);
}

Test(cuda_place, a_description_that_the_library_refuses_makes_no_harm)
{
	uint32_t n_sound = 0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct made_batch made = random_batch();
		struct ring ring = {.first = next_random(), .at = below(8), .numbers = 8, .present = calloc(1, 8)};
		struct ibvcap_placed placed[ROWS];
		struct ibvcap_device_sequence device;
		struct ibvcap_sequence sequence;
		struct sequence_fault fault;
		uint64_t n = 0;

		fill_random(&sequence, sizeof(sequence));
		for (uint8_t *field = (uint8_t *)&sequence; field < (uint8_t *)&sequence.step; field++)
			*field &= below(2) ? 7 : 255;
		device = device_sequence(&sequence);
		n_sound += ibvcap_device_is_sound(&device) != 0;
		cr_assert(ibvcap_device_is_sound(&device) || !sequence_check(&sequence, &fault));
		index_rows(&made.batch, &sequence, &ring, below(8), random_threads(), placed);
		for (uint32_t i = 0; i < IBVCAP_DEVICE_COUNT_AHEAD; i++)
			n += ring.counts[i];
		cr_assert_eq(n, ROWS);
		cr_assert(ibvcap_device_is_sound(&device) || ring.counts[IBVCAP_PLACED_UNREAD] == ROWS);
		free(ring.present);
		free_batch(&made);
	}
	cr_expect_gt(n_sound, 0);
	cr_expect_lt(n_sound, ROUNDS);
}
