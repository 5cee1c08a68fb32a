// SPDX-License-Identifier: Apache-2.0
/* Several files together: those of a recording must join, and files between them that are missing are found. */
#include "tools/inspect/inspect_set.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

static struct inspect_set set;
static struct verdict finding;
static char text[VERDICT_TEXT_BYTES];

static void end(void)
{
	inspect_set_free(&set);
}

TestSuite(inspect_set, .fini = end);

/* Packets from to until - 1 of a file with one queue. */
static struct recording_account make_account(uint64_t file, uint64_t from, uint64_t until)
{
	return (struct recording_account){.recording = 0xab,
	                                  .flow = RECORDING_ACCOUNT_NO_FLOW,
	                                  .file = file,
	                                  .stream = "lidar",
	                                  .n_queues = 1,
	                                  .from = {.epoch = 7, .sequence = from},
	                                  .until = {.epoch = 7, .sequence = until},
	                                  .sum.written = until - from};
}

static void add_verdict(const char *path, struct recording_account account, enum finding verdict)
{
	struct inspect_source source = {.account_state = INSPECT_ACCOUNT_READ, .account = account};
	const struct inspect_sum sum = {.sources = &source, .n_sources = 1};
	const struct verdict of_file = {.worst = verdict, .has_loss = verdict == FINDING_LOSS};

	cr_assert(zero(int, inspect_set_add(&set, path, &sum, &of_file)));
}

static void add(const char *path, struct recording_account account)
{
	add_verdict(path, account, FINDING_NOTE);
}

static void expect(enum finding verdict, const char *wanted)
{
	inspect_set_judge(&set, &finding);
	verdict_print(text, sizeof(text), &finding);
	cr_expect_eq(finding.worst, verdict, "%s", text);
	cr_expect_str_eq(text, wanted);
}

static void expect_json(const char *wanted)
{
	json_t *json = inspect_set_to_json(&set), *expected = json_loads(wanted, 0, NULL);
	char *said = json_dumps(json, JSON_COMPACT);

	cr_assert(expected != NULL);
	cr_expect(json_equal(json, expected), "%s", said);
	free(said);
	json_decref(expected);
	json_decref(json);
}

Test(inspect_set, files_that_join_are_complete_in_any_order)
{
	struct recording_account last = make_account(2, 30, 40);

	last.is_last = true;
	add("c", last);
	add("a", make_account(0, 10, 20));
	add("b", make_account(1, 20, 30));
	expect(FINDING_NOTE, "complete: no packet is missing in these files");
	expect_json("[{\"recording\":\"00000000000000ab\",\"queues\":[{\"stream\":\"lidar\",\"queue\":0,"
	            "\"first_file\":0,\"last_file\":2,\"has_last\":true,\"missing\":[],\"twice\":[]}]}]");
	cr_expect(eq(u32, set.n_files, 3));
}

Test(inspect_set, rows_from_before_the_recording_may_lie_between_two_files_of_which_the_first_is_not_settled)
{
	struct recording_account first = make_account(0, 10, 20);

	add("b", make_account(1, 23, 30));
	first.rx.unknown = IBVCAP_UNKNOWN_UNSETTLED;
	add_verdict("a", first, FINDING_DOUBT);
	expect(FINDING_DOUBT, "not proven: see the verdicts of the files");
}

Test(inspect_set, a_file_between_two_others_is_missed)
{
	add("c", make_account(2, 30, 40));
	add("a", make_account(0, 10, 20));
	expect(FINDING_LOSS, "incomplete: 10 packets are missing, of files that are not here");
	expect_json("[{\"recording\":\"00000000000000ab\",\"queues\":[{\"stream\":\"lidar\",\"queue\":0,"
	            "\"first_file\":0,\"last_file\":2,\"has_last\":false,\"twice\":[],\"missing\":[{"
	            "\"first_file\":1,\"last_file\":1,\"from\":20,\"until\":30,\"packets\":10}]}]}]");
}

Test(inspect_set, several_gaps_are_added_up)
{
	add("a", make_account(0, 10, 20));
	add("d", make_account(3, 25, 30));
	add("f", make_account(5, 37, 40));
	expect(FINDING_LOSS, "incomplete: 12 packets are missing, of files that are not here");
	expect_json("[{\"recording\":\"00000000000000ab\",\"queues\":[{\"stream\":\"lidar\",\"queue\":0,"
	            "\"first_file\":0,\"last_file\":5,\"has_last\":false,\"twice\":[],\"missing\":["
	            "{\"first_file\":1,\"last_file\":2,\"from\":20,\"until\":25,\"packets\":5},"
	            "{\"first_file\":4,\"last_file\":4,\"from\":30,\"until\":37,\"packets\":7}]}]}]");
}

Test(inspect_set, a_missing_file_without_packets_is_not_proven_to_have_lost_none)
{
	add("a", make_account(0, 10, 20));
	add("c", make_account(2, 20, 30));
	expect(FINDING_DOUBT, "not proven: files without packets are not here");
}

Test(inspect_set, over_a_restart_it_is_not_known_how_many_are_missing)
{
	struct recording_account later = make_account(2, 0, 10);

	later.from.epoch = later.until.epoch = 8;
	add("a", make_account(0, 10, 20));
	add("c", later);
	expect(FINDING_LOSS, "incomplete: packets are missing, of files that are not here; how many is not known");
	expect_json("[{\"recording\":\"00000000000000ab\",\"queues\":[{\"stream\":\"lidar\",\"queue\":0,"
	            "\"first_file\":0,\"last_file\":2,\"has_last\":false,\"twice\":[],\"missing\":["
	            "{\"first_file\":1,\"last_file\":1,\"from\":20,\"until\":0,\"packets\":null}]}]}]");
}

Test(inspect_set, nor_if_the_daemon_was_away_at_both_ends)
{
	struct recording_account earlier = make_account(0, 10, 20), later = make_account(2, 0, 10);

	earlier.until.epoch = earlier.until.sequence = later.from.epoch = 0;
	add("a", earlier);
	add("c", later);
	expect(FINDING_LOSS, "incomplete: packets are missing, of files that are not here; how many is not known");
}

Test(inspect_set, over_a_restart_files_join_at_the_same_end)
{
	struct recording_account earlier = make_account(0, 10, 20), later = make_account(1, 5, 10);

	earlier.until = later.from;
	earlier.until.epoch = later.from.epoch = later.until.epoch = 8;
	add("a", earlier);
	add("b", later);
	expect(FINDING_NOTE, "complete: no packet is missing in these files");
}

Test(inspect_set, by_flow_each_flow_has_files_of_its_own)
{
	struct recording_account flows[2][3];

	for (int flow = 0; flow < 2; flow++)
		for (int file = 0; file < 3; file++) {
			flows[flow][file] = make_account((uint64_t)file, 10 * (uint64_t)file, 10 * (uint64_t)file + 10);
			flows[flow][file].flow = flow;
			if (flow == 0 || file != 1)
				add("x", flows[flow][file]);
		}
	expect(FINDING_LOSS, "incomplete: packets are missing, of files that are not here; how many is not known");
	expect_json("[{\"recording\":\"00000000000000ab\",\"flow\":0,\"queues\":[{\"stream\":\"lidar\",\"queue\":0,"
	            "\"first_file\":0,\"last_file\":2,\"has_last\":false,\"twice\":[],\"missing\":[]}]},"
	            "{\"recording\":\"00000000000000ab\",\"flow\":1,\"queues\":[{\"stream\":\"lidar\",\"queue\":0,"
	            "\"first_file\":0,\"last_file\":2,\"has_last\":false,\"twice\":[],\"missing\":["
	            "{\"first_file\":1,\"last_file\":1,\"from\":10,\"until\":20,\"packets\":null}]}]}]");
}

Test(inspect_set, queues_and_streams_are_looked_at_one_by_one)
{
	struct recording_account account;

	for (uint64_t file = 0; file < 3; file += 2)
		for (uint32_t i = 0; i < 3; i++) {
			account = make_account(file, 100 * i + 10 * file, 100 * i + 10 * file + 10);
			account.queue = i & 1;
			strcpy(account.stream, i & 2 ? "radar" : "lidar");
			add("x", account);
		}
	expect(FINDING_LOSS, "incomplete: 30 packets are missing, of files that are not here");
}

Test(inspect_set, two_recordings_do_not_disturb_each_other)
{
	struct recording_account other = make_account(1, 500, 600);

	other.recording = 0xcd;
	add("a", make_account(0, 10, 20));
	add("x", other);
	expect(FINDING_NOTE, "complete: no packet is missing in these files");
	expect_json("[{\"recording\":\"00000000000000ab\",\"queues\":[{\"stream\":\"lidar\",\"queue\":0,"
	            "\"first_file\":0,\"last_file\":0,\"has_last\":false,\"missing\":[],\"twice\":[]}]},"
	            "{\"recording\":\"00000000000000cd\",\"queues\":[{\"stream\":\"lidar\",\"queue\":0,"
	            "\"first_file\":1,\"last_file\":1,\"has_last\":false,\"missing\":[],\"twice\":[]}]}]");
}

Test(inspect_set, a_file_that_is_given_twice_changes_nothing)
{
	add("b", make_account(1, 20, 30));
	add("a", make_account(0, 10, 20));
	add("b", make_account(1, 20, 30));
	expect(FINDING_NOTE, "complete: no packet is missing in these files");
	expect_json("[{\"recording\":\"00000000000000ab\",\"queues\":[{\"stream\":\"lidar\",\"queue\":0,"
	            "\"first_file\":0,\"last_file\":1,\"has_last\":false,\"missing\":[],\"twice\":[1]}]}]");
}

static void expect_contradiction(struct recording_account one, struct recording_account other, const char *why)
{
	char wanted[200];

	add("a", one);
	add("b\x1b", other);
	snprintf(wanted, sizeof(wanted), "do not agree with each other: a and b : %s", why);
	expect(FINDING_DAMAGE, wanted);
	inspect_set_free(&set);
}

Test(inspect_set, files_that_contradict_each_other_are_found)
{
	struct recording_account last = make_account(0, 10, 20), other_epoch = make_account(1, 20, 30);

	last.is_last = true;
	other_epoch.from.epoch = 8;
	expect_contradiction(make_account(0, 10, 20), make_account(0, 10, 21), "both have the same number");
	expect_contradiction(make_account(0, 10, 20), make_account(0, 9, 20), "both have the same number");
	expect_contradiction(last, make_account(1, 20, 30), "the recording ended with the earlier file");
	expect_contradiction(make_account(0, 10, 20), make_account(1, 21, 30),
	                     "the later file does not begin where the earlier ends");
	expect_contradiction(make_account(0, 10, 20), other_epoch,
	                     "the later file does not begin where the earlier ends");
	expect_contradiction(make_account(0, 10, 20), make_account(2, 19, 30),
	                     "the later file begins before the earlier ends");
	last = make_account(0, 10, 20);
	last.sum.written--;
	expect_contradiction(make_account(0, 10, 20), last, "both have the same number");
}

Test(inspect_set, files_together_are_no_better_than_each)
{
	add("a", make_account(0, 10, 20));
	add_verdict("b", make_account(1, 20, 30), FINDING_DOUBT);
	expect(FINDING_DOUBT, "not proven: see the verdicts of the files");
	add_verdict("c", make_account(2, 30, 40), FINDING_LOSS);
	expect(FINDING_LOSS, "incomplete: see the verdicts of the files");
	add_verdict("d", make_account(3, 40, 50), FINDING_DOUBT);
	expect(FINDING_LOSS, "incomplete: see the verdicts of the files");
	add_verdict("e", make_account(4, 50, 60), FINDING_DAMAGE);
	expect(FINDING_DAMAGE, "see the verdicts of the files");
	cr_expect_str_eq(verdict_word(&finding), "incomplete");
}

Test(inspect_set, extracts_and_files_without_an_account_are_not_joined)
{
	struct inspect_source source = {.account_state = INSPECT_ACCOUNT_NONE};
	struct inspect_sum sum = {.sources = &source, .n_sources = 1};
	const struct verdict of_file = {.worst = FINDING_DOUBT};

	cr_assert(zero(int, inspect_set_add(&set, "old", &sum, &of_file)));
	source.account_state = INSPECT_ACCOUNT_UNREADABLE;
	cr_assert(zero(int, inspect_set_add(&set, "new", &sum, &of_file)));
	source = (struct inspect_source){.account_state = INSPECT_ACCOUNT_READ, .account = make_account(0, 1, 2)};
	strcpy(sum.closing, "extracted by ibvcap");
	cr_assert(zero(int, inspect_set_add(&set, "extract", &sum, &of_file)));
	cr_expect(eq(u32, set.n_pieces, 0));
	expect(FINDING_DOUBT, "not proven: see the verdicts of the files");
	expect_json("[]");
}
