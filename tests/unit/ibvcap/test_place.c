// SPDX-License-Identifier: Apache-2.0
/* Placement: where packets go, why arrays are closed, and that the sums hold. */
#include <criterion/criterion.h>
#include <endian.h>
#include <errno.h>
#include <ibvcap/place.h>
#include <stdlib.h>
#include <string.h>

#define PAYLOAD 8 /* source, frame, number in 4 bytes, 2 bytes of data */

/* A number of 16 bits; the frame and the source are a byte of the payload each. */
static struct ibvcap_sequence description(void)
{
	struct ibvcap_sequence sequence = {
		.offset = 2,
		.bytes = 4,
		.bits = 16,
		.step = 1,
		.upper_step = 1,
		.window = 64,
		.jump = 1000,
		.source = IBVCAP_SOURCE_NONE,
		.source_bytes = 1,
	};

	memset(sequence.source_mask, 0xff, sizeof(sequence.source_mask));
	return sequence;
}

static struct ibvcap_placer *placer_of(const struct ibvcap_placer_options *options)
{
	struct ibvcap_sequence sequence = description();
	struct ibvcap_placer *placer = NULL;

	cr_assert_eq(ibvcap_placer_new(&sequence, options, &placer), 0, "%s", ibvcap_error_text());
	return placer;
}

static struct ibvcap_placer *placer_of_frames(const struct ibvcap_placer_options *options)
{
	struct ibvcap_sequence sequence = description();
	struct ibvcap_placer *placer = NULL;

	sequence.frame_offset = 1;
	sequence.frame_bytes = 1;
	cr_assert_eq(ibvcap_placer_new(&sequence, options, &placer), 0, "%s", ibvcap_error_text());
	return placer;
}

struct packet {
	uint32_t side;
	uint8_t source;
	uint8_t frame;
	uint32_t number;
	uint64_t ns;
};

static struct ibvcap_placed place(struct ibvcap_placer *placer, struct packet what)
{
	uint8_t bytes[PAYLOAD] = {
		what.source,          what.frame,           0,          0, (uint8_t)(what.number >> 8),
		(uint8_t)what.number, (uint8_t)what.number, what.source};
	const struct ibvcap_packet packet = {.row = bytes, .row_bytes = sizeof(bytes)};
	struct ibvcap_placed placed;

	cr_assert_eq(ibvcap_place_add_packet(placer, &packet, what.ns, what.side, &placed), 1);
	return placed;
}

static uint32_t place_number(struct ibvcap_placer *placer, uint32_t number)
{
	return place(placer, (struct packet){.number = number}).kind;
}

static void place_numbers(struct ibvcap_placer *placer, uint32_t from, uint32_t until)
{
	for (uint32_t number = from; number < until; number++)
		cr_expect_eq(place_number(placer, number), IBVCAP_PLACED_FIRST, "number %u", number);
}

static struct ibvcap_place_array take(struct ibvcap_placer *placer)
{
	struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);

	cr_assert_eq(ibvcap_place_next(placer, &array), 1, "an array is closed");
	return array;
}

static bool has_closed(struct ibvcap_placer *placer)
{
	struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);

	return ibvcap_place_next(placer, &array) == 1;
}

static void expect_array(struct ibvcap_placer *placer, enum ibvcap_place_end end, int64_t first, uint32_t n_numbers,
                         uint64_t n_present)
{
	struct ibvcap_place_array array = take(placer);

	cr_expect_eq(array.end, end, "end %d, expected %d", array.end, end);
	cr_expect_eq(array.first, first, "first %ld, expected %ld", (long)array.first, (long)first);
	cr_expect_eq(array.n_numbers, n_numbers, "%u numbers, expected %u", array.n_numbers, n_numbers);
	cr_expect_eq(array.n_present, n_present, "%lu present", (unsigned long)array.n_present);
	cr_assert_eq(ibvcap_place_release(placer, &array), 0);
}

static void expect_sums(const struct ibvcap_placer *placer)
{
	struct ibvcap_place_counts counts = IBVCAP_INIT(struct ibvcap_place_counts);
	struct ibvcap_place_side side = IBVCAP_INIT(struct ibvcap_place_side);

	cr_assert_eq(ibvcap_place_counts(placer, &counts), 0);
	cr_expect_eq(counts.expected, counts.present + counts.missing);
	for (uint32_t i = 0; ibvcap_place_side(placer, i, &side) == 1; i++) {
		cr_expect_eq(side.arrived,
		             side.open + side.present + side.duplicate + side.late + side.far + side.outside);
		cr_expect_eq(side.expected, counts.expected);
		cr_expect_eq(side.expected, side.present + side.missing);
	}
}

Test(place, a_complete_array_has_each_packet_in_its_row)
{
	const struct ibvcap_placer_options options = {
		.size = sizeof(options), .numbers = 4, .row_bytes = 3, .skip_bytes = 6, .fill = 0xee};
	struct ibvcap_placer *placer = placer_of(&options);
	struct ibvcap_place_array array;
	const uint8_t expected[] = {4, 0, 0xee, 5, 0, 0xee, 6, 0, 0xee, 7, 0, 0xee};

	cr_expect_eq(place_number(placer, 4), IBVCAP_PLACED_FIRST);
	cr_expect_eq(place_number(placer, 7), IBVCAP_PLACED_FIRST);
	cr_expect_eq(place_number(placer, 5), IBVCAP_PLACED_FIRST);
	cr_expect_eq(place_number(placer, 5), IBVCAP_PLACED_DUPLICATE);
	cr_expect(!has_closed(placer));
	cr_expect_eq(place_number(placer, 6), IBVCAP_PLACED_FIRST);
	array = take(placer);
	cr_expect_eq(array.end, IBVCAP_PLACE_COMPLETE);
	cr_expect_eq(array.n_expected, 4);
	cr_expect_arr_eq(array.payload, expected, sizeof(expected));
	cr_expect_eq(array.lengths[3], 2);
	cr_expect_eq(array.present[3], 1);
	cr_expect_eq(place_number(placer, 6), IBVCAP_PLACED_LATE);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, a_missing_row_is_filled_and_a_long_packet_is_cut)
{
	const struct ibvcap_placer_options options = {
		.size = sizeof(options), .numbers = 4, .row_bytes = 1, .skip_bytes = 6, .fill = 0xee};
	struct ibvcap_placer *placer = placer_of(&options);
	struct ibvcap_place_side side = IBVCAP_INIT(struct ibvcap_place_side);
	struct ibvcap_place_array array;

	for (uint32_t round = 0; round < 3; round++) { /* the memory of an array is used again */
		place_number(placer, 4 * round);
		place_number(placer, 4 * round + 2);
		ibvcap_place_flush(placer);
		array = take(placer);
		cr_expect_eq(array.end, IBVCAP_PLACE_FLUSH);
		cr_expect_eq(array.n_numbers, 3, "nothing says that more was sent");
		cr_expect_eq(array.payload[0], (uint8_t)(4 * round));
		cr_expect_eq(array.payload[1], 0xee);
		cr_expect_eq(array.lengths[1], 0);
		cr_expect_eq(array.n_expected, array.n_present + 1);
		ibvcap_place_release(placer, &array);
	}
	ibvcap_place_side(placer, 0, &side);
	cr_expect_eq(side.cut, 6);
	cr_expect_eq(side.missing, 3);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, the_oldest_array_is_closed_when_the_window_is_full)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4, .window = 2};
	struct ibvcap_placer *placer = placer_of(&options);

	place_numbers(placer, 1, 3);
	place_number(placer, 5);
	cr_expect_eq(place_number(placer, 3), IBVCAP_PLACED_FIRST, "it is complete: the run began at 1");
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 1, 3, 3);
	place_number(placer, 9);
	cr_expect(!has_closed(placer));
	place_number(placer, 21);
	expect_array(placer, IBVCAP_PLACE_WINDOW, 4, 4, 1);
	cr_expect_eq(place_number(placer, 4), IBVCAP_PLACED_LATE);
	cr_expect_eq(place_number(placer, 12), IBVCAP_PLACED_FIRST, "between the two that were open");
	expect_array(placer, IBVCAP_PLACE_WINDOW, 8, 4, 1);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, whole_arrays_that_are_missing_are_counted_between)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4, .window = 1};
	struct ibvcap_placer *placer = placer_of(&options);
	struct ibvcap_place_counts counts = IBVCAP_INIT(struct ibvcap_place_counts);
	struct ibvcap_place_array array;

	place_numbers(placer, 0, 4);
	place_numbers(placer, 20, 24);
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 0, 4, 4);
	array = take(placer);
	cr_expect_eq(array.before, 16);
	ibvcap_place_counts(placer, &counts);
	cr_expect_eq(counts.between, 16);
	cr_expect_eq(counts.missing, 16);
	cr_expect_eq(counts.arrays[IBVCAP_PLACE_COMPLETE], 2);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, numbers_go_on_where_they_begin_again)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4};
	struct ibvcap_placer *placer = placer_of(&options);

	place_numbers(placer, 65532, 65536);
	place_numbers(placer, 0, 4);
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 65532, 4, 4);
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 65536, 4, 4);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, a_number_from_before_the_first_may_be_below_0)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4};
	struct ibvcap_placer *placer = placer_of(&options);

	place_number(placer, 1);
	place_number(placer, 65535);
	place_number(placer, 0);
	expect_array(placer, IBVCAP_PLACE_COMPLETE, -1, 1, 1);
	place_numbers(placer, 2, 4);
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 0, 4, 4);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, an_array_is_closed_at_its_deadline_with_those_before_it)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4, .deadline_ns = 100};
	struct ibvcap_placer *placer = placer_of(&options);

	place(placer, (struct packet){.number = 5, .ns = 1000});
	place(placer, (struct packet){.number = 1, .ns = 1050});
	place(placer, (struct packet){.number = 9, .ns = 1099});
	cr_expect(!has_closed(placer));
	place(placer, (struct packet){.number = 10, .ns = 1100});
	expect_array(placer, IBVCAP_PLACE_DEADLINE, 1, 3, 1);
	expect_array(placer, IBVCAP_PLACE_DEADLINE, 4, 4, 1);
	cr_expect(!has_closed(placer));
	ibvcap_place_expire(placer, 1198);
	cr_expect(!has_closed(placer));
	ibvcap_place_expire(placer, 1199);
	expect_array(placer, IBVCAP_PLACE_DEADLINE, 8, 3, 2);
	cr_expect_eq(place_number(placer, 8), IBVCAP_PLACED_LATE);
	cr_expect_eq(place_number(placer, 11), IBVCAP_PLACED_FIRST, "it was sent later");
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 11, 1, 1);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, a_source_that_steps_back_begins_a_new_run)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4, .row_bytes = 8};
	struct ibvcap_placer *placer = placer_of(&options);
	struct ibvcap_place_array array;

	place_numbers(placer, 30000, 30002);
	cr_expect_eq(place_number(placer, 0), IBVCAP_PLACED_FAR);
	cr_expect_eq(place_number(placer, 1), IBVCAP_PLACED_FIRST);
	array = take(placer);
	cr_expect_eq(array.end, IBVCAP_PLACE_RESET);
	cr_expect_eq(array.n_numbers, 2);
	cr_expect_eq(array.run, 1);
	place_numbers(placer, 2, 4);
	array = take(placer);
	cr_expect_eq(array.end, IBVCAP_PLACE_COMPLETE, "the far packet was placed after all");
	cr_expect_eq(array.run, 2);
	cr_expect_eq(array.payload[6], 0);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, one_damaged_number_changes_nothing)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4};
	struct ibvcap_placer *placer = placer_of(&options);

	place_numbers(placer, 0, 2);
	cr_expect_eq(place_number(placer, 30000), IBVCAP_PLACED_FAR);
	place_numbers(placer, 2, 3);
	cr_expect_eq(place_number(placer, 30001), IBVCAP_PLACED_FAR, "not in a row with the other one");
	cr_expect_eq(place_number(placer, 30001), IBVCAP_PLACED_FAR, "the same packet is no confirmation");
	place_numbers(placer, 3, 4);
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 0, 4, 4);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, a_source_that_steps_back_a_little_is_followed_at_last)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4, .window = 1};
	struct ibvcap_placer *placer = placer_of(&options);
	uint32_t n_late = 0;

	place_numbers(placer, 0, 40);
	while (place_number(placer, n_late % 10) == IBVCAP_PLACED_LATE)
		n_late++;
	cr_expect_eq(n_late, 64, "as many as may be behind");
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, sources_learnt_have_an_array_together)
{
	const struct ibvcap_placer_options options = {
		.size = sizeof(options), .numbers = 2, .row_bytes = 8, .max_sources = 2};
	struct ibvcap_placer *placer = placer_of(&options);
	struct ibvcap_place_array array;

	place(placer, (struct packet){.source = 7, .number = 0});
	place(placer, (struct packet){.source = 9, .number = 0});
	cr_expect_eq(place(placer, (struct packet){.source = 8, .number = 0}).kind, IBVCAP_PLACED_UNLISTED);
	place(placer, (struct packet){.source = 9, .number = 1});
	cr_expect(!has_closed(placer));
	place(placer, (struct packet){.source = 7, .number = 1});
	array = take(placer);
	cr_expect_eq(array.end, IBVCAP_PLACE_COMPLETE);
	cr_expect_eq(array.n_sources, 2);
	cr_expect_eq(array.n_expected, 4);
	cr_expect_eq(array.payload[(array.stride_numbers + 1) * array.row_bytes], 9);
	ibvcap_placer_free(placer);
}

Test(place, a_source_learnt_later_is_expected_from_its_first_packet_on)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4, .window = 1};
	struct ibvcap_placer *placer = placer_of(&options);
	struct ibvcap_place_array array;

	place_numbers(placer, 0, 3);
	place(placer, (struct packet){.source = 1, .number = 2});
	place_number(placer, 3);
	place(placer, (struct packet){.source = 1, .number = 3});
	array = take(placer);
	cr_expect_eq(array.end, IBVCAP_PLACE_COMPLETE);
	cr_expect_eq(array.n_expected, 6);
	place_numbers(placer, 4, 8);
	place(placer, (struct packet){.source = 1, .number = 8});
	array = take(placer);
	cr_expect_eq(array.n_expected, 8);
	cr_expect_eq(array.n_present, 4);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, a_source_that_is_always_behind_the_others_is_waited_for)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 2};
	struct ibvcap_placer *placer = placer_of(&options);

	place_numbers(placer, 0, 2);
	for (uint32_t i = 0; i < 2; i++)
		cr_expect_eq(place(placer, (struct packet){.source = 1, .number = i}).kind, IBVCAP_PLACED_LATE);
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 0, 2, 2);
	place_numbers(placer, 2, 4);
	cr_expect(!has_closed(placer));
	for (uint32_t i = 2; i < 4; i++)
		place(placer, (struct packet){.source = 1, .number = i});
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 2, 2, 4);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, a_listed_source_that_is_silent_is_missing)
{
	struct ibvcap_place_source sources[] = {{.field = {3}}, {.field = {1}}}, source;
	const struct ibvcap_placer_options options = {
		.size = sizeof(options), .numbers = 2, .window = 1, .n_sources = 2, .sources = sources};
	struct ibvcap_placer *placer = placer_of(&options);
	struct ibvcap_place_array array;

	for (uint32_t i = 0; i < 3; i++)
		cr_expect_eq(place(placer, (struct packet){.source = 1, .number = i}).source, 1);
	cr_expect_eq(place(placer, (struct packet){.source = 2, .number = 2}).kind, IBVCAP_PLACED_UNLISTED);
	array = take(placer);
	cr_expect_eq(array.end, IBVCAP_PLACE_WINDOW);
	cr_expect_eq(array.n_expected, 4);
	cr_expect_eq(array.n_present, 2);
	cr_expect_eq(ibvcap_place_source(placer, 0, &source), 1);
	cr_expect_eq(source.field[0], 3);
	cr_expect_eq(source.field_bytes, 1);
	cr_expect_eq(ibvcap_place_source(placer, 2, &source), 0);
	ibvcap_placer_free(placer);
}

Test(place, one_source_that_is_restarted_alone_does_not_disturb_the_others)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4};
	struct ibvcap_placer *placer = placer_of(&options);

	for (uint32_t i = 30000; i < 30002; i++) {
		place(placer, (struct packet){.source = 0, .number = i});
		place(placer, (struct packet){.source = 1, .number = i});
	}
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_eq(place(placer, (struct packet){.source = 1, .number = i}).kind, IBVCAP_PLACED_FAR);
	cr_expect_eq(place(placer, (struct packet){.source = 0, .number = 30002}).kind, IBVCAP_PLACED_FIRST);
	cr_expect_eq(place(placer, (struct packet){.source = 0, .number = 4}).kind, IBVCAP_PLACED_FIRST,
	             "now all of them were restarted");
	expect_array(placer, IBVCAP_PLACE_RESET, 30000, 3, 5);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, two_sides_complete_each_other)
{
	const struct ibvcap_placer_options options = {
		.size = sizeof(options), .numbers = 4, .row_bytes = 8, .window = 2, .sides = 2};
	struct ibvcap_placer *placer = placer_of(&options);
	struct ibvcap_place_side a = IBVCAP_INIT(struct ibvcap_place_side), b = a;
	struct ibvcap_place_array array;
	const uint8_t present[] = {3, 1, 2, 3};

	for (uint32_t i = 0; i < 16; i++) {
		if (i % 4 != 2)
			place(placer, (struct packet){.side = 0, .number = i});
		if (i % 4 != 1)
			cr_expect_eq(place(placer, (struct packet){.side = 1, .number = i}).kind,
			             i % 4 == 2 ? IBVCAP_PLACED_FIRST : IBVCAP_PLACED_SECOND);
	}
	array = take(placer);
	cr_expect_eq(array.end, IBVCAP_PLACE_WINDOW, "a side that has not brought all might still");
	cr_expect_eq(array.n_present, 4);
	cr_expect_arr_eq(array.present, present, 4);
	ibvcap_place_flush(placer);
	ibvcap_place_side(placer, 0, &a);
	ibvcap_place_side(placer, 1, &b);
	cr_expect_eq(a.only, 4);
	cr_expect_eq(b.only, 4);
	cr_expect_eq(a.missing, 4);
	cr_expect_eq(b.missing, 4);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, a_silent_side_stops_nothing)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4, .window = 2, .sides = 2};
	struct ibvcap_placer *placer = placer_of(&options);
	struct ibvcap_place_side side = IBVCAP_INIT(struct ibvcap_place_side);

	place(placer, (struct packet){.side = 1, .number = 0});
	for (uint32_t i = 0; i < 12; i++)
		place(placer, (struct packet){.side = 0, .number = i});
	expect_array(placer, IBVCAP_PLACE_WINDOW, 0, 4, 4);
	cr_expect_eq(place(placer, (struct packet){.side = 0, .number = 30000}).kind, IBVCAP_PLACED_FAR);
	cr_expect_eq(place(placer, (struct packet){.side = 0, .number = 30001}).kind, IBVCAP_PLACED_FIRST,
	             "the silent side need not agree to a restart");
	ibvcap_place_side(placer, 1, &side);
	cr_expect_eq(side.missing, 11);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, a_side_with_other_packets_is_far)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4, .sides = 2};
	struct ibvcap_placer *placer = placer_of(&options);

	for (uint32_t batch = 0; batch < 8; batch++) {
		for (uint32_t i = 0; i < 8; i++)
			cr_expect_eq(place(placer, (struct packet){.side = 0, .number = 8 * batch + i}).kind,
			             IBVCAP_PLACED_FIRST);
		for (uint32_t i = 0; i < 8; i++)
			cr_expect_eq(place(placer, (struct packet){.side = 1, .number = 30000 + 8 * batch + i}).kind,
			             IBVCAP_PLACED_FAR);
	}
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, a_frame_ends_where_the_next_begins)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 16, .row_bytes = 8};
	struct ibvcap_placer *placer = placer_of_frames(&options);
	struct ibvcap_place_array array;

	place(placer, (struct packet){.frame = 1, .number = 100});
	place(placer, (struct packet){.frame = 1, .number = 102});
	place(placer, (struct packet){.frame = 2, .number = 104});
	cr_expect(!has_closed(placer), "103 is of the one or of the other");
	place(placer, (struct packet){.frame = 1, .number = 101});
	place(placer, (struct packet){.frame = 2, .number = 103});
	array = take(placer);
	cr_expect_eq(array.end, IBVCAP_PLACE_COMPLETE);
	cr_expect_eq(array.first, 100);
	cr_expect_eq(array.n_numbers, 3);
	cr_expect_eq(array.frame, 1);
	cr_expect_eq(array.payload[2 * 8 + 5], 102);
	place(placer, (struct packet){.frame = 3, .number = 107});
	place(placer, (struct packet){.frame = 4, .number = 108});
	place(placer, (struct packet){.frame = 5, .number = 109});
	place(placer, (struct packet){.frame = 6, .number = 110});
	expect_array(placer, IBVCAP_PLACE_WINDOW, 103, 2, 2);
	cr_expect(!has_closed(placer), "106 may be of frame 3, and still come");
	place(placer, (struct packet){.frame = 7, .number = 111});
	array = take(placer);
	cr_expect_eq(array.frame, 3);
	cr_expect_eq(array.before, 2, "lost at the end of frame 2, or at the beginning of 3");
	cr_expect_eq(place(placer, (struct packet){.frame = 3, .number = 106}).kind, IBVCAP_PLACED_LATE);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, a_frame_longer_than_an_array_is_outside)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 4, .row_bytes = 8};
	struct ibvcap_placer *placer = placer_of_frames(&options);

	for (uint32_t i = 0; i < 4; i++)
		place(placer, (struct packet){.frame = 1, .number = 10 + i});
	cr_expect_eq(place(placer, (struct packet){.frame = 1, .number = 14}).kind, IBVCAP_PLACED_OUTSIDE);
	cr_expect_eq(place(placer, (struct packet){.frame = 1, .number = 9}).kind, IBVCAP_PLACED_OUTSIDE);
	cr_expect_eq(place(placer, (struct packet){.frame = 2, .number = 12}).kind, IBVCAP_PLACED_OUTSIDE,
	             "a number inside another frame");
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

/* Messages, as in MoldUDP64: the number in bytes 0 to 7, the count in bytes 8 and 9. */
static struct ibvcap_placed place_messages(struct ibvcap_placer *placer, uint32_t side, uint8_t number, uint8_t n)
{
	uint8_t bytes[] = {0, 0, 0, 0, 0, 0, 0, number, 0, n, number};
	const struct ibvcap_packet packet = {.row = bytes, .row_bytes = sizeof(bytes)};
	struct ibvcap_placed placed;

	ibvcap_place_add_packet(placer, &packet, 0, side, &placed);
	return placed;
}

Test(place, a_packet_of_several_numbers_lies_in_the_row_of_the_first_new_one)
{
	struct ibvcap_sequence sequence = description();
	const struct ibvcap_placer_options options = {
		.size = sizeof(options), .numbers = 8, .row_bytes = 1, .skip_bytes = 10, .fill = 0xee, .sides = 2};
	const uint8_t rows[] = {0, 0xee, 0xee, 2, 0xee, 5, 0xee, 0xee};
	struct ibvcap_placer *placer;
	struct ibvcap_place_array array;

	sequence.offset = 0;
	sequence.bytes = 8;
	sequence.bits = 0;
	sequence.source_bytes = 0;
	sequence.count_offset = 8;
	sequence.count_bytes = 2;
	cr_assert_eq(ibvcap_placer_new(&sequence, &options, &placer), 0, "%s", ibvcap_error_text());
	place_messages(placer, 0, 0, 3);
	cr_expect_eq(place_messages(placer, 1, 0, 0).kind, IBVCAP_PLACED_EMPTY);
	cr_expect_eq(place_messages(placer, 1, 0, 2).kind, IBVCAP_PLACED_SECOND);
	cr_expect_eq(place_messages(placer, 1, 2, 3).row, 3);
	cr_expect_eq(place_messages(placer, 0, 5, 7).kind, IBVCAP_PLACED_FIRST, "it reaches into the next array");
	cr_expect_eq(place_messages(placer, 0, 12, 9).kind, IBVCAP_PLACED_OUTSIDE);
	ibvcap_place_flush(placer);
	array = take(placer);
	cr_expect_eq(array.n_present, 8);
	for (uint32_t i = 0; i < 8; i++) /* a number without a packet of its own has length 0 */
		cr_expect_eq(array.lengths[i] ? array.payload[i] : 0xee, rows[i], "row %u", i);
	array = take(placer);
	cr_expect_eq(array.n_present, 4);
	cr_expect_eq(array.payload[0], 5);
	expect_sums(placer);
	ibvcap_placer_free(placer);
}

Test(place, rows_of_a_batch_are_taken_up_to_one_that_closes_an_array)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 2, .row_bytes = 4};
	struct ibvcap_placer *placer = placer_of(&options);
	uint8_t payload[6][64] = {0}, headers[6][64] = {0};
	struct ibvcap_meta meta[6] = {0};
	struct ibvcap_placed placed[6];
	struct ibvcap_rx_batch batch = {.size = sizeof(batch),
	                                .payload = payload[0],
	                                .headers = headers[0],
	                                .meta = meta,
	                                .n = 6,
	                                .stride = 64,
	                                .header_stride = 64,
	                                .header_bytes = 42 + 3,
	                                .application_header_bytes = 3};

	for (uint8_t i = 0; i < 6; i++) { /* the number lies on both sides of the split */
		meta[i] = (struct ibvcap_meta){.header_length = 42, .length = 5};
		payload[i][2] = i;
	}
	meta[5].flags = IBVCAP_PACKET_FLAG_ERROR;
	cr_expect_eq(ibvcap_place_add(placer, &batch, 0, 0, placed), 2);
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 0, 2, 2);
	cr_expect_eq(ibvcap_place_add(placer, &batch, 2, 0, placed), 2);
	expect_array(placer, IBVCAP_PLACE_COMPLETE, 2, 2, 2);
	cr_expect_eq(ibvcap_place_add(placer, &batch, 4, 0, placed), 2);
	cr_expect_eq(ibvcap_place_add(placer, &batch, 6, 0, placed), 0);
	cr_expect_eq(placed[5].kind, IBVCAP_PLACED_UNREAD);
	cr_expect_eq(placed[3].kind, IBVCAP_PLACED_FIRST);
	cr_expect_eq(placed[3].row, 1);
	cr_expect_eq(ibvcap_place_add(placer, &batch, 0, 1, placed), -EINVAL);
	ibvcap_placer_free(placer);
}

Test(place, an_array_that_was_released_is_released_once)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 2};
	struct ibvcap_placer *placer = placer_of(&options);
	struct ibvcap_place_array array;

	place_numbers(placer, 0, 2);
	array = take(placer);
	cr_expect_eq(ibvcap_place_release(placer, &array), 0);
	cr_expect_eq(ibvcap_place_release(placer, &array), -EINVAL);
	array.index = 1000;
	cr_expect_eq(ibvcap_place_release(placer, &array), -EINVAL);
	ibvcap_placer_free(placer);
}

Test(place, options_out_of_range_are_refused)
{
	struct ibvcap_place_source twice[2] = {{.field = {1}, .port = 1}, {.field = {1}}};
	const struct ibvcap_placer_options wrong[] = {
		{.size = sizeof(wrong[0]), .numbers = (1u << 20) + 1},
		{.size = sizeof(wrong[0]), .row_bytes = 65536},
		{.size = sizeof(wrong[0]), .window = 65},
		{.size = sizeof(wrong[0]), .sides = 9},
		{.size = sizeof(wrong[0]), .fill = 256},
		{.size = sizeof(wrong[0]), .max_sources = 65537},
		{.size = sizeof(wrong[0]), .numbers = 1u << 20, .row_bytes = 65535, .max_sources = 65536},
		{.size = sizeof(wrong[0]), .n_sources = 2, .sources = twice},
		{.size = sizeof(wrong[0]), .n_sources = 2},
		{.size = 0},
	};
	struct ibvcap_sequence sequence = description();
	struct ibvcap_placer *placer;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_eq(ibvcap_placer_new(&sequence, &wrong[i], &placer), -EINVAL, "option %zu", i);
	sequence.bytes = 0;
	cr_expect_eq(ibvcap_placer_new(&sequence, NULL, &placer), -EINVAL);
	cr_expect_neq(strlen(ibvcap_error_text()), 0);
}

static struct ibvcap_sequence description_of_16_bits(void)
{
	struct ibvcap_sequence sequence = description();

	sequence.window = 4096;
	sequence.jump = 1 << 20;
	return sequence;
}

/* Packets 0 to n, and from 0 again: at which of the latter is the restart seen? */
static void expect_both_see_the_restart(uint32_t n, uint32_t numbers, uint32_t lost_every)
{
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = numbers};
	struct ibvcap_place_counts counts = IBVCAP_INIT(struct ibvcap_place_counts);
	struct ibvcap_sequence sequence = description_of_16_bits();
	struct ibvcap_tracker *tracker;
	struct ibvcap_placer *placer;
	uint64_t n_restarts = 0;

	cr_assert_eq(ibvcap_tracker_new(&sequence, NULL, &tracker), 0);
	cr_assert_eq(ibvcap_placer_new(&sequence, &options, &placer), 0);
	for (uint32_t i = 0; i < 2 * n; i++) {
		const uint32_t number = i % n;
		const uint8_t bytes[PAYLOAD] = {0, 0, 0, 0, (uint8_t)(number >> 8), (uint8_t)number};
		const struct ibvcap_packet packet = {.row = bytes, .row_bytes = sizeof(bytes)};
		struct ibvcap_tracked tracked;

		if (number % lost_every == 1)
			continue;
		ibvcap_tracker_add(tracker, &packet, &tracked);
		n_restarts += tracked.kind == IBVCAP_TRACKED_RESTARTED;
		ibvcap_place_add_packet(placer, &packet, 0, 0, NULL);
		for (struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);
		     ibvcap_place_next(placer, &array) == 1;)
			ibvcap_place_release(placer, &array);
		ibvcap_place_counts(placer, &counts);
		cr_assert_eq(counts.runs, 1 + n_restarts, "after %u, arrays of %u: packet %u", n, numbers, i);
	}
	/* Above half of the cycle it is a loss. */
	cr_expect_eq(n_restarts, n > sequence.window && n < 32768, "after %u: %lu", n, (unsigned long)n_restarts);
	ibvcap_tracker_free(tracker);
	ibvcap_placer_free(placer);
}

Test(place, a_restart_is_seen_at_the_packet_at_which_a_tracker_sees_it)
{
	static const uint32_t after[] = {3000, 4099, 4608, 5000, 6000, 20000, 32000, 33000, 40000, 60000};
	static const uint32_t numbers[] = {16, 1024, 32768};

	for (uint32_t i = 0; i < sizeof(after) / sizeof(after[0]); i++)
		for (uint32_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
			expect_both_see_the_restart(after[i], numbers[k], 100);
			expect_both_see_the_restart(after[i], numbers[k], UINT32_MAX);
		}
}

/* 64 bits, so that nothing is behind. */
Test(place, what_the_consumer_skipped_is_a_loss_and_no_restart)
{
	const uint64_t numbers[] = {htobe64(5), htobe64(6 + 3000), htobe64(7 + 3000 + 5000)};
	struct ibvcap_meta meta = {.length = sizeof(numbers[0]), .header_length = 1};
	struct ibvcap_sequence sequence = {
		.bytes = 8, .step = 1, .upper_step = 1, .window = 64, .jump = 1000, .source = IBVCAP_SOURCE_NONE};
	struct ibvcap_place_counts counts = IBVCAP_INIT(struct ibvcap_place_counts);
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_placed placed;
	struct ibvcap_placer *placer;

	cr_assert_eq(ibvcap_placer_new(&sequence, NULL, &placer), 0);
	batch.n = 1;
	batch.stride = sizeof(numbers[0]);
	batch.header_bytes = 1;
	batch.headers = (const uint8_t *)numbers;
	batch.meta = &meta;
	for (uint32_t i = 0; i < 3; i++) {
		batch.payload = (const uint8_t *)&numbers[i];
		batch.gap = i == 1 ? 3000 : 0;
		batch.flags = i == 2 ? IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN : 0;
		cr_assert_eq(ibvcap_place_add(placer, &batch, 0, 0, &placed), 1, "%s", ibvcap_error_text());
		cr_expect_eq(placed.kind, IBVCAP_PLACED_FIRST, "packet %u: %u", i, placed.kind);
	}
	ibvcap_place_flush(placer);
	cr_expect_eq(ibvcap_place_counts(placer, &counts), 0);
	cr_expect_eq(counts.runs, 1);
	cr_expect_eq(counts.missing, 3000 + 5000);
	ibvcap_placer_free(placer);
}
