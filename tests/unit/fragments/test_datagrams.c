// SPDX-License-Identifier: Apache-2.0
/* Fragments of datagrams: what becomes whole, what is given up, and when. */
#include "lib/fragments/datagrams.h"
#include "tests/support/datagram_pieces.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define PORT     7502
#define KEPT_MAX 9000

static struct datagrams *datagrams;
static struct datagram_frame whole;
static uint8_t frame_bytes[PIECE_FRAME_BYTES_MAX];
static uint64_t now_ns = 1000000000;

static bool wants(const void *context, uint16_t port_be)
{
	(void)context;
	return port_be == htons(PORT);
}

static void make(void)
{
	cr_assert_eq(datagrams_new(KEPT_MAX, wants, NULL, &datagrams), 0);
}

static void unmake(void)
{
	datagrams_free(datagrams);
}

TestSuite(datagrams, .init = make, .fini = unmake);

static bool add(const struct piece_of_datagram *piece)
{
	uint32_t n = piece_write_frame(piece, frame_bytes);
	struct frame frame;

	frame_walk(frame_bytes, n, n, &frame);
	cr_assert(frame_is_fragment(&frame));
	return datagrams_add(datagrams, frame_bytes, n, &frame, piece->source, now_ns, &whole);
}

/* Of a datagram of 4000 bytes in three fragments. */
static bool add_third(uint16_t id, unsigned i, uint32_t source)
{
	const struct piece_of_datagram piece = {.source = source,
	                                        .id = id,
	                                        .port = PORT,
	                                        .offset = i * 1480,
	                                        .n_bytes = i == 2 ? 4000 - 2960 : 1480,
	                                        .total = 4000,
	                                        .more_fragments = i < 2};

	return add(&piece);
}

static void expect_ambiguous(uint64_t n)
{
	uint64_t counted = datagrams_counts(datagrams)->ambiguous;

	cr_expect_eq(counted, n, "ambiguous %lu", counted);
}

static void expect_counts(uint64_t held, uint64_t joined, uint64_t lost, uint64_t refused)
{
	const struct datagram_counts *counts = datagrams_counts(datagrams);

	cr_expect_eq(counts->held, held, "held %lu", counts->held);
	cr_expect_eq(counts->joined, joined, "joined %lu", counts->joined);
	cr_expect_eq(counts->lost, lost, "lost %lu", counts->lost);
	cr_expect_eq(counts->refused, refused, "refused %lu", counts->refused);
}

Test(datagrams, a_whole_one_has_the_headers_of_a_frame_without_fragments)
{
	struct frame frame;
	uint8_t *bytes;

	cr_expect(!add_third(5, 1, 1) && !add_third(5, 2, 2));
	cr_assert(!add_third(6, 0, 3) && !add_third(5, 0, 1), "other sources are other datagrams");
	cr_assert(add_third(5, 2, 1));
	bytes = malloc(whole.header_bytes + whole.n_bytes);
	memcpy(bytes, whole.headers, whole.header_bytes);
	memcpy(bytes + whole.header_bytes, whole.bytes, whole.n_bytes);
	frame_walk(bytes, whole.header_bytes + whole.n_bytes, whole.header_bytes + whole.n_bytes, &frame);
	cr_expect(frame.end == FRAME_UDP && !frame_is_fragment(&frame));
	cr_expect_eq(frame.payload_bytes, 4000 - FRAME_UDP_BYTES);
	cr_expect_eq(whole.tag, 1, "that of the first fragment");
	free(bytes);
	expect_counts(2, 2, 0, 0);
}

Test(datagrams, it_is_given_up_after_the_timeout_and_not_before)
{
	datagrams_expire(datagrams, now_ns - 7);
	add_third(5, 0, 1);
	cr_expect_eq(datagrams_oldest_ns(datagrams), now_ns - 7, "it may have come then");
	now_ns += DATAGRAM_TIMEOUT_NS - 1;
	datagrams_expire(datagrams, now_ns);
	expect_counts(1, 0, 0, 0);
	cr_expect_eq(datagrams_oldest_ns(datagrams), now_ns - DATAGRAM_TIMEOUT_NS - 6);
	expect_counts(1, 0, 0, 0);
	datagrams_expire(datagrams, ++now_ns);
	expect_counts(0, 0, 1, 0);
	cr_expect_eq(datagrams_oldest_ns(datagrams), UINT64_MAX);
	cr_expect_eq(datagrams_counts(datagrams)->incomplete, 1);
	cr_expect_eq(datagrams_counts(datagrams)->incomplete_bytes, 1480);
	cr_expect(!add_third(5, 1, 1) && !add_third(5, 0, 1) && add_third(5, 2, 1), "its fragments may come again");
}

Test(datagrams, a_source_takes_the_place_of_its_own_and_not_of_others)
{
	add_third(1, 0, 77);
	for (uint16_t id = 0; id < 10000; id++)
		add_third(id, 0, 1);
	expect_counts(DATAGRAMS_PER_SOURCE + 1, 0, 10000 - DATAGRAMS_PER_SOURCE, 0);
	cr_expect(!add_third(1, 1, 77) && add_third(1, 2, 77));
}

Test(datagrams, memory_is_for_so_many_and_the_oldest_goes_first)
{
	for (uint32_t source = 0; source < 2 * DATAGRAMS_MAX; source++)
		add_third(9, 0, source);
	expect_counts(DATAGRAMS_MAX, 0, DATAGRAMS_MAX, 0);
	cr_expect(!add_third(9, 1, 2 * DATAGRAMS_MAX - 1) && add_third(9, 2, 2 * DATAGRAMS_MAX - 1),
	          "the newest stays");
	expect_counts(DATAGRAMS_MAX - 1, 2, DATAGRAMS_MAX, 0);
}

Test(datagrams, senders_may_give_all_datagrams_one_identification)
{
	for (unsigned i = 0; i < 100; i++) {
		struct piece_of_datagram piece = {.port = PORT, .n_bytes = 800, .total = 1600, .more_fragments = true};

		piece.alien = (uint8_t)i;
		cr_expect(!add(&piece));
		piece.offset = 800;
		piece.more_fragments = false;
		cr_expect(add(&piece), "%u", i);
		cr_expect_eq(whole.bytes[900], piece_byte(&piece, 900));
	}
	expect_counts(0, 100, 0, 0);
}

/* One of 1600 bytes in two halves, with identification 0. */
static bool add_half(uint16_t port, unsigned i, uint8_t alien)
{
	const struct piece_of_datagram piece = {.port = port,
	                                        .offset = i * 800,
	                                        .n_bytes = 800,
	                                        .total = 1600,
	                                        .alien = alien,
	                                        .more_fragments = i == 0};

	return add(&piece);
}

Test(datagrams, equal_ones_with_one_identification_all_come)
{
	for (unsigned i = 0; i < 100; i++)
		cr_expect(i % 2 ? !add_half(PORT, 1, 0) && add_half(PORT, 0, 0)
		                : !add_half(PORT, 0, 0) && add_half(PORT, 1, 0));
	expect_counts(0, 100, 0, 0);
	expect_ambiguous(0);
}

Test(datagrams, those_to_another_port_with_the_identification_take_none_along)
{
	for (unsigned i = 0; i < 20; i++) {
		cr_expect(!add_half(9000, 0, 1) && !add_half(9000, 1, 1));
		cr_expect(!add_half(PORT, 1, 0) && add_half(PORT, 0, 0), "the last fragment comes first");
	}
	expect_counts(0, 60, 0, 0);
	expect_ambiguous(0);
}

/* It may be a repeat, or of a datagram with the same bytes whose other fragment is lost. */
Test(datagrams, a_fragment_equal_to_one_before_is_ambiguous)
{
	cr_expect(!add_half(PORT, 0, 0) && !add_half(PORT, 0, 0));
	expect_ambiguous(1);
	cr_expect(add_half(PORT, 1, 0) && !add_half(PORT, 1, 0));
	expect_counts(1, 1, 0, 0);
	now_ns += DATAGRAM_TIMEOUT_NS;
	datagrams_expire(datagrams, now_ns);
	expect_counts(0, 1, 0, 0);
	expect_ambiguous(2);
	cr_expect(!add_half(PORT, 0, 0));
	datagrams_give_up(datagrams);
	expect_counts(0, 1, 1, 0);
}

Test(datagrams, a_fragment_that_differs_from_those_before_is_a_loss)
{
	cr_expect(!add_half(PORT, 0, 0) && add_half(PORT, 1, 0));
	cr_expect(!add_half(PORT, 0, 1));
	datagrams_give_up(datagrams);
	expect_counts(0, 1, 1, 0);
	cr_expect(!add_half(PORT, 0, 0) && !add_half(PORT, 0, 1) && add_half(PORT, 1, 0), "the first one stays");
	expect_counts(0, 2, 1, 1);
	expect_ambiguous(0);
}

/* Only the first fragment has the port. */
Test(datagrams, one_that_lacks_its_first_fragment_is_ambiguous)
{
	cr_expect(!add_third(5, 1, 1) && !add_third(5, 2, 1));
	datagrams_give_up(datagrams);
	expect_counts(0, 0, 0, 0);
	expect_ambiguous(2);
	cr_expect_eq(datagrams_counts(datagrams)->incomplete, 1);
}

Test(datagrams, one_that_lacks_a_later_fragment_is_one_loss)
{
	cr_expect(!add_third(5, 0, 1) && !add_third(5, 2, 1));
	datagrams_give_up(datagrams);
	expect_counts(0, 1, 1, 0);
	expect_ambiguous(0);
	cr_expect_eq(datagrams_counts(datagrams)->incomplete, 1);
}

Test(datagrams, one_whose_fragments_overlap_is_one_loss)
{
	struct piece_of_datagram longer = {.source = 1,
	                                   .id = 5,
	                                   .port = PORT,
	                                   .offset = 1480,
	                                   .n_bytes = 2000,
	                                   .total = 4000,
	                                   .more_fragments = true};

	cr_expect(!add_third(5, 0, 1) && !add_third(5, 1, 1));
	cr_expect(!add(&longer));
	datagrams_give_up(datagrams);
	expect_counts(0, 2, 0, 1);
}

/* Its later fragments may be of a datagram to a port of the stream. */
Test(datagrams, one_to_another_port_that_lacks_a_part_is_ambiguous)
{
	cr_expect(!add_half(9000, 0, 0));
	datagrams_give_up(datagrams);
	expect_counts(0, 0, 0, 0);
	expect_ambiguous(1);
}

Test(datagrams, those_to_other_ports_have_no_row_and_are_no_loss)
{
	struct piece_of_datagram piece = {.port = 9000, .n_bytes = 800, .total = 1600, .more_fragments = true};

	piece.offset = 800;
	cr_expect(!add(&piece));
	piece.offset = 0;
	cr_expect(!add(&piece));
	piece.offset = 1600;
	piece.more_fragments = false;
	cr_expect(!add(&piece));
	expect_counts(0, 3, 0, 0);
}

Test(datagrams, what_is_longer_than_a_row_is_kept_as_far_as_the_row_goes)
{
	struct piece_of_datagram piece = {.port = PORT, .n_bytes = 8000, .total = 16000, .more_fragments = true};

	cr_expect(!add(&piece));
	piece.offset = 8000;
	piece.more_fragments = false;
	cr_assert(add(&piece));
	cr_expect_eq(whole.n_kept, KEPT_MAX);
	cr_expect_eq(whole.n_bytes, 16000);
	cr_expect_eq(whole.bytes[KEPT_MAX - 1], piece_byte(&piece, KEPT_MAX - 1));
}

Test(datagrams, lengths_that_contradict_each_other_are_refused)
{
	struct piece_of_datagram odd = {.port = PORT, .n_bytes = 15, .total = 1600, .more_fragments = true};
	struct piece_of_datagram far = {.id = 2, .offset = 65528, .n_bytes = 800};

	add(&odd);
	add(&far);
	expect_counts(0, 0, 0, 2);
}
