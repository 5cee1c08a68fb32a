// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rights.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#define DAEMON 900

struct rights_case {
	const char *what;
	uid_t users[2];
	gid_t groups[2];
	struct peer peer;
	gid_t supplementary[2];
	uid_t daemon_uid;
	enum rights expected;
};

ParameterizedTestParameters(rights, table)
{
	static struct rights_case cases[] = {
		{"no list: everybody", {0}, {0}, {.uid = 1000, .gid = 1000}, {0}, DAEMON, RIGHTS_GRANTED},
		{"the user is listed", {1000}, {0}, {.uid = 1000, .gid = 7}, {0}, DAEMON, RIGHTS_GRANTED},
		{"the second user is listed", {5, 1000}, {0}, {.uid = 1000, .gid = 7}, {0}, DAEMON, RIGHTS_GRANTED},
		{"another user is listed", {1000}, {0}, {.uid = 1001, .gid = 7}, {0}, DAEMON, RIGHTS_NOT_LISTED},
		{"a gid is no uid", {1000}, {0}, {.uid = 1001, .gid = 1000}, {0}, DAEMON, RIGHTS_NOT_LISTED},
		{"a uid is no gid", {0}, {50}, {.uid = 50, .gid = 51}, {0}, DAEMON, RIGHTS_NOT_LISTED},
		{"the primary group is listed", {0}, {50}, {.uid = 1, .gid = 50}, {0}, DAEMON, RIGHTS_GRANTED},
		{"a supplementary group is listed",
	         {0},
	         {50, 60},
	         {.uid = 1, .gid = 2},
	         {3, 60},
	         DAEMON,
	         RIGHTS_GRANTED},
		{"other supplementary groups", {0}, {50}, {.uid = 1, .gid = 2}, {3, 4}, DAEMON, RIGHTS_NOT_LISTED},
		{"user or group: either will do", {9}, {50}, {.uid = 1, .gid = 50}, {0}, DAEMON, RIGHTS_GRANTED},
		{"root needs no list", {1000}, {0}, {.uid = 0, .gid = 0}, {0}, DAEMON, RIGHTS_GRANTED},
		{"root attaches to root's daemon", {0}, {0}, {.uid = 0, .gid = 0}, {0}, 0, RIGHTS_GRANTED},
		{"the daemon's user is refused", {0}, {0}, {.uid = DAEMON, .gid = 1}, {0}, DAEMON, RIGHTS_DAEMONS_USER},
		{"… also where it is listed",
	         {DAEMON},
	         {0},
	         {.uid = DAEMON, .gid = 1},
	         {0},
	         DAEMON,
	         RIGHTS_DAEMONS_USER},
	};

	return cr_make_param_array(struct rights_case, cases, sizeof(cases) / sizeof(cases[0]));
}

Test(rights, root_the_daemons_user_and_its_group_see_all_and_nobody_else_does)
{
	const gid_t groups[] = {7, DAEMON + 1};

	cr_expect(rights_to_see_all(&(struct peer){.uid = 0, .gid = 0}, DAEMON, DAEMON + 1));
	cr_expect(rights_to_see_all(&(struct peer){.uid = DAEMON, .gid = 5}, DAEMON, DAEMON + 1));
	cr_expect(rights_to_see_all(&(struct peer){.uid = 1, .gid = DAEMON + 1}, DAEMON, DAEMON + 1));
	cr_expect(rights_to_see_all(&(struct peer){.uid = 1, .gid = 2, .groups = groups, .n_groups = 2}, DAEMON,
	                            DAEMON + 1));
	cr_expect(not(rights_to_see_all(&(struct peer){.uid = 1, .gid = 2, .groups = groups, .n_groups = 1}, DAEMON,
	                                DAEMON + 1)));
	cr_expect(not(rights_to_see_all(&(struct peer){.uid = DAEMON + 1, .gid = DAEMON}, DAEMON, DAEMON + 1)));
}

Test(rights, a_channel_that_names_nobody_is_for_root_only)
{
	const uid_t users[] = {1000, DAEMON};
	const struct config_channel open = {.name = "out"};
	const struct config_channel listed = {.name = "out", .users = users, .n_users = 2};

	cr_expect(eq(int, rights_to_send(&open, &(struct peer){.uid = 0}, DAEMON), RIGHTS_GRANTED));
	cr_expect(eq(int, rights_to_send(&open, &(struct peer){.uid = 1000}, DAEMON), RIGHTS_NOT_LISTED));
	cr_expect(eq(int, rights_to_send(&listed, &(struct peer){.uid = 1000}, DAEMON), RIGHTS_GRANTED));
	cr_expect(eq(int, rights_to_send(&listed, &(struct peer){.uid = 1001}, DAEMON), RIGHTS_NOT_LISTED));
	cr_expect(eq(int, rights_to_send(&listed, &(struct peer){.uid = DAEMON}, DAEMON), RIGHTS_DAEMONS_USER));
}

static uint32_t count(const uint32_t ids[2])
{
	return (ids[0] != 0) + (ids[1] != 0);
}

ParameterizedTest(struct rights_case *c, rights, table)
{
	const struct config_stream stream = {
		.users = c->users,
		.n_users = count(c->users),
		.groups = c->groups,
		.n_groups = count(c->groups),
	};

	c->peer.groups = c->supplementary;
	c->peer.n_groups = count(c->supplementary);
	cr_expect(eq(int, (int)rights_to_receive(&stream, &c->peer, c->daemon_uid), (int)c->expected), "%s", c->what);
}

Test(rights, lossless_is_for_those_named_and_for_nobody_without_a_deadline)
{
	const uid_t users[] = {1000};
	const gid_t groups[] = {50};
	struct config_stream stream = {
		.lossless_users = users, .n_lossless_users = 1, .lossless_groups = groups, .n_lossless_groups = 1};
	const struct peer root = {.uid = 0}, named = {.uid = 1000}, member = {.uid = 1, .gid = 50}, other = {.uid = 1};

	cr_expect(not(rights_to_be_lossless(&stream, &root)));
	cr_expect(not(rights_to_be_lossless(&stream, &named)));
	stream.lossless_deadline_ms = 1;
	cr_expect(rights_to_be_lossless(&stream, &root));
	cr_expect(rights_to_be_lossless(&stream, &named));
	cr_expect(rights_to_be_lossless(&stream, &member));
	cr_expect(not(rights_to_be_lossless(&stream, &other)));
	stream.n_lossless_users = stream.n_lossless_groups = 0;
	cr_expect(rights_to_be_lossless(&stream, &other), "nobody named: whoever may receive");
}
