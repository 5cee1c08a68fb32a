// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rx_endpoint.h"
#include "daemon/control/quota.h"
#include "daemon/control/users.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define SECOND_US UINT64_C(1000000)

Test(rate, as_many_as_the_limit_in_each_second)
{
	struct rate rate = {0};

	for (uint64_t second = 100; second < 103; second++) {
		for (int i = 0; i < 5; i++)
			cr_expect(not(rate_exceeds(&rate, second * SECOND_US + (unsigned)i, 5)));
		cr_expect(rate_exceeds(&rate, second * SECOND_US + 999999, 5));
	}
}

Test(users, one_user_is_one_entry_over_all_of_its_sessions)
{
	struct users users = {0};
	struct user *anna = users_enter(&users, 1000);

	cr_assert(anna != NULL);
	cr_expect(users_enter(&users, 1001) != anna);
	cr_expect(users_enter(&users, 1000) == anna);
	cr_expect(eq(u32, anna->n_sessions, 2));
	users_deinit(&users);
}

Test(users, who_hangs_up_and_comes_again_is_still_counted_until_its_second_is_over)
{
	struct users users = {0};
	struct user *anna = users_enter(&users, 1000);

	rate_exceeds(&anna->messages, 10 * SECOND_US, 1);
	users_leave(anna);
	users_forget(&users, 10 * SECOND_US + 500000);
	cr_assert(users_enter(&users, 1000) == anna);
	cr_expect(rate_exceeds(&anna->messages, 10 * SECOND_US + 600000, 1));
	users_forget(&users, 20 * SECOND_US);
	cr_expect(ne(ptr, LIST_FIRST(&users.list), NULL), "it has a session");
	users_leave(anna);
	users_forget(&users, 20 * SECOND_US);
	cr_expect(eq(ptr, LIST_FIRST(&users.list), NULL));
}

Test(quota, one_users_consumers_and_leases_are_added_up_and_roots_are_not)
{
	const struct config_stream stream = {
		.name = "s", .file = "test.conf", .max_consumers_per_user = 2, .max_lease_blocks_per_user = 6};
	struct control_stream ring = {.config = &stream};
	struct rx_endpoint endpoint = {.stream = &ring};
	struct rx_session sessions[3] = {{.uid = 1000}, {.uid = 1001}, {.uid = 1000}};
	const struct peer anna = {.uid = 1000}, bert = {.uid = 1001}, root = {.uid = 0};
	char text[256] = "";

	for (int i = 0; i < 3; i++)
		sessions[i].consumer.lease_blocks = 4;
	LIST_INSERT_HEAD(&endpoint.sessions, &sessions[0], link);
	LIST_INSERT_HEAD(&endpoint.sessions, &sessions[1], link);
	cr_expect(not(quota_forbids(&endpoint, &anna, 2, text, sizeof(text))));
	cr_expect(quota_forbids(&endpoint, &anna, 3, text, sizeof(text)));
	cr_expect(strstr(text, "max_lease_blocks_per_user is 6") && strstr(text, "test.conf"), "%s", text);
	LIST_INSERT_HEAD(&endpoint.sessions, &sessions[2], link);
	cr_expect(quota_forbids(&endpoint, &anna, 1, text, sizeof(text)));
	cr_expect(strstr(text, "max_consumers_per_user is 2") && strstr(text, "test.conf"), "%s", text);
	cr_expect(not(quota_forbids(&endpoint, &bert, 2, text, sizeof(text))));
	cr_expect(not(quota_forbids(&endpoint, &root, 64, text, sizeof(text))));
}
