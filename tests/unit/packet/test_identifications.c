// SPDX-License-Identifier: Apache-2.0
/* Which datagrams share a counter of identifications, and where counters begin. */
#include "daemon/packet/identifications.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static const uint8_t here[16] = {10, 0, 0, 1, 0xff}, there[16] = {10, 0, 0, 2, 0xee}, elsewhere[16] = {10, 0, 0, 3};

Test(identifications, the_same_addresses_have_the_same_counter_and_others_most_likely_not)
{
	static const uint8_t again[16] = {10, 0, 0, 1};
	struct identifications *table;
	uint32_t n_same = 0;

	cr_assert(eq(int, identifications_new(&table), 0));
	_Atomic uint32_t *counter = identifications_find(table, here, there, 4);

	cr_expect(eq(ptr, identifications_find(table, again, there, 4), counter), "what is behind an address is none");
	for (uint8_t host = 10; host < 110; host++) {
		const uint8_t to[16] = {10, 0, 0, host};

		n_same += identifications_find(table, here, to, 4) == counter;
	}
	cr_expect(lt(u32, n_same, 5));
	cr_expect(ne(ptr, identifications_find(table, here, elsewhere, 16),
	             identifications_find(table, here, there, 16)));
	identifications_free(table);
}

Test(identifications, counters_begin_at_random)
{
	uint32_t first = 0, n_equal = 0;

	for (int i = 0; i < 20; i++) {
		struct identifications *table;

		cr_assert(eq(int, identifications_new(&table), 0));
		uint32_t start = *identifications_find(table, here, there, 4);

		n_equal += i > 0 && start == first;
		first = start;
		identifications_free(table);
	}
	cr_expect(lt(u32, n_equal, 2));
}
