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

Test(rights, root_the_daemons_user_and_observers_see_all_and_nobody_else_does)
{
	const gid_t observer_groups[] = {40, 50}, groups[] = {7, 50};
	const struct config config = {.observer_groups = observer_groups, .n_observer_groups = 2},
			    empty = {.file = "x"};
	struct peer member = {.uid = 1, .gid = 2, .groups = groups, .n_groups = 2};

	cr_expect(rights_to_see_all(&config, &(struct peer){.uid = 0}, DAEMON));
	cr_expect(rights_to_see_all(&config, &(struct peer){.uid = DAEMON, .gid = 5}, DAEMON));
	cr_expect(rights_to_see_all(&config, &(struct peer){.uid = 1, .gid = 40}, DAEMON));
	cr_expect(rights_to_see_all(&config, &member, DAEMON));
	cr_expect(not(rights_to_see_all(&empty, &member, DAEMON)));
	member.n_groups = 1;
	cr_expect(not(rights_to_see_all(&config, &member, DAEMON)));
	cr_expect(not(rights_to_see_all(&config, &(struct peer){.uid = 1, .gid = DAEMON}, DAEMON)));
}

Test(rights, an_observer_receives_what_names_it_and_open_streams_only_if_the_configuration_says_so)
{
	const gid_t observer_groups[] = {40}, groups[] = {50};
	const uid_t users[] = {1000};
	struct config config = {.observer_groups = observer_groups, .n_observer_groups = 1};
	const struct config_stream open = {.name = "open"},
				   listed = {.users = users, .n_users = 1, .groups = groups, .n_groups = 1};
	const struct peer service = {.uid = 1, .gid = 40}, named = {.uid = 1000, .gid = 40},
			  root = {.uid = 0, .gid = 40}, member = {.uid = 1, .gid = 40, .groups = groups, .n_groups = 1},
			  other = {.uid = 1};

	cr_expect(eq(int, rights_to_receive(&config, &open, &service, DAEMON, NULL), RIGHTS_OBSERVER));
	cr_expect(eq(int, rights_to_receive(&config, &open, &root, DAEMON, NULL), RIGHTS_GRANTED));
	cr_expect(eq(int, rights_to_receive(&config, &open, &other, DAEMON, NULL), RIGHTS_GRANTED));
	cr_expect(eq(int, rights_to_receive(&config, &listed, &named, DAEMON, NULL), RIGHTS_GRANTED));
	cr_expect(eq(int, rights_to_receive(&config, &listed, &member, DAEMON, NULL), RIGHTS_GRANTED));
	config.observers_receive = true;
	cr_expect(eq(int, rights_to_receive(&config, &open, &service, DAEMON, NULL), RIGHTS_GRANTED));
	cr_expect(eq(int, rights_to_receive(&config, &listed, &service, DAEMON, NULL), RIGHTS_NOT_LISTED));
}

Test(rights, a_channel_that_names_nobody_is_for_root_only)
{
	const uid_t users[] = {1000, DAEMON};
	const struct config_channel open = {.name = "out"};
	const struct config_channel listed = {.name = "out", .users = users, .n_users = 2};

	cr_expect(eq(int, rights_to_send(&open, &(struct peer){.uid = 0}, DAEMON, NULL), RIGHTS_GRANTED));
	cr_expect(eq(int, rights_to_send(&open, &(struct peer){.uid = 1000}, DAEMON, NULL), RIGHTS_NOT_LISTED));
	cr_expect(eq(int, rights_to_send(&listed, &(struct peer){.uid = 1000}, DAEMON, NULL), RIGHTS_GRANTED));
	cr_expect(eq(int, rights_to_send(&listed, &(struct peer){.uid = 1001}, DAEMON, NULL), RIGHTS_NOT_LISTED));
	cr_expect(eq(int, rights_to_send(&listed, &(struct peer){.uid = DAEMON}, DAEMON, NULL), RIGHTS_DAEMONS_USER));
}

static uint32_t count(const uint32_t ids[2])
{
	return (ids[0] != 0) + (ids[1] != 0);
}

ParameterizedTest(struct rights_case *c, rights, table)
{
	const struct config nothing = {.file = "x"};
	const struct config_stream stream = {
		.users = c->users,
		.n_users = count(c->users),
		.groups = c->groups,
		.n_groups = count(c->groups),
	};

	c->peer.groups = c->supplementary;
	c->peer.n_groups = count(c->supplementary);
	cr_expect(eq(int, (int)rights_to_receive(&nothing, &stream, &c->peer, c->daemon_uid, NULL), (int)c->expected),
	          "%s", c->what);
}

Test(rights, lossless_is_for_those_named_and_for_nobody_without_a_deadline)
{
	const uid_t users[] = {1000};
	const gid_t groups[] = {50};
	struct config_stream stream = {
		.lossless_users = users, .n_lossless_users = 1, .lossless_groups = groups, .n_lossless_groups = 1};
	const struct peer root = {.uid = 0}, named = {.uid = 1000}, member = {.uid = 1, .gid = 50}, other = {.uid = 1};

	cr_expect(not(rights_to_be_lossless(&stream, &root, NULL)));
	cr_expect(not(rights_to_be_lossless(&stream, &named, NULL)));
	stream.lossless_deadline_ms = 1;
	cr_expect(rights_to_be_lossless(&stream, &root, NULL));
	cr_expect(rights_to_be_lossless(&stream, &named, NULL));
	cr_expect(rights_to_be_lossless(&stream, &member, NULL));
	cr_expect(not(rights_to_be_lossless(&stream, &other, NULL)));
	stream.n_lossless_users = stream.n_lossless_groups = 0;
	cr_expect(rights_to_be_lossless(&stream, &other, NULL), "no list names a user: every user who may receive");
}

/* ---- payers ---- */

static const struct payer unnamed = {.kind = PAYER_UNNAMED};

static struct payer of_user(uid_t uid)
{
	return (struct payer){.kind = PAYER_USER, .id = uid};
}

static struct payer of_group(gid_t gid)
{
	return (struct payer){.kind = PAYER_GROUP, .id = gid};
}

static void expect_payer(const char *what, struct payer payer, struct payer expected)
{
	cr_expect(payer_is_same(&payer, &expected), "%s: kind %d, id %u", what, (int)payer.kind, payer.id);
}

static struct payer payer_at(const struct config_stream *stream, struct peer peer, bool lossless)
{
	const struct config nothing = {.file = "x"};
	struct payer payer;

	cr_assert(eq(int, rights_to_receive(&nothing, stream, &peer, DAEMON, &payer), RIGHTS_GRANTED));
	if (lossless)
		cr_assert(rights_to_be_lossless(stream, &peer, &payer));
	return payer;
}

Test(payers, a_consumer_is_charged_to_the_payer_that_its_right_comes_from)
{
	const uid_t users[] = {1000};
	const gid_t groups[] = {50, 60};
	const gid_t both[] = {50, 60};
	const struct config_stream open = {.name = "open"};
	const struct config_stream listed = {
		.name = "listed", .users = users, .n_users = 1, .groups = groups, .n_groups = 2};

	expect_payer("root", payer_at(&open, (struct peer){.uid = 0}, false), of_user(0));
	expect_payer("nobody is named", payer_at(&open, (struct peer){.uid = 1000}, false), unnamed);
	expect_payer("nobody is named, another uid", payer_at(&open, (struct peer){.uid = 1001}, false), unnamed);
	expect_payer("named", payer_at(&listed, (struct peer){.uid = 1000, .gid = 50}, false), of_user(1000));
	expect_payer("a member", payer_at(&listed, (struct peer){.uid = 1, .gid = 50}, false), of_group(50));
	expect_payer("a member of another uid", payer_at(&listed, (struct peer){.uid = 2, .gid = 50}, false),
	             of_group(50));
	expect_payer("the first group of the list",
	             payer_at(&listed, (struct peer){.uid = 1, .gid = 60, .groups = both, .n_groups = 2}, false),
	             of_group(50));
	expect_payer("a supplementary group",
	             payer_at(&listed, (struct peer){.uid = 1, .gid = 7, .groups = both + 1, .n_groups = 1}, false),
	             of_group(60));
}

Test(payers, a_lossless_consumer_is_charged_to_the_payer_of_that_right_unless_it_is_named)
{
	const uid_t users[] = {1000}, recorders[] = {1001};
	const gid_t groups[] = {50}, lossless_groups[] = {60}, sixty[] = {60};
	struct config_stream stream = {.lossless_deadline_ms = 1};
	const struct peer member = {.uid = 1, .gid = 50, .groups = sixty, .n_groups = 1};
	const struct peer named = {.uid = 1000, .gid = 50, .groups = sixty, .n_groups = 1};

	expect_payer("no list at all", payer_at(&stream, member, true), unnamed);
	expect_payer("root", payer_at(&stream, (struct peer){.uid = 0}, true), of_user(0));
	stream.lossless_users = recorders;
	stream.n_lossless_users = 1;
	stream.lossless_groups = lossless_groups;
	stream.n_lossless_groups = 1;
	expect_payer("a recorder", payer_at(&stream, (struct peer){.uid = 1001}, true), of_user(1001));
	expect_payer("a recorder, lossy", payer_at(&stream, (struct peer){.uid = 1001}, false), of_user(1001));
	expect_payer("lossless by a group", payer_at(&stream, member, true), of_group(60));
	expect_payer("the same, lossy", payer_at(&stream, member, false), unnamed);
	stream.users = users;
	stream.n_users = 1;
	stream.groups = groups;
	stream.n_groups = 1;
	expect_payer("named, and lossless by a group", payer_at(&stream, named, true), of_user(1000));
	expect_payer("lossless by another group", payer_at(&stream, member, true), of_group(60));
	expect_payer("the same, lossy", payer_at(&stream, member, false), of_group(50));
	stream.n_lossless_users = stream.n_lossless_groups = 0;
	expect_payer("all who receive may be lossless", payer_at(&stream, member, true), of_group(50));
}

Test(payers, a_sender_is_charged_to_the_payer_that_its_right_comes_from)
{
	const uid_t users[] = {1000};
	const gid_t groups[] = {50};
	const struct config_channel channel = {.users = users, .n_users = 1, .groups = groups, .n_groups = 1};
	struct payer payer;

	rights_to_send(&channel, &(struct peer){.uid = 1000, .gid = 50}, DAEMON, &payer);
	expect_payer("named", payer, of_user(1000));
	rights_to_send(&channel, &(struct peer){.uid = 1, .gid = 50}, DAEMON, &payer);
	expect_payer("a member", payer, of_group(50));
	rights_to_send(&channel, &(struct peer){.uid = 0, .gid = 50}, DAEMON, &payer);
	expect_payer("root", payer, of_user(0));
}

Test(payers, a_connection_is_charged_to_the_user_if_named_or_its_first_group_or_with_all_others)
{
	const uid_t users[] = {1000}, lossless_users[] = {1001}, senders[] = {1002};
	const gid_t groups[] = {60}, lossless_groups[] = {50}, sending_groups[] = {40}, observers[] = {30},
		    all[] = {40, 50, 60};
	const struct config_stream streams[] = {
		{.users = users, .n_users = 1, .lossless_groups = lossless_groups, .n_lossless_groups = 1},
		{.lossless_users = lossless_users, .n_lossless_users = 1, .groups = groups, .n_groups = 1}};
	const struct config_channel channels[] = {
		{.users = senders, .n_users = 1, .groups = sending_groups, .n_groups = 1}};
	const struct config config = {.streams = streams,
	                              .n_streams = 2,
	                              .channels = channels,
	                              .n_channels = 1,
	                              .observer_groups = observers,
	                              .n_observer_groups = 1};
	const struct config empty = {.file = "empty"};
	struct peer peer = {.gid = 7, .groups = all, .n_groups = 3};

	for (uid_t uid = 1000; uid < 1003; uid++) {
		peer.uid = uid;
		expect_payer("named", rights_payer(&config, &peer, DAEMON), of_user(uid));
		expect_payer("nobody is named", rights_payer(&empty, &peer, DAEMON), unnamed);
	}
	peer.uid = 0;
	expect_payer("root", rights_payer(&empty, &peer, DAEMON), of_user(0));
	peer.uid = DAEMON;
	expect_payer("the daemon's user", rights_payer(&empty, &peer, DAEMON), of_user(DAEMON));
	peer.uid = 1003;
	expect_payer("the first group of the file", rights_payer(&config, &peer, DAEMON), of_group(50));
	peer.n_groups = 1;
	expect_payer("a channel's group", rights_payer(&config, &peer, DAEMON), of_group(40));
	peer.n_groups = 0;
	expect_payer("no group", rights_payer(&config, &peer, DAEMON), unnamed);
	peer.gid = 30;
	expect_payer("an observer", rights_payer(&config, &peer, DAEMON), of_group(30));
	peer.gid = 60;
	expect_payer("its first group", rights_payer(&config, &peer, DAEMON), of_group(60));
}
