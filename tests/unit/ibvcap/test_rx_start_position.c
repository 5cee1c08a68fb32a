// SPDX-License-Identifier: Apache-2.0
/* Where a reader begins, in a history that the test writes: blocks of 4 rows, in memory in another order. */
#include "lib/ibvcap/rx_start_position.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <ibvcap/ibvcap.h>

#define ROWS     4u
#define N_BLOCKS 8u

static _Atomic uint32_t table[N_BLOCKS];
static struct ibvcap_meta meta[N_BLOCKS * ROWS];
static struct rx_start_view view;

/* Rows [floor * ROWS, head) are there. Row s has the time 1000 + 10 * s. */
static void set_up(void)
{
	static const uint32_t physical[N_BLOCKS] = {5, 0, 7, 2, 4, 1, 6, 3};

	view = (struct rx_start_view){
		.table = table,
		.table_mask = N_BLOCKS - 1,
		.meta = meta,
		.n_blocks = N_BLOCKS,
		.slots_per_block = ROWS,
		.floor = 10,
		.head = 10 * ROWS + 23,
	};
	for (uint64_t block = view.floor; block < view.floor + N_BLOCKS; block++) {
		table[block % N_BLOCKS] = physical[block % N_BLOCKS];
		for (uint32_t row = 0; row < ROWS; row++)
			meta[physical[block % N_BLOCKS] * ROWS + row].timestamp_ns = 1000 + 10 * (block * ROWS + row);
	}
}

TestSuite(rx_start_position, .init = set_up);

static uint64_t find(uint32_t where, uint64_t value)
{
	const struct rx_start_position start = {where, value};

	return rx_start_find(&view, &start);
}

Test(rx_start_position, the_newest_is_the_next_packet)
{
	cr_expect(eq(u64, find(IBVCAP_START_NEWEST, 0), 63));
	cr_expect(eq(u64, find(IBVCAP_START_NEWEST, 5), 63));
	cr_expect(eq(u64, find(99, 5), 63), "an unknown start is the newest");
}

Test(rx_start_position, the_oldest_is_the_first_row_of_the_block_at_floor)
{
	cr_expect(eq(u64, find(IBVCAP_START_OLDEST, 0), 40));
	view.floor = 0;
	cr_expect(eq(u64, find(IBVCAP_START_OLDEST, 0), 0));
}

/* The worker may store a floor behind the block of a head that the reader loaded before. */
Test(rx_start_position, a_floor_past_head_leaves_no_history)
{
	view.floor = 15; /* the block of head */
	cr_expect(eq(u64, find(IBVCAP_START_OLDEST, 0), 60));
	view.floor = 16;
	cr_expect(eq(u64, find(IBVCAP_START_OLDEST, 0), 63));
	cr_expect(eq(u64, find(IBVCAP_START_PACKETS_BACK, 2), 63));
	cr_expect(eq(u64, find(IBVCAP_START_NS_BACK, 0), 63));
	view.floor = UINT64_MAX;
	cr_expect(eq(u64, find(IBVCAP_START_OLDEST, 0), 63));
}

/* Each pair has the position that is asked for, and the packet that is found. */
static void expect_found(uint32_t start, const uint64_t (*pairs)[2], size_t n)
{
	for (size_t i = 0; i < n; i++)
		cr_expect(eq(u64, find(start, pairs[i][0]), pairs[i][1]), "%llu", (unsigned long long)pairs[i][0]);
}

Test(rx_start_position, packets_back_are_counted_from_head_as_far_as_there_are_some)
{
	static const uint64_t pairs[][2] = {{0, 63}, {1, 62}, {22, 41}, {23, 40}, {24, 40}, {UINT64_MAX, 40}};

	expect_found(IBVCAP_START_PACKETS_BACK, pairs, 6);
}

Test(rx_start_position, a_time_finds_the_first_row_that_is_not_before_it)
{
	for (uint64_t row = 40; row < 63; row++) {
		cr_expect(eq(u64, find(IBVCAP_START_NS_BACK, 1000 + 10 * row), row));
		cr_expect(eq(u64, find(IBVCAP_START_NS_BACK, 1000 + 10 * row + 1), row + 1));
	}
	cr_expect(eq(u64, find(IBVCAP_START_NS_BACK, 0), 40));
	cr_expect(eq(u64, find(IBVCAP_START_NS_BACK, UINT64_MAX), 63));
}

Test(rx_start_position, of_rows_with_one_time_the_first_is_found)
{
	for (uint32_t i = 0; i < N_BLOCKS * ROWS; i++)
		meta[i].timestamp_ns = 500;
	cr_expect(eq(u64, find(IBVCAP_START_NS_BACK, 500), 40));
	cr_expect(eq(u64, find(IBVCAP_START_NS_BACK, 501), 63));
}

/* The ring is shared memory: an entry may be anything. */
Test(rx_start_position, a_block_that_the_ring_does_not_have_is_not_read_and_counts_as_old)
{
	table[10 % N_BLOCKS] = N_BLOCKS;
	cr_expect(eq(u64, find(IBVCAP_START_NS_BACK, 1400), 44), "the block's rows are passed over");
	for (uint32_t i = 0; i < N_BLOCKS; i++)
		table[i] = UINT32_MAX;
	cr_expect(eq(u64, find(IBVCAP_START_NS_BACK, 1), 63));
}

Test(rx_start_position, a_number_is_taken_also_if_its_row_is_recycled_but_not_past_head)
{
	static const uint64_t pairs[][2] = {{7, 7}, {62, 62}, {63, 63}, {64, 63}};

	expect_found(RX_START_SEQUENCE, pairs, 4);
}
