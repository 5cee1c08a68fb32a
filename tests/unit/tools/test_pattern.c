// SPDX-License-Identifier: Apache-2.0
#include "tools/send/pattern.h"

#include <criterion/criterion.h>
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
