// SPDX-License-Identifier: Apache-2.0
/* Limits hold for all clients of a user together. Debts outlive the clients, and then the user is forgotten. */
#include "daemon/control/user.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define SECOND_US UINT64_C(1000000)
#define SECOND_NS UINT64_C(1000000000)
#define MS_NS     UINT64_C(1000000)

static const struct payer anna_payer = {PAYER_USER, 1000}, bert_payer = {PAYER_USER, 1001}, root_payer = {0};
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
	struct user *anna = user_enter(&users, &anna_payer);

	cr_assert(anna != NULL);
	cr_expect(user_enter(&users, &bert_payer) != anna);
	cr_expect(user_enter(&users, &anna_payer) == anna);
	cr_expect(eq(u32, anna->n_sessions, 2));
}

Test(user, a_group_has_an_object_of_its_own_whatever_its_number)
{
	const struct payer group = {PAYER_GROUP, 1000}, unnamed = {.kind = PAYER_UNNAMED};
	struct user *anna = user_enter(&users, &anna_payer);

	cr_expect(user_at(&users, &group) != anna);
	cr_expect(user_at(&users, &unnamed) != anna);
	cr_expect(user_at(&users, &unnamed) != user_at(&users, &root_payer), "0 is the number of both");
	cr_expect(user_at(&users, &group) == user_enter(&users, &group));
}

Test(user, a_text_names_the_account_and_the_way_out_of_a_shared_one)
{
	const struct payer group = {PAYER_GROUP, 4000000050}, unnamed = {.kind = PAYER_UNNAMED};
	const struct payer foreign = {PAYER_USER, 4000000001};
	struct payer_text text = payer_describe(&foreign, 4000000001);

	cr_expect(eq(str, text.who, (char *)"user 4000000001"));
	cr_expect(eq(str, text.remedy, (char *)""));
	text = payer_describe(&root_payer, 0);
	cr_expect(eq(str, text.who, (char *)"user root (0)"));
	text = payer_describe(&group, 4000000001);
	cr_expect(eq(str, text.who, (char *)"group 4000000050 (one account)"));
	cr_expect(eq(str, text.remedy,
	             (char *)", or to give user 4000000001 an account of its own (ACCOUNTS in ibvcapd.conf(5)),"));
	text = payer_describe(&unnamed, 4000000001);
	cr_expect(eq(str, text.who, (char *)"everybody whom no list names (one account)"));
	cr_expect(eq(str, text.remedy,
	             (char *)", or to give user 4000000001 an account of its own (ACCOUNTS in ibvcapd.conf(5)),"));
}

Test(user, a_user_that_reconnects_is_counted_on_until_its_second_is_over)
{
	struct user *anna = user_enter(&users, &anna_payer);

	rate_exceeds(&anna->messages, 10 * SECOND_US, 1);
	user_leave(anna, false);
	users_forget(&users, 10 * SECOND_US + 500000);
	cr_assert(user_enter(&users, &anna_payer) == anna);
	cr_expect(rate_exceeds(&anna->messages, 10 * SECOND_US + 600000, 1));
	users_forget(&users, 20 * SECOND_US);
	cr_expect(ne(ptr, LIST_FIRST(&users.list), NULL), "it has a session");
	user_leave(anna, false);
	users_forget(&users, 20 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), NULL));
}

Test(user, consumers_and_leases_of_a_user_are_added_up_for_each_stream)
{
	struct user *anna = user_enter(&users, &anna_payer), *bert = user_enter(&users, &bert_payer);
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
	struct user_share *share = user_share_at(user_enter(&users, &root_payer), &stream);

	user_share_charge(share, USER_PLACES, 100);
	cr_expect(not(user_share_exceeds(share, USER_PLACES, 1, 2)));
}

Test(user, a_share_is_kept_while_it_is_charged_and_until_its_stall_budget_is_repaid)
{
	struct user *anna = user_enter(&users, &anna_payer);
	struct user_share *share = user_share_at(anna, &stream);

	user_share_charge(share, USER_PLACES, 1);
	user_leave(anna, false);
	users_forget(&users, 100 * SECOND_US);
	cr_assert(eq(ptr, LIST_FIRST(&users.list), anna), "a client that left may still have its place");
	share->stall.updated_ns = 100 * SECOND_NS;
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
	struct user *anna = user_enter(&users, &anna_payer);
	struct user_share *other = user_share_at(anna, &other_stream);

	user_share_at(anna, &stream)->stall.owed_ns = 1000 * SECOND_NS;
	users_forget_endpoint(&users, &stream);
	cr_expect(eq(u64, user_share_at(anna, &stream)->stall.owed_ns, 0));
	cr_expect(eq(ptr, user_share_at(anna, &other_stream), other));
}

Test(user, a_thread_that_charges_a_user_keeps_it)
{
	struct user *anna = user_enter(&users, &anna_payer);

	user_ref(anna);
	user_leave(anna, false);
	users_forget(&users, 100 * SECOND_US);
	cr_assert(eq(ptr, LIST_FIRST(&users.list), anna));
	user_unref(anna);
	users_forget(&users, 100 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), NULL));
}

Test(user, a_debt_of_cpu_time_outlives_the_sessions)
{
	struct user *anna = user_enter(&users, &anna_payer);

	cpu_budget_charge(&anna->calls, 50 * MS_NS, 100 * SECOND_NS);
	user_leave(anna, false);
	users_forget(&users, 102 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), anna), "reconnecting does not clear the debt");
	users_forget(&users, 200 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), NULL));
}

Test(user, a_refused_connection_is_no_session_but_keeps_its_user)
{
	struct user *anna = user_enter(&users, &anna_payer);

	cr_assert(user_enter(&users, &anna_payer) == anna);
	user_refuse(anna);
	cr_expect(eq(u32, anna->n_sessions, 1));
	cr_expect(eq(u32, users.n_sessions, 1));
	cr_expect(eq(u32, anna->n_refused, 1));
	user_leave(anna, false);
	users_forget(&users, 100 * SECOND_US);
	cr_assert(eq(ptr, LIST_FIRST(&users.list), anna), "its socket is not closed yet");
	user_leave(anna, true);
	users_forget(&users, 100 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), NULL));
}
