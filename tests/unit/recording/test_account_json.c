// SPDX-License-Identifier: Apache-2.0
/* The account of a source in a file: what is written is read again, and nothing is believed that no recorder writes. */
#include "lib/recording/account_json.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

/* Each number differs from all others, so that a field in another's place shows. */
static const struct recording_account full = {.recording = 0xfedcba9876543210,
                                              .file = 3,
                                              .flow = 17,
                                              .stream = "lidar",
                                              .queue = 1,
                                              .n_queues = 2,
                                              .from = {1795334400 * SECOND_NS + 5, 0x8000000000000001, 100},
                                              .until = {1795334401 * SECOND_NS + 6, 0xffffffffffffffff, 200},
                                              .sum.written = 301,
                                              .sum.other_files = 302,
                                              .sum.filtered = 316,
                                              .sum.unwritten = 303,
                                              .sum.errored = 304,
                                              .sum.skipped = 305,
                                              .sum.disk_wait = 306,
                                              .sum.lag = 307,
                                              .sum.pieces = 300,
                                              .sum.malformed = 299,
                                              .rx.abandoned = 308,
                                              .rx.no_buffer = 311,
                                              .rx.no_buffer_least = 310,
                                              .rx.no_buffer_most = 312,
                                              .rx.unjoined = 309,
                                              .rx.restarts = 313,
                                              .rx.failures = 314,
                                              .rx.outages = 315,
                                              .rx.outage_from_ns = 1795334400 * SECOND_NS + 7,
                                              .rx.outage_until_ns = 1795334400 * SECOND_NS + 8,
                                              .rx.interface_lost = 317,
                                              .rx.interface_from_ns = 1795334400 * SECOND_NS + 9,
                                              .rx.interface_until_ns = 1795334400 * SECOND_NS + 10,
                                              .rx.interface_quiet_ns = 1795334400 * SECOND_NS + 11,
                                              .rx.interface_counts_all = true,
                                              .rx.unknown = 0xfff,
                                              .is_last = true};

static void expect_same(const struct recording_account *account, const struct recording_account *wanted)
{
	json_t *json = recording_account_to_json(account), *wanted_json = recording_account_to_json(wanted);

	cr_expect(json_equal(json, wanted_json));
	json_decref(json);
	json_decref(wanted_json);
}

static void expect_read_again(const struct recording_account *account)
{
	json_t *json = recording_account_to_json(account);
	struct recording_account read;

	cr_assert(recording_account_from_json(json, &read));
	expect_same(&read, account);
	json_decref(json);
}

Test(account_json, what_was_written_is_read_again)
{
	struct recording_account account = full;

	expect_read_again(&account);
	account.flow = RECORDING_ACCOUNT_NO_FLOW;
	account.is_last = false;
	expect_read_again(&account);
	for (account.rx.unknown = 1; account.rx.unknown; account.rx.unknown <<= 1)
		if (ibvcap_unknown_word(account.rx.unknown))
			expect_read_again(&account);
	account.rx.no_buffer_most = UINT64_MAX;
	expect_read_again(&account);
}

Test(account_json, the_text_is_the_documented_one)
{
	json_t *json = recording_account_to_json(&full);
	char *text = json_dumps(json, JSON_COMPACT);

	cr_expect_str_eq(
		text,
		"{\"version\":1,\"recording\":\"fedcba9876543210\",\"flow\":17,\"stream\":\"lidar\",\"queue\":1,"
		"\"queues\":2,\"from\":{\"utc_ns\":1795334400000000005,\"epoch\":\"8000000000000001\",\"sequence\":100}"
		","
		"\"until\":{\"utc_ns\":1795334401000000006,\"epoch\":\"ffffffffffffffff\",\"sequence\":200},"
		"\"file\":3,\"written\":301,\"other_files\":302,\"filtered\":316,\"unwritten\":303,\"errored\":304,"
		"\"skipped\":305,\"disk_wait\":306,\"lag\":307,\"pieces\":300,\"malformed\":299,\"abandoned\":308,\"no_"
		"buffer\":311,\"no_"
		"buffer_least\":"
		"310,"
		"\"no_buffer_most\":312,\"unjoined\":309,\"restarts\":313,\"failures\":314,\"outages\":315,"
		"\"outage_from_ns\":1795334400000000007,\"outage_until_ns\":1795334400000000008,"
		"\"interface_lost\":317,\"interface_from_ns\":1795334400000000009,"
		"\"interface_until_ns\":1795334400000000010,\"interface_quiet_ns\":1795334400000000011,"
		"\"interface_uncounted\":0,"
		"\"unknown\":[\"restart\",\"away\",\"failed\",\"outage\",\"unsettled\",\"edge\",\"queues\","
		"\"removed\",\"abandoned\",\"interface\",\"no_packets\",\"fragments\"],\"interface_counts_all\":true,"
		"\"last\":true,\"verdict\":\"incomplete\"}");
	free(text);
	json_decref(json);
}

/* The account of the test as JSON, with one member as it is said. */
static bool is_read_with(const char *key, const char *value)
{
	json_t *json = recording_account_to_json(&full);
	struct recording_account read;
	bool is_read;

	if (value)
		json_object_set_new(json, key, json_loads(value, JSON_DECODE_ANY, NULL));
	else
		json_object_del(json, key);
	is_read = recording_account_from_json(json, &read);
	json_decref(json);
	return is_read;
}

Test(account_json, each_member_must_be_there_but_flow_and_last_and_a_count_that_is_new)
{
	json_t *json = recording_account_to_json(&full);
	const char *key;
	json_t *value;

	json_object_foreach(json, key, value) cr_expect_eq(
		is_read_with(key, NULL),
		!strcmp(key, "flow") || !strcmp(key, "last") || !strcmp(key, "pieces") || !strcmp(key, "malformed") ||
			!strcmp(key, "unjoined") || !strncmp(key, "interface_", strlen("interface_")),
		"%s", key);
	json_decref(json);
}

Test(account_json, each_member_must_be_of_its_type)
{
	json_t *json = recording_account_to_json(&full);
	const char *key;
	json_t *value;

	json_object_foreach(json, key, value)
	{
		cr_expect_eq(is_read_with(key, "null"), !strcmp(key, "no_buffer_most"), "%s", key);
		cr_expect(not(is_read_with(key, "1.5")), "%s", key);
		cr_expect(not(is_read_with(key, "-1")), "%s", key);
		cr_expect_eq(is_read_with(key, "\"x\""), !strcmp(key, "stream"), "%s", key);
		cr_expect(not(is_read_with(key, "{}")), "%s", key);
	}
	json_decref(json);
}

Test(account_json, numbers_must_be_in_their_range)
{
	static const char *const wrong[][2] = {
		{"version", "2"},
		{"version", "0"},
		{"flow", "256"},
		{"queue", "2"},
		{"queue", "4294967296"},
		{"queues", "4294967298"},
		{"recording", "\"fedcba987654321\""},
		{"recording", "\"fedcba98765432100\""},
		{"recording", "\"FEDCBA9876543210\""},
		{"recording", "\"0xfedcba98765432\""},
		{"from", "{\"utc_ns\":1,\"epoch\":\"0000000000000001\"}"},
		{"until", "{\"utc_ns\":1,\"epoch\":1,\"sequence\":1}"},
		{"unknown", "[\"because\"]"},
		{"unknown", "[1]"},
		{"stream", "\"1234567890123456789012345678901234567890123456789012345678901234\""},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect(not(is_read_with(wrong[i][0], wrong[i][1])), "%s %s", wrong[i][0], wrong[i][1]);
	cr_expect(is_read_with("flow", "255"));
	cr_expect(is_read_with("of_the_future", "[1]"));
	cr_expect(is_read_with("last", "false"));
}

Test(account_json, a_verdict_that_the_numbers_deny_is_refused)
{
	struct recording_account account = {.stream = "lidar", .n_queues = 1, .flow = RECORDING_ACCOUNT_NO_FLOW};

	expect_read_again(&account);
	cr_expect(not(is_read_with("verdict", "\"complete\"")));
	cr_expect(not(is_read_with("verdict", "\"not proven\"")));
	account.rx.unknown = 1;
	expect_read_again(&account);
	for (size_t i = 0; i < 5; i++) {
		uint64_t *const causes[] = {&account.sum.unwritten, &account.sum.errored, &account.sum.skipped,
		                            &account.sum.disk_wait, &account.rx.no_buffer_least};

		*causes[i] = 1;
		expect_read_again(&account);
		*causes[i] = 0;
	}
}

Test(account_json, the_line_is_found_in_a_comment)
{
	char text[100 + RECORDING_ACCOUNT_TEXT_SIZE] = "published 1 = written 1";
	struct recording_account read;
	size_t length;

	cr_expect(not(recording_account_find(text, strlen(text), &read)));
	cr_assert(recording_account_append(text, sizeof(text), &full));
	cr_expect_eq(strncmp(text, "published 1 = written 1\naccount {\"version\":1", 44), 0);
	length = strlen(text);
	cr_assert(recording_account_find(text, length, &read));
	expect_same(&read, &full);
	/* Cut off, or something else behind the object. */
	for (size_t n = 0; n < length; n++)
		cr_expect(not(recording_account_find(text, n, &read)), "%zu bytes", n);
	strcat(text, "\nmore");
	cr_expect(recording_account_find(text, strlen(text), &read));
	text[length] = ' ';
	cr_expect(not(recording_account_find(text, strlen(text), &read)));
}

Test(account_json, a_line_longer_than_any_account_is_not_read)
{
	static char text[3 * RECORDING_ACCOUNT_TEXT_SIZE] = "x";
	struct recording_account read;
	size_t length;

	cr_assert(recording_account_append(text, sizeof(text), &full));
	length = strlen(text);
	memset(text + length, ' ', RECORDING_ACCOUNT_TEXT_SIZE);
	cr_expect(not(recording_account_find(text, length + RECORDING_ACCOUNT_TEXT_SIZE, &read)));
	cr_expect(recording_account_find(text, length + 10, &read));
}

Test(account_json, the_longest_account_fits_its_text)
{
	char text[1 + RECORDING_ACCOUNT_TEXT_SIZE] = "x";
	struct recording_account longest, read;

	memset(&longest, 0x7f, sizeof(longest));
	longest.flow = 255;
	memset(longest.stream, 1, sizeof(longest.stream) - 1); /* each is six letters in JSON */
	longest.stream[sizeof(longest.stream) - 1] = '\0';
	longest.n_queues = UINT32_MAX;
	longest.rx.unknown = 0x1ff;
	longest.is_last = true;
	cr_assert(recording_account_append(text, sizeof(text), &longest));
	cr_expect(recording_account_find(text, strlen(text), &read));
	cr_expect(not(recording_account_append(text, sizeof(text), &longest)));
}

/* ---- losses before a packet ------------------------------------------------------------------------ */

Test(recording_losses, the_line_is_behind_the_words_and_comes_back)
{
	const struct recording_losses losses = {
		.n = {[RECORDING_CAUSE_SKIPPED] = 3, [RECORDING_CAUSE_NO_BUFFER] = 5, [RECORDING_CAUSE_RESTARTS] = 1},
		.no_buffer_since_ns = UINT64_C(1795334400000000000)};
	struct recording_losses found,
		later = {.n = {[RECORDING_CAUSE_NO_BUFFER] = 1}, .no_buffer_since_ns = UINT64_MAX};
	char text[RECORDING_LOSSES_TEXT_SIZE + 8] = "words";
	size_t for_people;

	cr_assert(recording_losses_append(text, sizeof(text), &losses));
	cr_expect(zero(int, strcmp(text, "words\nlosses {\"skipped\":3,\"no_buffer\":5,\"restarts\":1,"
	                                 "\"no_buffer_since_ns\":1795334400000000000}")));
	cr_assert(recording_losses_find(text, strlen(text), &found, &for_people));
	cr_expect(eq(sz, for_people, strlen("words")));
	cr_expect(zero(int, memcmp(&found, &losses, sizeof(losses))));
	cr_assert(recording_losses_find(text + 6, strlen(text + 6), &found, &for_people), "alone");
	cr_expect(zero(sz, for_people));
	cr_expect(not(recording_losses_append(text, RECORDING_LOSSES_TEXT_SIZE, &losses)), "there is no room");
	recording_losses_add(&later, &losses);
	recording_losses_add(&found, &later);
	cr_expect(eq(u64, later.no_buffer_since_ns, losses.no_buffer_since_ns));
	cr_expect(eq(u64, found.no_buffer_since_ns, losses.no_buffer_since_ns));
	cr_expect(found.n[RECORDING_CAUSE_SKIPPED] == 6 && found.n[RECORDING_CAUSE_NO_BUFFER] == 11 &&
	          found.n[RECORDING_CAUSE_RESTARTS] == 2 && !found.n[RECORDING_CAUSE_ERRORED]);
}

Test(recording_losses, a_line_that_is_none_is_for_people)
{
	static const char *const texts[] = {"",
	                                    "losses",
	                                    "losses ",
	                                    "losses {",
	                                    "losses []",
	                                    "losses {\"skipped\":-1}",
	                                    "losses {\"skipped\":\"1\"}",
	                                    "losses {\"skipped\":1,\"skipped\":1}",
	                                    "x losses {}",
	                                    "words\nLosses {}"};
	struct recording_losses found;
	size_t for_people;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cr_expect(not(recording_losses_find(texts[i], strlen(texts[i]), &found, &for_people)), "%s", texts[i]);
		cr_expect(eq(sz, for_people, strlen(texts[i])));
	}
	cr_expect(not(recording_losses_find(NULL, 0, &found, &for_people)));
	cr_expect(recording_losses_find("losses {\"later\":1}", 18, &found, &for_people), "a later version has more");
}
