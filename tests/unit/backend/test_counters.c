// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/verbs/verbs.h"

#include <criterion/criterion.h>

Test(wide_counter, adds_differences)
{
	struct wide_counter counter = {.last = 100};

	cr_assert_eq(wide_counter_add(&counter, 100), 0);
	cr_assert_eq(wide_counter_add(&counter, 150), 50);
	cr_assert_eq(wide_counter_add(&counter, 151), 51);
}

Test(wide_counter, goes_on_where_32_bits_wrap)
{
	struct wide_counter counter = {.last = UINT32_MAX - 9};

	cr_assert_eq(wide_counter_add(&counter, 5), 15);
	for (int i = 0; i < 8; i++) {
		wide_counter_add(&counter, 0x80000005);
		wide_counter_add(&counter, 5);
	}
	cr_assert_eq(wide_counter_add(&counter, 5), 15 + (8ull << 32));
}

Test(wide_counter, takes_a_64_bit_counter_as_it_is)
{
	struct wide_counter counter = {.last = UINT32_MAX};

	cr_assert_eq(wide_counter_add(&counter, 1ull << 32), 1);
	cr_assert_eq(wide_counter_add(&counter, (1ull << 33) + 7), 1 + (1ull << 32) + 7);
}
