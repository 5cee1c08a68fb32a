// SPDX-License-Identifier: Apache-2.0
/* What is charged on a user: limits over all of its clients, debts that outlive them, and when it is forgotten. */
#include "daemon/control/user.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define SECOND_US UINT64_C(1000000)
#define SECOND_NS UINT64_C(1000000000)
#define MS_NS     UINT64_C(1000000)

static const struct user_key anna_key = {1000}, bert_key = {1001}, root_key = {0};
static struct users users;
static int stream, other_stream; /* endpoints, compared by their addresses only */

static void deinit(void)
{
	users_deinit(&users);
}

TestSuite(user, .fini = deinit);

Test(rate, as_many_as_the_limit_in_each_second)
{
	struct rate rate = {0};

	for (uint64_t second = 100; second < 103; second++) {
		for (int i = 0; i < 5; i++)
			cr_expect(not(rate_exceeds(&rate, second * SECOND_US + (unsigned)i, 5)));
		cr_expect(rate_exceeds(&rate, second * SECOND_US + 999999, 5));
	}
}

Test(user, all_sessions_of_a_user_have_one_object)
{
	struct user *anna = user_enter(&users, anna_key);

	cr_assert(anna != NULL);
	cr_expect(user_enter(&users, bert_key) != anna);
	cr_expect(user_enter(&users, anna_key) == anna);
	cr_expect(eq(u32, anna->n_sessions, 2));
}

Test(user, a_user_that_reconnects_is_counted_on_until_its_second_is_over)
{
	struct user *anna = user_enter(&users, anna_key);

	rate_exceeds(&anna->messages, 10 * SECOND_US, 1);
	user_leave(anna);
	users_forget(&users, 10 * SECOND_US + 500000);
	cr_assert(user_enter(&users, anna_key) == anna);
	cr_expect(rate_exceeds(&anna->messages, 10 * SECOND_US + 600000, 1));
	users_forget(&users, 20 * SECOND_US);
	cr_expect(ne(ptr, LIST_FIRST(&users.list), NULL), "it has a session");
	user_leave(anna);
	users_forget(&users, 20 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), NULL));
}

Test(user, consumers_and_leases_of_a_user_are_added_up_for_each_stream)
{
	struct user *anna = user_enter(&users, anna_key), *bert = user_enter(&users, bert_key);
	struct user_share *share = user_share_at(anna, &stream);

	user_share_charge(share, USER_PLACES, 1);
	user_share_charge(share, USER_LEASE_BLOCKS, 4);
	cr_expect(eq(ptr, user_share_at(anna, &stream), share));
	cr_expect(not(user_share_exceeds(share, USER_PLACES, 1, 2)));
	cr_expect(not(user_share_exceeds(share, USER_LEASE_BLOCKS, 2, 6)));
	cr_expect(user_share_exceeds(share, USER_LEASE_BLOCKS, 3, 6));
	cr_expect(user_share_exceeds(share, USER_LEASE_BLOCKS, UINT32_MAX, 6), "it does not wrap");
	user_share_charge(share, USER_PLACES, 1);
	cr_expect(user_share_exceeds(share, USER_PLACES, 1, 2));
	cr_expect(not(user_share_exceeds(user_share_at(anna, &other_stream), USER_PLACES, 1, 2)));
	cr_expect(not(user_share_exceeds(user_share_at(bert, &stream), USER_PLACES, 1, 2)));
	user_share_discharge(share, USER_PLACES, 1);
	cr_expect(not(user_share_exceeds(share, USER_PLACES, 1, 2)));
}

Test(user, no_count_refuses_root)
{
	struct user_share *share = user_share_at(user_enter(&users, root_key), &stream);

	user_share_charge(share, USER_PLACES, 100);
	cr_expect(not(user_share_exceeds(share, USER_PLACES, 1, 2)));
}

Test(user, a_share_is_kept_while_it_is_charged_and_until_its_stall_budget_is_repaid)
{
	struct user *anna = user_enter(&users, anna_key);
	struct user_share *share = user_share_at(anna, &stream);

	user_share_charge(share, USER_PLACES, 1);
	user_leave(anna);
	users_forget(&users, 100 * SECOND_US);
	cr_assert(eq(ptr, LIST_FIRST(&users.list), anna), "a client that left may still have its place");
	share->stall.settled_ns = 100 * SECOND_NS;
	share->stall.owed_ns = 5 * SECOND_NS;
	user_share_discharge(share, USER_PLACES, 1);
	users_forget(&users, 104 * SECOND_US);
	cr_assert(eq(ptr, LIST_FIRST(&users.list), anna));
	cr_assert(eq(ptr, user_share_at(anna, &stream), share));
	users_forget(&users, 106 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), NULL));
}

Test(user, shares_of_an_endpoint_that_ends_are_forgotten_at_once)
{
	struct user *anna = user_enter(&users, anna_key);
	struct user_share *other = user_share_at(anna, &other_stream);

	user_share_at(anna, &stream)->stall.owed_ns = 1000 * SECOND_NS;
	users_forget_endpoint(&users, &stream);
	cr_expect(eq(u64, user_share_at(anna, &stream)->stall.owed_ns, 0));
	cr_expect(eq(ptr, user_share_at(anna, &other_stream), other));
}

Test(user, a_thread_that_charges_a_user_keeps_it)
{
	struct user *anna = user_enter(&users, anna_key);

	user_ref(anna);
	user_leave(anna);
	users_forget(&users, 100 * SECOND_US);
	cr_assert(eq(ptr, LIST_FIRST(&users.list), anna));
	user_unref(anna);
	users_forget(&users, 100 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), NULL));
}

Test(user, expensive_wakes_use_the_budget_up_and_time_repays_it)
{
	struct user *anna = user_enter(&users, anna_key);
	uint64_t now_ns = 100 * SECOND_NS;
	unsigned n = 0;

	while (!user_is_over_wake_budget(anna, now_ns) && n < 1000) {
		user_charge_wake(anna, 5 * MS_NS, now_ns);
		n++;
	}
	/* One more than fit: the largest does not count. */
	cr_expect(eq(u32, n, WAKE_BUDGET_NS / (5 * MS_NS - WAKE_FREE_NS) + 2));
	cr_expect(user_is_over_wake_budget(anna, now_ns + SECOND_NS / 1000));
	cr_expect(not(user_is_over_wake_budget(anna, now_ns + 5 * SECOND_NS)), "5 ms are repaid");
	user_leave(anna);
	users_forget(&users, 102 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), anna), "reconnecting does not clear the debt");
	users_forget(&users, 200 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), NULL));
}

/* In one wake-up of a thousand the hypervisor or an interrupt takes the CPU for 1 ms, which the clock counts. */
Test(user, honest_wakes_of_a_busy_machine_do_not_use_the_budget_up)
{
	struct user *anna = user_enter(&users, anna_key);
	uint64_t now_ns = 100 * SECOND_NS;

	for (unsigned i = 0; i < 1000000; i++) {
		user_charge_wake(anna, i % 1000 == 0 ? MS_NS : 20000, now_ns);
		cr_assert(not(user_is_over_wake_budget(anna, now_ns)));
		now_ns += 100000;
	}
}

/* A user with two clients: one is expensive to wake, the other is cheap and woken all the time. */
Test(user, cheap_wakes_repay_nothing)
{
	struct user *anna = user_enter(&users, anna_key);
	uint64_t now_ns = 100 * SECOND_NS;
	unsigned n = 0;

	for (; !user_is_over_wake_budget(anna, now_ns) && n < 100; n++) {
		user_charge_wake(anna, 30 * MS_NS, now_ns);
		now_ns += 30 * MS_NS;
		for (unsigned i = 0; i < 230; i++) {
			user_charge_wake(anna, 5000, now_ns);
			now_ns += 20000;
		}
	}
	cr_expect(eq(u32, n, 3));
}

Test(user, one_wake_that_seems_to_take_seconds_is_no_reason)
{
	struct user *anna = user_enter(&users, anna_key);

	user_charge_wake(anna, 3 * SECOND_NS, 100 * SECOND_NS);
	cr_expect(not(user_is_over_wake_budget(anna, 100 * SECOND_NS)));
	user_charge_wake(anna, 50 * MS_NS, 101 * SECOND_NS);
	cr_expect(not(user_is_over_wake_budget(anna, 101 * SECOND_NS)), "20 ms of the first are repaid");
	user_charge_wake(anna, 50 * MS_NS, 101 * SECOND_NS);
	cr_expect(user_is_over_wake_budget(anna, 101 * SECOND_NS));
	cr_expect(not(user_is_over_wake_budget(NULL, 100 * SECOND_NS)));
	user_charge_wake(NULL, SECOND_NS, 100 * SECOND_NS);
}
