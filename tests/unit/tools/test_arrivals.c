// SPDX-License-Identifier: Apache-2.0
#include "tools/send/arrivals.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static struct arrivals arrivals;

static void end(void)
{
	arrivals_deinit(&arrivals);
	memset(&arrivals, 0, sizeof(arrivals));
}

TestSuite(arrivals, .fini = end);

/* The payload of packet number n: its number, and a few bytes more. */
static void send_number(uint64_t n)
{
	uint64_t payload[2] = {n, 7};

	cr_assert(zero(int, arrivals_sent(&arrivals, (const uint8_t *)payload, sizeof(payload) - 3)));
}

static void come_number(uint64_t n)
{
	uint64_t payload[2] = {n, 7};

	arrivals_came(&arrivals, (const uint8_t *)payload, sizeof(payload) - 3);
}

static void expect_counts(uint64_t in_order, uint64_t late, uint64_t missing, uint64_t others)
{
	cr_expect(eq(u64, arrivals.n_in_order, in_order));
	cr_expect(eq(u64, arrivals.n_late, late));
	cr_expect(eq(u64, arrivals.n_missing, missing));
	cr_expect(eq(u64, arrivals.n_others, others));
	cr_expect(eq(u64, arrivals.n_sent, in_order + late + missing + arrivals_expected(&arrivals)));
}

Test(arrivals, all_in_order_and_more_than_there_is_room_for_at_first)
{
	for (uint64_t n = 0; n < 10000; n++)
		send_number(n);
	for (uint64_t n = 0; n < 9000; n++)
		come_number(n);
	for (uint64_t n = 10000; n < 20000; n++)
		send_number(n);
	for (uint64_t n = 9000; n < 20000; n++)
		come_number(n);
	arrivals_end(&arrivals);
	expect_counts(20000, 0, 0, 0);
	cr_expect(zero(int, arrivals.first_difference[0]));
}

Test(arrivals, missing_late_changed_and_foreign_packets_are_told_apart)
{
	for (uint64_t n = 0; n < 10; n++)
		send_number(n);
	for (uint64_t n = 0; n < 3; n++)
		come_number(n);
	come_number(5);
	expect_counts(4, 0, 2, 0);
	come_number(4);
	expect_counts(4, 1, 1, 0);
	come_number(4);
	come_number(100);
	expect_counts(4, 1, 1, 2);
	for (uint64_t n = 6; n < 9; n++)
		come_number(n);
	arrivals_end(&arrivals);
	expect_counts(7, 1, 2, 2);
	cr_expect(strstr(arrivals.first_difference, "packet 4 of those sent came late or not at all") != NULL);
}

Test(arrivals, any_number_of_packets_may_be_missing_in_one_piece)
{
	for (uint64_t n = 0; n < 200000; n++)
		send_number(n);
	come_number(0);
	come_number(199998);
	come_number(200000);
	come_number(199999);
	arrivals_end(&arrivals);
	expect_counts(3, 0, 199997, 1);
}

Test(arrivals, payloads_that_repeat_come_in_the_order_of_sending)
{
	for (uint64_t n = 0; n < 20000; n++)
		send_number(n % 3);
	for (uint64_t n = 0; n < 10000; n++)
		come_number(n % 3);
	for (uint64_t n = 0; n < 20000; n++)
		send_number(n % 3 + 2);
	for (uint64_t n = 10000; n < 20000; n++)
		come_number(n % 3);
	for (uint64_t n = 0; n < 20000; n++)
		come_number(n % 3 + 2);
	expect_counts(40000, 0, 0, 0);
	come_number(4);
	expect_counts(40000, 0, 0, 1);
}

Test(arrivals, payloads_that_are_all_the_same_are_counted)
{
	for (int i = 0; i < 5; i++)
		send_number(1);
	for (int i = 0; i < 3; i++)
		come_number(1);
	arrivals_end(&arrivals);
	expect_counts(3, 0, 2, 0);
}

Test(arrivals, a_payload_that_was_not_sent_is_the_first_difference)
{
	send_number(1);
	come_number(2);
	cr_expect(strstr(arrivals.first_difference, "packet 1 of those sent was expected, a payload of 13 bytes") !=
	          NULL);
}
