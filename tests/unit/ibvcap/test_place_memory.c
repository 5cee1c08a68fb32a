// SPDX-License-Identifier: Apache-2.0
/* A placer with memory of the caller: where it writes, what happens without memory, and that all of it goes back. */
#include <criterion/criterion.h>
#include <errno.h>
#include <ibvcap/place.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_PIECES_MAX 12
#define PAYLOAD      8 /* number in 4 bytes, source, 3 bytes of data */
#define FILL         0xee

static struct ibvcap_sequence description(void)
{
	struct ibvcap_sequence sequence = {.bytes = 4,
	                                   .bits = 16,
	                                   .step = 1,
	                                   .upper_step = 1,
	                                   .window = 64,
	                                   .jump = 1000,
	                                   .source = IBVCAP_SOURCE_NONE,
	                                   .source_offset = 4,
	                                   .source_bytes = 1};

	memset(sequence.source_mask, 0xff, sizeof(sequence.source_mask));
	return sequence;
}

/* ---- memory: each piece ends at a page that nobody may touch, and may be touched only while it is given ------- */

struct pieces {
	uint32_t n, n_calls, n_given;
	uint32_t fails_at; /* the call that gets no memory, from 1; 0: none */
	size_t bytes, mapped_bytes;
	uint8_t *mappings[N_PIECES_MAX], *given[N_PIECES_MAX];
};

static void *take_piece(void *context, size_t align, size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct pieces *pieces = context;

	cr_assert(align >= 64 && align <= page && (align & (align - 1)) == 0, "align %zu", align);
	cr_assert(pieces->bytes == 0 || pieces->bytes == bytes, "%zu bytes, then %zu", pieces->bytes, bytes);
	pieces->bytes = bytes;
	pieces->mapped_bytes = (bytes + page - 1) / page * page;
	if (++pieces->n_calls == pieces->fails_at)
		return NULL;
	for (uint32_t i = 0; i < pieces->n; i++) {
		if (pieces->given[i])
			continue;
		if (!pieces->mappings[i])
			pieces->mappings[i] =
				mmap(NULL, pieces->mapped_bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		cr_assert_neq(pieces->mappings[i], MAP_FAILED);
		cr_assert_eq(mprotect(pieces->mappings[i], pieces->mapped_bytes, PROT_READ | PROT_WRITE), 0);
		memset(pieces->mappings[i], 0x5a, pieces->mapped_bytes);
		pieces->given[i] = pieces->mappings[i] + (pieces->mapped_bytes - bytes) / align * align;
		pieces->n_given++;
		return pieces->given[i];
	}
	return NULL;
}

static void give_piece_back(void *context, void *memory)
{
	struct pieces *pieces = context;

	for (uint32_t i = 0; i < pieces->n; i++) {
		if (pieces->given[i] != memory)
			continue;
		for (uint8_t *at = pieces->mappings[i]; at < pieces->mappings[i] + pieces->mapped_bytes; at++)
			if (at < pieces->given[i] || at >= pieces->given[i] + pieces->bytes)
				cr_assert_eq(*at, 0x5a, "a byte outside of the memory was written");
		cr_assert_eq(mprotect(pieces->mappings[i], pieces->mapped_bytes, PROT_NONE), 0);
		pieces->given[i] = NULL;
		pieces->n_given--;
		return;
	}
	cr_assert_fail("memory came back that was not given, or came back twice");
}

static void pieces_unmap(struct pieces *pieces)
{
	cr_expect_eq(pieces->n_given, 0, "all memory was given back");
	for (uint32_t i = 0; i < pieces->n; i++)
		if (pieces->mappings[i])
			munmap(pieces->mappings[i], pieces->mapped_bytes + (size_t)sysconf(_SC_PAGESIZE));
}

/* ---- packets ------------------------------------------------------------------------------------- */

static struct ibvcap_placer *placer_of(struct pieces *pieces, struct ibvcap_placer_options options)
{
	struct ibvcap_sequence sequence = description();
	struct ibvcap_placer *placer = NULL;

	options.size = sizeof(options);
	options.row_bytes = PAYLOAD;
	options.fill = FILL;
	options.max_sources = 3;
	options.take = take_piece;
	options.give_back = give_piece_back;
	options.context = pieces;
	cr_assert_eq(ibvcap_placer_new(&sequence, &options, &placer), 0, "%s", ibvcap_error_text());
	return placer;
}

static void make_payload(uint8_t bytes[PAYLOAD], uint32_t number, uint8_t source)
{
	const uint8_t made[PAYLOAD] = {
		0, 0, (uint8_t)(number >> 8), (uint8_t)number, source, (uint8_t)(number * 7), source, 1};

	memcpy(bytes, made, PAYLOAD);
}

/* 0: it waits; 1: *kind says what it is. */
static int place_once(struct ibvcap_placer *placer, uint32_t number, uint8_t source, uint32_t side, uint32_t *kind)
{
	struct ibvcap_placed placed;
	uint8_t bytes[PAYLOAD];
	const struct ibvcap_packet packet = {.row = bytes, .row_bytes = sizeof(bytes)};
	int r;

	make_payload(bytes, number, source);
	r = ibvcap_place_add_packet(placer, &packet, 0, side, &placed);
	cr_assert(r == 0 || r == 1, "%d: %s", r, ibvcap_error_text());
	*kind = placed.kind;
	return r;
}

static uint32_t place_number(struct ibvcap_placer *placer, uint32_t number)
{
	uint32_t kind;

	cr_assert_eq(place_once(placer, number, 0, 0, &kind), 1, "number %u does not wait", number);
	return kind;
}

static struct ibvcap_place_array take(struct ibvcap_placer *placer)
{
	struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);

	cr_assert_eq(ibvcap_place_next(placer, &array), 1, "an array is closed");
	return array;
}

static struct ibvcap_place_side side_of(const struct ibvcap_placer *placer, uint32_t index)
{
	struct ibvcap_place_side side = IBVCAP_INIT(struct ibvcap_place_side);

	cr_assert_eq(ibvcap_place_side(placer, index, &side), 1);
	return side;
}

static void expect_sums(const struct ibvcap_placer *placer, uint32_t n_sides)
{
	struct ibvcap_place_counts counts = IBVCAP_INIT(struct ibvcap_place_counts);

	cr_assert_eq(ibvcap_place_counts(placer, &counts), 0);
	cr_expect_eq(counts.expected, counts.present + counts.missing);
	for (uint32_t i = 0; i < n_sides; i++) {
		const struct ibvcap_place_side side = side_of(placer, i);

		cr_expect_eq(side.arrived,
		             side.open + side.present + side.duplicate + side.late + side.far + side.outside);
		cr_expect_eq(side.expected, side.present + side.missing);
		cr_expect_leq(side.no_memory, side.late);
	}
}

/* ---- one array and the next ---------------------------------------------------------------------- */

Test(place_memory, arrays_lie_in_the_memory_that_was_given)
{
	struct pieces pieces = {.n = 3};
	struct ibvcap_placer *placer = placer_of(&pieces, (struct ibvcap_placer_options){.numbers = 4, .align = 256});
	struct ibvcap_place_array array;
	uint8_t bytes[PAYLOAD];

	cr_expect_eq(ibvcap_place_bytes(placer), 3 * 4 * PAYLOAD);
	cr_expect_eq(pieces.n_calls, 0, "no array was begun");
	for (uint32_t i = 4; i < 8; i++)
		place_number(placer, i);
	array = take(placer);
	cr_expect_eq(array.payload, pieces.given[0]);
	cr_expect_eq((uintptr_t)array.payload % 256, 0);
	for (uint32_t i = 0; i < 4; i++) {
		make_payload(bytes, 4 + i, 0);
		cr_expect_arr_eq(array.payload + i * PAYLOAD, bytes, PAYLOAD);
	}
	place_number(placer, 8);
	cr_expect_eq(pieces.n_given, 2);
	ibvcap_place_release(placer, &array);
	cr_expect_eq(pieces.n_given, 1);
	cr_expect_eq(ibvcap_place_release(placer, &array), -EINVAL);
	place_number(placer, 12);
	place_number(placer, 16);
	ibvcap_place_flush(placer);
	take(placer); /* held, closed, closed: all come back */
	cr_expect_eq(pieces.n_given, 3);
	ibvcap_placer_free(placer);
	pieces_unmap(&pieces);
}

Test(place_memory, without_memory_the_oldest_array_is_closed_and_the_packet_waits)
{
	struct pieces pieces = {.n = 2};
	struct ibvcap_placer *placer = placer_of(&pieces, (struct ibvcap_placer_options){.numbers = 4});
	struct ibvcap_place_array array;
	uint32_t kind;

	place_number(placer, 0);
	place_number(placer, 4);
	cr_expect_eq(place_once(placer, 8, 0, 0, &kind), 0, "it waits");
	cr_expect_eq(side_of(placer, 0).packets, 2, "as if it had not come");
	expect_sums(placer, 1);
	array = take(placer);
	cr_expect_eq(array.end, IBVCAP_PLACE_WINDOW);
	cr_expect_eq(array.n_present, 1);
	ibvcap_place_release(placer, &array);
	cr_expect_eq(place_number(placer, 8), IBVCAP_PLACED_FIRST);
	cr_expect_eq(place_number(placer, 2), IBVCAP_PLACED_LATE);
	cr_expect_eq(side_of(placer, 0).no_memory, 0, "its array was closed");
	expect_sums(placer, 1);
	ibvcap_placer_free(placer);
	pieces_unmap(&pieces);
}

Test(place_memory, a_row_of_a_batch_waits)
{
	struct pieces pieces = {.n = 1};
	struct ibvcap_placer *placer = placer_of(&pieces, (struct ibvcap_placer_options){.numbers = 4});
	uint8_t rows[4][PAYLOAD];
	struct ibvcap_meta meta[4] = {0};
	const struct ibvcap_rx_batch batch = {
		.size = sizeof(batch), .payload = rows[0], .headers = rows[0], .meta = meta, .n = 4, .stride = PAYLOAD};
	struct ibvcap_place_array array;

	for (uint32_t i = 0; i < 4; i++) {
		make_payload(rows[i], (uint32_t[]){0, 1, 4, 5}[i], 0);
		meta[i].length = PAYLOAD;
	}
	cr_expect_eq(ibvcap_place_add(placer, &batch, 0, 0, NULL), 2, "before the row that waits");
	array = take(placer);
	cr_expect_eq(ibvcap_place_add(placer, &batch, 2, 0, NULL), 2, "the caller has the memory: they are late");
	cr_expect_eq(side_of(placer, 0).no_memory, 2);
	ibvcap_place_release(placer, &array);
	cr_expect_eq(ibvcap_place_add(placer, &batch, 2, 0, NULL), 2);
	cr_expect_eq(side_of(placer, 0).open, 2);
	make_payload(rows[0], 8, 0);
	cr_expect_eq(ibvcap_place_add(placer, &batch, 0, 0, NULL), 0, "the first row waits");
	array = take(placer);
	ibvcap_place_release(placer, &array);
	cr_expect_eq(ibvcap_place_add(placer, &batch, 0, 0, NULL), 4);
	expect_sums(placer, 1);
	ibvcap_placer_free(placer);
	pieces_unmap(&pieces);
}

Test(place_memory, packets_are_late_while_the_caller_holds_all_memory_and_the_run_goes_on)
{
	struct pieces pieces = {.n = 1};
	struct ibvcap_placer *placer = placer_of(&pieces, (struct ibvcap_placer_options){.numbers = 4});
	struct ibvcap_place_counts counts = IBVCAP_INIT(struct ibvcap_place_counts);
	struct ibvcap_place_array array;

	for (uint32_t i = 0; i < 4; i++)
		place_number(placer, i);
	array = take(placer);
	for (uint32_t i = 4; i < 70000; i++) /* more than may be ahead or behind, and than a cycle */
		cr_assert_eq(place_number(placer, i), IBVCAP_PLACED_LATE);
	cr_expect_eq(side_of(placer, 0).no_memory, 70000 - 4);
	expect_sums(placer, 1);
	ibvcap_place_release(placer, &array);
	for (uint32_t i = 70000; i < 70004; i++)
		cr_expect_eq(place_number(placer, i), IBVCAP_PLACED_FIRST);
	array = take(placer);
	cr_expect_eq(array.end, IBVCAP_PLACE_COMPLETE);
	cr_expect_eq(array.first, 70000);
	cr_expect_eq(array.before, 70000 - 4);
	ibvcap_place_counts(placer, &counts);
	cr_expect_eq(counts.runs, 1);
	cr_expect_eq(counts.expected, 70004);
	cr_expect_eq(counts.missing, 70000 - 4);
	expect_sums(placer, 1);
	ibvcap_placer_free(placer);
	pieces_unmap(&pieces);
}

Test(place_memory, packets_before_there_was_memory_are_missing_before_the_first_array)
{
	struct pieces pieces = {.n = 1, .fails_at = 1};
	struct ibvcap_placer *placer = placer_of(&pieces, (struct ibvcap_placer_options){.numbers = 4});
	struct ibvcap_place_array array;

	cr_expect_eq(place_number(placer, 2), IBVCAP_PLACED_LATE);
	for (uint32_t i = 4; i < 8; i++)
		cr_expect_eq(place_number(placer, i), IBVCAP_PLACED_FIRST);
	array = take(placer);
	cr_expect_eq(array.first, 4);
	cr_expect_eq(array.before, 2, "2 and 3");
	cr_expect_eq(side_of(placer, 0).missing, 2);
	expect_sums(placer, 1);
	ibvcap_placer_free(placer);
	pieces_unmap(&pieces);
}

Test(place_memory, a_caller_that_does_not_take_arrays_never_waits)
{
	struct pieces pieces = {.n = 2};
	struct ibvcap_placer *placer = placer_of(&pieces, (struct ibvcap_placer_options){.numbers = 1});
	uint32_t kind;

	place_number(placer, 0);
	place_number(placer, 1); /* both are complete, and not taken */
	for (uint32_t i = 2; i < 10; i++)
		cr_expect_eq(place_once(placer, i, 0, 0, &kind), 1);
	cr_expect_eq(side_of(placer, 0).no_memory, 8);
	expect_sums(placer, 1);
	ibvcap_placer_free(placer);
	pieces_unmap(&pieces);
}

/* ---- random histories ---------------------------------------------------------------------------- */

struct history {
	uint32_t n_sides, n_sources, window, n_pieces, fails_at, keeps; /* keeps: arrays that the caller holds */
	uint64_t seed;
};

static uint32_t chance(struct history *history, uint32_t n)
{
	history->seed = history->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(history->seed >> 33) % n;
}

/* Each row has the packet of its number, or was filled. */
static void expect_rows(const struct ibvcap_place_array *array)
{
	for (uint32_t source = 0; source < array->n_sources; source++) {
		for (uint32_t i = 0; i < array->n_numbers; i++) {
			const uint64_t at = source * array->stride_numbers + i;
			uint8_t bytes[PAYLOAD];

			if (array->present[at])
				make_payload(bytes, (uint32_t)(array->first + i) & 0xffff, (uint8_t)source);
			else
				memset(bytes, FILL, PAYLOAD);
			cr_assert_arr_eq(array->payload + at * PAYLOAD, bytes, PAYLOAD, "number %ld",
			                 (long)array->first + i);
		}
	}
}

static void take_all(struct ibvcap_placer *placer, struct history *history, struct ibvcap_place_array *held,
                     uint32_t *n_held)
{
	struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);

	while (ibvcap_place_next(placer, &array) == 1) {
		expect_rows(&array);
		held[(*n_held)++] = array;
		while (*n_held > history->keeps || (*n_held && chance(history, 2))) {
			const uint32_t i = chance(history, *n_held);

			cr_assert_eq(ibvcap_place_release(placer, &held[i]), 0);
			held[i] = held[--*n_held];
		}
	}
}

/* The numbers go on, with losses, repetitions, packets out of order and restarts. How many calls asked for memory? */
static uint32_t place_history(struct history history)
{
	struct pieces pieces = {.n = history.n_pieces, .fails_at = history.fails_at};
	struct ibvcap_place_source sources[] = {{.field = {0}}, {.field = {1}}, {.field = {2}}};
	struct ibvcap_placer *placer = placer_of(&pieces, (struct ibvcap_placer_options){.numbers = 5,
	                                                                                 .window = history.window,
	                                                                                 .sides = history.n_sides,
	                                                                                 .n_sources = history.n_sources,
	                                                                                 .sources = sources});
	struct ibvcap_place_array held[N_PIECES_MAX];
	uint64_t n_given = 0, n_arrived = 0;
	uint32_t number = 65500, n_held = 0, kind;

	for (uint32_t i = 0; i < 400; i++) {
		const uint32_t back = chance(&history, 8) ? 0 : chance(&history, 12),
			       side = chance(&history, history.n_sides);

		number += chance(&history, 100) ? chance(&history, 2) + !chance(&history, 10) * 4 : 20000;
		while (place_once(placer, (number - back) & 0xffff, (uint8_t)chance(&history, history.n_sources), side,
		                  &kind) == 0)
			take_all(placer, &history, held, &n_held);
		n_given++;
		take_all(placer, &history, held, &n_held);
		expect_sums(placer, history.n_sides);
	}
	ibvcap_place_flush(placer);
	take_all(placer, &history, held, &n_held);
	for (uint32_t i = 0; i < history.n_sides; i++)
		n_arrived += side_of(placer, i).arrived;
	cr_expect_eq(n_arrived, n_given, "each packet is counted, once");
	cr_expect_eq(pieces.n_given, n_held);
	ibvcap_placer_free(placer);
	pieces_unmap(&pieces);
	return pieces.n_calls;
}

Test(place_memory, random_histories_stay_in_the_memory_that_was_given)
{
	for (uint32_t seed = 0; seed < 150; seed++)
		place_history((struct history){.n_sides = 1 + seed % 2,
		                               .n_sources = 1 + seed % 3,
		                               .window = 1 + seed % 4,
		                               .n_pieces = 1 + seed / 3 % 7,
		                               .keeps = seed / 5 % 5,
		                               .seed = seed});
}

Test(place_memory, each_call_for_memory_may_fail)
{
	struct history history = {.n_sides = 2, .n_sources = 2, .window = 3, .n_pieces = 8, .keeps = 2};
	uint32_t n;

	for (history.fails_at = 1; (n = place_history(history)) >= history.fails_at; history.fails_at++)
		;
	cr_expect_gt(n, 40, "%u calls", n);
}

/* ---- options ------------------------------------------------------------------------------------- */

Test(place_memory, options_that_do_not_fit_are_refused)
{
	struct pieces pieces = {.n = 1};
	const struct {
		struct ibvcap_placer_options options;
		const char *text;
	} wrong[] = {
		{{.size = sizeof(wrong[0].options), .align = 3}, "power of two"},
		{{.size = sizeof(wrong[0].options), .align = 1u << 22}, "2097152 at most"},
		{{.size = sizeof(wrong[0].options), .row_bytes = 1, .take = take_piece}, "both, or none"},
		{{.size = sizeof(wrong[0].options), .row_bytes = 1, .give_back = give_piece_back}, "both, or none"},
		{{.size = sizeof(wrong[0].options), .take = take_piece, .give_back = give_piece_back}, "row_bytes = 0"},
	};
	const struct ibvcap_sequence sequence = description();
	struct ibvcap_placer *placer;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect_eq(ibvcap_placer_new(&sequence, &wrong[i].options, &placer), -EINVAL, "option %zu", i);
		cr_expect(strstr(ibvcap_error_text(), wrong[i].text), "%s", ibvcap_error_text());
	}
	cr_expect_eq(pieces.n_calls, 0);
}

Test(place_memory, a_program_that_does_not_know_the_options_gets_memory_of_the_placer)
{
	struct ibvcap_placer_options options = {.size = offsetof(struct ibvcap_placer_options, align),
	                                        .numbers = 1,
	                                        .row_bytes = PAYLOAD,
	                                        .align = 3,
	                                        .take = take_piece};
	const struct ibvcap_sequence sequence = description();
	struct ibvcap_placer *placer;
	struct ibvcap_place_array array;

	cr_assert_eq(ibvcap_placer_new(&sequence, &options, &placer), 0, "%s", ibvcap_error_text());
	place_number(placer, 1);
	array = take(placer);
	cr_expect_eq((uintptr_t)array.payload % 64, 0);
	ibvcap_placer_free(placer);
}

Test(place_memory, memory_of_the_placer_is_aligned_as_asked)
{
	const struct ibvcap_placer_options options = {
		.size = sizeof(options), .numbers = 3, .row_bytes = 5, .align = 1u << 16};
	const struct ibvcap_sequence sequence = description();
	struct ibvcap_place_array array;
	struct ibvcap_placer *placer;

	cr_assert_eq(ibvcap_placer_new(&sequence, &options, &placer), 0, "%s", ibvcap_error_text());
	for (uint32_t i = 0; i < 6; i++)
		place_number(placer, i);
	for (uint32_t i = 0; i < 2; i++) {
		array = take(placer);
		cr_expect_eq((uintptr_t)array.payload % (1u << 16), 0);
	}
	ibvcap_placer_free(placer);
}
