// SPDX-License-Identifier: Apache-2.0
/* Findings make a verdict, its exit status and its words. test_record_account.c tests accounts. */
#include "lib/recording/verdict.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const enum finding none[4], doubt[4] = {FINDING_DOUBT}, loss[4] = {FINDING_DOUBT, FINDING_LOSS, FINDING_NOTE},
				   damage[4] = {FINDING_DAMAGE, FINDING_NOTE},
				   damage_and_loss[4] = {FINDING_LOSS, FINDING_DAMAGE, FINDING_DOUBT};

Test(verdict, is_the_worst_finding_and_damage_is_complete_never)
{
	static const struct {
		const enum finding *findings;
		enum ibvcap_verdict result;
		int status;
	} rows[] = {
		{none, IBVCAP_VERDICT_COMPLETE, 0},
		{doubt, IBVCAP_VERDICT_NOT_PROVEN, 2},
		{loss, IBVCAP_VERDICT_INCOMPLETE, 1},
		{damage, IBVCAP_VERDICT_NOT_PROVEN, 65},
		{damage_and_loss, IBVCAP_VERDICT_INCOMPLETE, 65},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verdict verdict = {0};

		for (unsigned j = 0; j < 4; j++)
			verdict_take(&verdict, rows[i].findings[j]);
		cr_expect_eq(verdict_result(&verdict), rows[i].result, "%zu", i);
		cr_expect_eq(verdict_exit_status(&verdict), rows[i].status, "%zu", i);
		cr_expect_str_eq(verdict_word(&verdict), ibvcap_verdict_word(rows[i].result));
	}
}

static void expect_words(const struct verdict *verdict, const char *line, const char *sentences)
{
	char text[VERDICT_TEXT_BYTES];

	verdict_print(text, sizeof(text), verdict);
	cr_expect_str_eq(text, line);
	verdict_print_sentences(text, sizeof(text), verdict);
	cr_expect_str_eq(text, sentences);
}

Test(verdict, has_its_reasons_in_the_order_in_which_they_were_found)
{
	struct verdict verdict = {0};
	char text[100];

	verdict_find(&verdict, FINDING_LOSS, "%d are missing", 3);
	expect_words(&verdict, "incomplete: 3 are missing", "Incomplete: 3 are missing.");
	verdict_find_unknown(&verdict, IBVCAP_UNKNOWN_REMOVED | IBVCAP_UNKNOWN_UNSETTLED);
	expect_words(&verdict,
	             "incomplete: 3 are missing; the daemon (ibvcapd) did not settle its count of losses in time; the "
	             "stream was "
	             "removed from the configuration",
	             "Incomplete: 3 are missing. The daemon (ibvcapd) did not settle its count of losses in time. The "
	             "stream was "
	             "removed from the configuration.");
	verdict_print_reasons(text, 30, &verdict, "\n  ");
	cr_expect_str_eq(text, "3 are missing\n  the daemon (i");
	verdict = (struct verdict){0};
	verdict_print_reasons(text, sizeof(text), &verdict, "; ");
	cr_expect_str_eq(text, "");
	verdict_find(&verdict, FINDING_DAMAGE, "cut off");
	expect_words(&verdict, "cut off", "Not proven: cut off.");
}

Test(verdict, absent_numbers_may_be_those_of_malformed_packets)
{
	struct verdict verdict = {0};

	cr_expect(!verdict_find_absent(&verdict, 0, 3) && !verdict_find_absent(&verdict, 3, 0));
	cr_expect_str_eq(verdict.reasons, "");
	cr_expect(!verdict_find_absent(&verdict, 4, 3));
	cr_expect_str_eq(verdict.reasons,
	                 "of the numbers that are absent up to 3 may be those of the malformed packets");
	cr_expect_eq(verdict.worst, FINDING_NOTE);
	verdict = (struct verdict){0};
	cr_expect(verdict_find_absent(&verdict, 3, 3));
	cr_expect_str_eq(verdict.reasons,
	                 "3 numbers are absent: they may be those of the malformed packets, or of lost ones");
	cr_expect_eq(verdict.worst, FINDING_DOUBT);
}

Test(verdict, reasons_that_do_not_fit_are_cut_off_and_still_count)
{
	struct verdict verdict;
	char text[VERDICT_TEXT_BYTES];

	for (int width = 1; width < 40; width++) {
		verdict = (struct verdict){0};
		for (int i = 0; i < 1000; i++)
			verdict_find(&verdict, FINDING_DOUBT, "%0*d", width, 0);
		cr_expect_eq(strlen(verdict.reasons), VERDICT_REASONS_BYTES - 1, "%d", width);
		cr_expect_eq(verdict.worst, FINDING_DOUBT);
	}
	verdict_find(&verdict, FINDING_LOSS, "lost");
	verdict_print(text, sizeof(text), &verdict);
	cr_expect(strstr(text, "incomplete: 0000") == text && !strstr(text, "lost"), "%s", text);
}

Test(verdict, takes_the_findings_of_another_without_its_reasons)
{
	struct verdict verdict = {0}, other = {0};

	verdict_take(&other, FINDING_LOSS);
	verdict_find(&other, FINDING_DAMAGE, "cut off");
	verdict_take_all(&verdict, &other);
	cr_expect_eq(verdict.worst, FINDING_DAMAGE);
	cr_expect(verdict.has_loss && !verdict.reasons[0]);
	verdict_take_all(&verdict, &(struct verdict){0});
	cr_expect(verdict.worst == FINDING_DAMAGE && verdict.has_loss);
}

Test(verdict, names_what_a_tracker_could_not_follow)
{
	struct ibvcap_tracker_counts counts = {.packets = 9, .numbers = {.lost = 3, .reordered = 4}};
	char text[VERDICT_UNFOLLOWED_BYTES];

	verdict_print_unfollowed(&counts, 0, text);
	cr_expect_str_eq(text, "");
	counts.untracked = 1;
	counts.unread = 3; /* one of them is malformed */
	counts.numbers.stray = 3;
	counts.numbers.late = 4;
	counts.numbers.restarted = 5;
	verdict_print_unfollowed(&counts, 1, text);
	cr_expect_str_eq(text, "untracked 1, unread 2, stray 3, late 4, restarted 5");
}

Test(verdict, sources_with_one_number_each_show_no_loss)
{
	struct ibvcap_tracker_counts counts = {.n_sources = 40, .numbers = {.arrived = 40, .once = 40, .sent = 40}};
	char text[VERDICT_UNFOLLOWED_BYTES];

	verdict_print_unfollowed(&counts, 0, text);
	cr_expect_str_eq(text, "sources with one number each 40: does 'sequence' fit the packets?");
	counts.numbers.arrived = 41;
	counts.numbers.repeated = 1;
	verdict_print_unfollowed(&counts, 0, text);
	cr_expect_str_eq(text, "sources with one number each 40: does 'sequence' fit the packets?");
	counts.numbers.repeated = 0;
	counts.numbers.once = 41;
	verdict_print_unfollowed(&counts, 0, text);
	cr_expect_str_eq(text, "");
	counts.n_sources = counts.numbers.arrived = counts.numbers.once = 1;
	verdict_print_unfollowed(&counts, 0, text);
	cr_expect_str_eq(text, "");
}

Test(verdict, numbers_that_come_again_and_again_show_no_loss)
{
	struct ibvcap_tracker_counts counts = {.n_sources = 1,
	                                       .numbers = {.arrived = 15, .once = 3, .repeated = 12, .sent = 3}};
	char text[VERDICT_UNFOLLOWED_BYTES];

	verdict_print_unfollowed(&counts, 0, text);
	cr_expect_str_eq(text, ""); /* five copies of each */
	counts.numbers.arrived = 604;
	counts.numbers.repeated = 601;
	verdict_print_unfollowed(&counts, 0, text);
	cr_expect_str_eq(text, "repeated 601 of 604 numbers: does 'sequence' fit the packets?");
}
