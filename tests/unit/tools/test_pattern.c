// SPDX-License-Identifier: Apache-2.0
#include "tools/ibvcap/pattern.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {8, 9, 15, 16, 17, 31, 64, 1470, 8192, 8193};

Test(pattern, what_was_filled_is_intact_and_numbered)
{
	uint8_t payload[8193];
	uint64_t sequence;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t number = UINT64_C(0x0102030405060708) + i;

		pattern_fill(number, payload, sizes[i]);
		cr_assert_eq(payload[0], 0x01, "big-endian");
		cr_assert(pattern_check(payload, sizes[i], &sequence));
		cr_assert_eq(sequence, number);
	}
}

Test(pattern, every_single_wrong_byte_is_found)
{
	uint8_t payload[67];
	uint64_t sequence;

	for (size_t at = 0; at < sizeof(payload); at++) {
		pattern_fill(42, payload, sizeof(payload));
		payload[at] ^= 0x10;
		cr_assert_not(pattern_check(payload, sizeof(payload), &sequence), "byte %zu", at);
	}
}

Test(pattern, no_byte_is_written_past_the_payload)
{
	uint8_t payload[32];

	memset(payload, 0xee, sizeof(payload));
	pattern_fill(1, payload, 13);
	for (size_t i = 13; i < sizeof(payload); i++)
		cr_assert_eq(payload[i], 0xee);
}

Test(pattern, words_of_another_place_are_found)
{
	uint8_t payload[64];
	uint64_t sequence;

	pattern_fill(7, payload, sizeof(payload));
	memmove(payload + 8, payload + 16, 48);
	cr_assert_not(pattern_check(payload, 56, &sequence));
}

Test(pattern, a_payload_without_room_for_a_number_is_not_intact)
{
	uint8_t payload[8] = {0};
	uint64_t sequence;

	cr_assert_not(pattern_check(payload, 7, &sequence));
}

static void tell(struct pattern_tally *tally, uint64_t sequence)
{
	uint8_t payload[24];

	pattern_fill(sequence, payload, sizeof(payload));
	pattern_tally_add(tally, payload, sizeof(payload));
}

Test(tally, numbers_in_order_have_nothing_to_tell)
{
	struct pattern_tally *tally = calloc(1, sizeof(*tally));

	for (uint64_t i = 1000; i < 5000; i++)
		tell(tally, i);
	cr_assert_eq(tally->received, 4000);
	cr_assert_eq(tally->missing + tally->reordered + tally->repeated + tally->restarts + tally->corrupt, 0);
	free(tally);
}

Test(tally, left_out_late_and_repeated_are_told_apart)
{
	struct pattern_tally *tally = calloc(1, sizeof(*tally));

	tell(tally, 10);
	tell(tally, 14);
	cr_assert_eq(tally->missing, 3);
	tell(tally, 12);
	cr_assert_eq(tally->missing, 2);
	cr_assert_eq(tally->reordered, 1);
	tell(tally, 12);
	cr_assert_eq(tally->repeated, 1);
	tell(tally, 9);
	cr_assert_eq(tally->missing, 2, "before the first: never missed");
	cr_assert_eq(tally->reordered, 2);
	tell(tally, 15);
	cr_assert_eq(tally->next, 16);
	free(tally);
}

Test(tally, a_number_is_new_again_after_the_window_went_round)
{
	struct pattern_tally *tally = calloc(1, sizeof(*tally));

	tell(tally, 5);
	tell(tally, 5 + 3 * (uint64_t)PATTERN_WINDOW);
	cr_assert_eq(tally->missing, 3 * (uint64_t)PATTERN_WINDOW - 1);
	tell(tally, 5 + 3 * (uint64_t)PATTERN_WINDOW - 64);
	cr_assert_eq(tally->reordered, 1);
	cr_assert_eq(tally->repeated, 0);
	free(tally);
}

Test(tally, a_sender_that_begins_again_is_no_loss)
{
	struct pattern_tally *tally = calloc(1, sizeof(*tally));

	tell(tally, 2 * (uint64_t)PATTERN_WINDOW);
	tell(tally, 0);
	tell(tally, 1);
	cr_assert_eq(tally->restarts, 1);
	cr_assert_eq(tally->missing, 0);
	free(tally);
}

Test(tally, corrupt_payloads_have_no_number)
{
	struct pattern_tally *tally = calloc(1, sizeof(*tally));
	uint8_t payload[64];

	tell(tally, 1);
	pattern_fill(2, payload, sizeof(payload));
	payload[20]++;
	pattern_tally_add(tally, payload, sizeof(payload));
	tell(tally, 3);
	cr_assert_eq(tally->corrupt, 1);
	cr_assert_eq(tally->missing, 1);
	free(tally);
}
