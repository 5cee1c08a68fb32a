// SPDX-License-Identifier: Apache-2.0
/* Verdicts of one file: each row of a table changes one thing in a recording that is complete. */
#include "made_recording.h"
#include "tools/inspect/inspect_file.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define SEQUENCE                                                                                                 \
	"clock device; sequence {\"offsets_from\":\"payload\",\"offset\":0,\"bytes\":4,\"step\":1,\"source\":1," \
	"\"window\":64,\"jump\":100}"
#define RESTARTED    "ibvcapd was restarted: how many packets were lost is not known\nlosses {\"restarts\":1}"
#define LOST_BY_CARD "2 packets lost (no_buffer): x\nlosses {\"no_buffer\":2}"

static char path[64];
static struct inspect_file file;

static void begin(void)
{
	int fd;

	strcpy(path, "/tmp/ibvcap-test-inspect-XXXXXX");
	fd = mkstemp(path);
	cr_assert(ge(int, fd, 0));
	close(fd);
}

static void end(void)
{
	unlink(path);
}

struct row {
	const char *what;
	void (*change)(struct made_recording *recording, struct made_source *source, struct recording_account *account);
	enum finding verdict;
	const char *text; /* the whole verdict, or a part of it */
};

static void check_row(const struct row *row)
{
	struct made_recording recording = made_recording();
	char text[VERDICT_TEXT_BYTES];

	row->change(&recording, &recording.sources[0], &recording.sources[0].account);
	made_write(&recording, path);
	cr_assert(zero(int, inspect_file_read(&file, path)));
	verdict_print(text, sizeof(text), &file.verdict);
	cr_expect_eq(file.verdict.worst, row->verdict, "%s: %u: %s", row->what, file.verdict.worst, text);
	cr_expect(strstr(text, row->text) != NULL, "%s: %s", row->what, text);
	inspect_file_deinit(&file);
}

static void check_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_row(&rows[i]);
}

#define CHECK(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

/* A change of the table: a function with the three parameters, of which most rows need one. */
#define CHANGE(name, statements)                                                    \
	static void name(__attribute__((unused)) struct made_recording *recording,  \
	                 __attribute__((unused)) struct made_source *source,        \
	                 __attribute__((unused)) struct recording_account *account) \
	{                                                                           \
		statements;                                                         \
	}

/* The account names packets that are missing, and its span and verdict are right. */
static void lose_rows(struct recording_account *account, uint64_t *term, uint64_t n)
{
	*term += n;
	account->until.sequence += n;
	account->verdict = IBVCAP_VERDICT_INCOMPLETE;
}

TestSuite(inspect_verdict, .init = begin, .fini = end);

/* ---- complete ------------------------------------------------------------------------------------ */

CHANGE(nothing, )
CHANGE(no_packets, *source = made_source("lidar", 10, 10))
CHANGE(of_queues, (recording->n_sources = 2, recording->sources[0] = made_source("lidar/0", 10, 14),
                   recording->sources[1] = made_source("lidar/1", 0, 3), recording->sources[1].account.queue = 1,
                   recording->sources[0].account.n_queues = recording->sources[1].account.n_queues = 2))
CHANGE(of_streams, (recording->n_sources = 2, recording->sources[1] = made_source("radar", 0, 3)))
CHANGE(by_flow, (source->description = "interface eth0, only flow 3", account->flow = 3, source->packets[1].id = 12,
                 source->packets[2].id = 13, source->packets[3].id = 17, account->until.sequence = 18,
                 account->sum.other_files = 4, source->received += 4))
CHANGE(filtered, (source->description = "interface eth0, filtered, of the flows: port 5", source->flows = "udp",
                  source->packets[1].id = 12, source->packets[2].id = 13, source->packets[3].id = 17,
                  account->until.sequence = 18, account->sum.filtered = 4, source->received += 4))
CHANGE(filtered_and_numbered,
       (filtered(recording, source, account), source->comment = SEQUENCE, source->packets[1].number = 12,
        source->packets[2].number = 13, source->packets[3].number = 17))
CHANGE(filtered_by_flow, (filtered(recording, source, account), account->flow = 3, account->sum.other_files = 3,
                          account->until.sequence += 3, source->received += 3,
                          source->description = "interface eth0, only flow 3, filtered, of the flows: port 5"))
CHANGE(filtered_beside_unfiltered, (filtered(recording, source, account), recording->n_sources = 2,
                                    recording->sources[1] = made_source("radar", 0, 3)))
CHANGE(in_the_middle, (account->file = 3, account->is_last = false))
CHANGE(lag, account->sum.lag = 5)
CHANGE(numbered, source->comment = SEQUENCE)
CHANGE(unnumbered_beside_numbered, (of_streams(recording, source, account), source->comment = SEQUENCE))
CHANGE(repeated_number, (source->comment = SEQUENCE, source->packets[2].number = 11, source->packets[3].number = 12))
CHANGE(cleared_by_card, (account->no_buffer_most = 0, source->packets[2].comment = "not lossless any more"))

Test(inspect_verdict, a_file_is_complete_only_if_its_accounts_prove_it)
{
	static const struct row rows[] = {
		{"as it is", nothing, FINDING_NOTE, "complete: no packet is missing"},
		{"no packet came", no_packets, FINDING_NOTE, "complete: no packet is missing"},
		{"two queues", of_queues, FINDING_NOTE, "complete: no packet is missing"},
		{"two streams", of_streams, FINDING_NOTE, "complete: no packet is missing"},
		{"one flow", by_flow, FINDING_NOTE, "complete: no packet is missing"},
		{"a filter", filtered, FINDING_NOTE, "complete: every packet that matches 'udp', 4 others left out"},
		{"a filter, and numbers of their own, which others have, too", filtered_and_numbered, FINDING_NOTE,
	         "complete: every packet that matches 'udp', 4 others left out"},
		{"a filter, and one flow", filtered_by_flow, FINDING_NOTE,
	         "complete: every packet that matches 'udp', 4 others left out"},
		{"a recording with a filter, and one without", filtered_beside_unfiltered, FINDING_NOTE,
	         "complete: no packet is missing, but for 4 that the filters left out"},
		{"not the first file, not the last", in_the_middle, FINDING_NOTE, "complete: no packet is missing"},
		{"rows that were not read any more", lag, FINDING_NOTE, "complete: no packet is missing"},
		{"numbers of their own", numbered, FINDING_NOTE,
	         "complete: no packet is missing, by the packets' own numbers, too"},
		{"a comment that names no loss", cleared_by_card, FINDING_NOTE, "complete: no packet is missing"},
	};

	CHECK(rows);
}

/* A stream has no description, or a number came twice: one of the two packets may be of another source, or of later
 * numbers that began again, and the number of a packet that is missing. */
Test(inspect_verdict, only_numbers_that_were_followed_and_came_once_are_a_proof_of_their_own)
{
	char text[VERDICT_TEXT_BYTES];

	for (int i = 0; i < 2; i++) {
		struct made_recording recording = made_recording();

		if (i == 0)
			unnumbered_beside_numbered(&recording, &recording.sources[0], &recording.sources[0].account);
		else
			repeated_number(&recording, &recording.sources[0], &recording.sources[0].account);
		made_write(&recording, path);
		cr_assert(zero(int, inspect_file_read(&file, path)));
		verdict_print(text, sizeof(text), &file.verdict);
		cr_expect_str_eq(text, "complete: no packet is missing");
		cr_expect_str_eq(verdict_word(&file.verdict), "complete");
		inspect_file_deinit(&file);
	}
}

/* ---- missing ------------------------------------------------------------------------------------- */

CHANGE(unwritten, (lose_rows(account, &account->sum.unwritten, 2)))
CHANGE(errored, (lose_rows(account, &account->sum.errored, 2)))
CHANGE(skipped, (lose_rows(account, &account->sum.skipped, 2)))
CHANGE(disk_wait, (lose_rows(account, &account->sum.disk_wait, 2)))
CHANGE(no_buffer, (account->sum.no_buffer = account->no_buffer_least = account->no_buffer_most = 2,
                   account->verdict = IBVCAP_VERDICT_INCOMPLETE))
CHANGE(gap, (lose_rows(account, &account->sum.skipped, 5), source->packets[2].id = 17, source->packets[3].id = 18,
             source->packets[2].drops = 7, source->packets[2].comment = "x\nlosses {\"skipped\":5,\"no_buffer\":2}",
             account->sum.no_buffer = account->no_buffer_least = account->no_buffer_most = 2))
CHANGE(missing_and_unknown, (skipped(recording, source, account), account->unknown = IBVCAP_UNKNOWN_OUTAGE))
CHANGE(lost_number, (source->comment = SEQUENCE, source->packets[3].number = 15))
CHANGE(lost_and_named, (numbered(recording, source, account), gap(recording, source, account),
                        source->packets[2].number = 17, source->packets[3].number = 18))
CHANGE(lost_and_named_and_before_card, (lost_and_named(recording, source, account), source->packets[3].number = 22))
CHANGE(lost_maybe_by_card,
       (lost_number(recording, source, account), account->sum.no_buffer = account->no_buffer_most = 2,
        source->dropped = 2, account->unknown = IBVCAP_UNKNOWN_EDGE, account->verdict = IBVCAP_VERDICT_NOT_PROVEN))

Test(inspect_verdict, packets_that_are_missing_are_counted)
{
	static const struct row rows[] = {
		{"unwritten", unwritten, FINDING_LOSS, "incomplete: 2 packets are missing"},
		{"errored", errored, FINDING_LOSS, "incomplete: 2 packets are missing"},
		{"skipped", skipped, FINDING_LOSS, "incomplete: 2 packets are missing"},
		{"disk_wait", disk_wait, FINDING_LOSS, "incomplete: 2 packets are missing"},
		{"no_buffer", no_buffer, FINDING_LOSS, "incomplete: 2 packets are missing"},
		{"a gap between packets", gap, FINDING_LOSS, "incomplete: 7 packets are missing"},
		{"and something unknown", missing_and_unknown, FINDING_LOSS, "incomplete: 2 packets are missing; "},
		{"lost before the card", lost_number, FINDING_LOSS,
	         "incomplete: 2 were lost before the network card, by the sender or the network"},
		{"all lost numbers are named", lost_and_named, FINDING_LOSS,
	         "incomplete: 7 packets are missing; 5 are absent by their own numbers"},
		{"some lost numbers are named", lost_and_named_and_before_card, FINDING_LOSS,
	         "incomplete: 7 packets are missing; 2 were lost before the network card"},
		{"lost for sure, maybe by the card", lost_maybe_by_card, FINDING_LOSS,
	         "incomplete: 2 are absent by their own numbers; "},
	};

	CHECK(rows);
}

Test(inspect_verdict, an_extract_is_not_counted_by_the_own_numbers)
{
	struct made_recording recording = made_recording();

	recording.sources[0].comment = SEQUENCE;
	recording.sources[0].packets[2].number = 50;
	recording.closing = "extracted by ibvcap: 4 packets";
	made_write(&recording, path);
	cr_assert(zero(int, inspect_file_read(&file, path)));
	cr_expect(eq(u32, file.numbers.n_streams, 0));
	cr_expect_eq(file.verdict.worst, FINDING_DOUBT);
	inspect_file_deinit(&file);
}

/* ---- unknown ------------------------------------------------------------------------------------- */

Test(inspect_verdict, each_unknown_bit_alone_takes_the_proof)
{
	for (uint32_t bit = IBVCAP_UNKNOWN_RESTART; bit <= IBVCAP_UNKNOWN_ABANDONED; bit <<= 1) {
		struct made_recording recording = made_recording();
		char text[VERDICT_TEXT_BYTES], wanted[INSPECT_TEXT_BYTES];

		recording.sources[0].account.unknown = bit;
		recording.sources[0].account.verdict = IBVCAP_VERDICT_NOT_PROVEN;
		made_write(&recording, path);
		cr_assert(zero(int, inspect_file_read(&file, path)));
		verdict_print(text, sizeof(text), &file.verdict);
		snprintf(wanted, sizeof(wanted), "not proven: %s", ibvcap_unknown_text(bit));
		cr_expect_str_eq(text, wanted);
		cr_expect_eq(file.verdict.worst, FINDING_DOUBT);
		cr_expect_str_eq(verdict_word(&file.verdict), "not proven");
		inspect_file_deinit(&file);
	}
}

CHANGE(maybe_lost_by_card, account->no_buffer_most = 1)
CHANGE(of_another_queue, (of_queues(recording, source, account), recording->sources[1].account.no_buffer_most = 1))
CHANGE(named_by_packet_only, (source->packets[0].drops = 2, source->packets[0].comment = LOST_BY_CARD))
CHANGE(named_late, (source->packets[3].drops = 2, source->packets[3].comment = LOST_BY_CARD,
                    source->packets[3].later_ns = INSPECT_CARD_NS))
CHANGE(named_by_late_first, (named_by_packet_only(recording, source, account),
                             source->packets[0].later_ns = source->packets[1].later_ns = source->packets[2].later_ns =
                                     source->packets[3].later_ns = 3 * INSPECT_CARD_NS))
CHANGE(named_in_time, (named_late(recording, source, account), source->packets[3].later_ns = INSPECT_CARD_NS - 3000000))
#define COUNTED_SINCE "2 packets lost\nlosses {\"no_buffer\":2,\"no_buffer_since_ns\":179533440101000000"
CHANGE(counted_late, (named_late(recording, source, account), source->packets[3].comment = COUNTED_SINCE "1}"))
CHANGE(counted_in_time, (named_late(recording, source, account), source->packets[3].comment = COUNTED_SINCE "0}"))
CHANGE(named_by_another_queue,
       (of_queues(recording, source, account), no_buffer(recording, source, account),
        recording->sources[1].packets[0].drops = 2, recording->sources[1].packets[0].comment = LOST_BY_CARD))
CHANGE(named_by_two_packets, (no_buffer(recording, source, account), source->packets[1].later_ns = 2 * INSPECT_CARD_NS,
                              source->packets[3].later_ns = 2 * INSPECT_CARD_NS, source->packets[1].drops = 2,
                              source->packets[1].comment = LOST_BY_CARD, source->packets[3].drops = 2,
                              source->packets[3].comment = LOST_BY_CARD))
CHANGE(no_account, source->has_account = false)
CHANGE(newer_account, source->account_text = "{\"version\":2}")
CHANGE(broken_account, source->account_text = "{")
CHANGE(foreign, recording->application = "Dumpcap")
CHANGE(almost_ours, recording->application = "ibvcapture 1")
CHANGE(foreign_without_statistics, (recording->application = "", source->has_statistics = false))
CHANGE(foreign_that_repeats, (recording->application = "", source->packets[1].id = 10))
CHANGE(foreign_with_drops, (recording->application = "Dumpcap", source->has_account = false, source->dropped = 4))
CHANGE(extract, (recording->closing = "extracted by ibvcap: 4 packets", source->has_statistics = false))
CHANGE(extract_with_holes, (extract(recording, source, account), source->packets[2].id = 20))
CHANGE(extract_with_losses, (extract(recording, source, account), source->packets[2].drops = 3))
CHANGE(restarted_numbers,
       (source->comment = SEQUENCE, source->packets[2].number = 2000, source->packets[3].number = 2001))
CHANGE(stray_number, (source->comment = SEQUENCE, source->packets[3].number = 2000))
CHANGE(unread_number, (source->comment = SEQUENCE, source->packets[3].number = UINT64_MAX))
CHANGE(unread_and_stray_number, (stray_number(recording, source, account), source->packets[2].number = UINT64_MAX))
CHANGE(wrong_description,
       source->comment = "sequence {\"offsets_from\":\"payload\",\"bytes\":4,\"step\":1,\"window\":3}")
CHANGE(late_number, (source->comment = SEQUENCE, source->packets[0].number = 1000, source->packets[1].number = 1001,
                     source->packets[2].number = 900, source->packets[3].number = 1002))

Test(inspect_verdict, what_is_not_proven_is_not_complete)
{
	static const struct row rows[] = {
		{"the card lost some near an end", maybe_lost_by_card, FINDING_DOUBT, "not proven: "},
		{"the same of the stream, by another queue", of_another_queue, FINDING_NOTE, "complete"},
		{"a loss of the card that only the first packet names", named_by_packet_only, FINDING_NOTE,
	         "complete: no packet is missing; 2 that packets name were lost by the card before the file began"},
		{"the first packet comes late", named_by_late_first, FINDING_NOTE, "before the file began"},
		{"a packet names it within a second", named_in_time, FINDING_NOTE, "before the file began"},
		{"a packet names it later", named_late, FINDING_DOUBT,
	         "not proven: packets name 2 losses of the card that its account does not have"},
		{"the same, and the daemon had not counted it within a second", counted_late, FINDING_DOUBT,
	         "not proven: packets name 2 losses of the card that its account does not have"},
		{"it may have been counted before", counted_in_time, FINDING_NOTE, "before the file began"},
		{"the packet and the account that name a loss are of two queues", named_by_another_queue, FINDING_LOSS,
	         "incomplete: 2 packets are missing"},
		{"two packets name more than the account", named_by_two_packets, FINDING_LOSS,
	         "incomplete: 2 packets are missing; packets name 2 losses of the card that its account does not"},
		{"an account of a later version", newer_account, FINDING_DOUBT,
	         "not proven: its account cannot be read"},
		{"an account that is no JSON", broken_account, FINDING_DOUBT, "not proven: its account cannot be read"},
		{"another program", foreign, FINDING_DOUBT, "not proven: not written by ibvcap record"},
		{"a program whose name begins like ours", almost_ours, FINDING_DOUBT, "not written by ibvcap"},
		{"another program, open", foreign_without_statistics, FINDING_DOUBT, "not written by ibvcap"},
		{"numbers of another program", foreign_that_repeats, FINDING_DOUBT, "not written by ibvcap"},
		{"drops that another program names", foreign_with_drops, FINDING_LOSS,
	         "incomplete: not written by ibvcap record, so nothing proves that no packet is missing; "
	         "4 packets are missing"},
		{"an extract", extract, FINDING_DOUBT, "not proven: an extract: "},
		{"an extract that left packets out", extract_with_holes, FINDING_DOUBT, "not proven: an extract: "},
		{"an extract with losses", extract_with_losses, FINDING_LOSS,
	         "incomplete: an extract: it names the losses between its packets, and nothing proves what was left "
	         "out; 3 packets are missing"},
		{"a gap beyond jump", restarted_numbers, FINDING_DOUBT,
	         "not proven: the own numbers of the packets of lidar do not prove that none is missing: restarted 1"},
		{"a stray number", stray_number, FINDING_DOUBT, "none is missing: stray 1"},
		{"a packet without a number", unread_number, FINDING_DOUBT, "none is missing: unread 1"},
		{"both", unread_and_stray_number, FINDING_DOUBT, "none is missing: unread 1, stray 1"},
		{"a description that no tracker takes", wrong_description, FINDING_NOTE,
	         "complete: no packet is missing"},
		{"a late number", late_number, FINDING_DOUBT, "none is missing: "},
	};

	CHECK(rows);
}

/* ---- damage -------------------------------------------------------------------------------------- */

CHANGE(repeated, source->packets[1].id = 10)
CHANGE(hole, source->packets[3].id = 14)
CHANGE(named_too_much, (skipped(recording, source, account), source->packets[2].drops = 1))
CHANGE(taken_out, source->n_packets = 3)
CHANGE(taken_out_and_statistics, (source->n_packets = 3, source->delivered = 3))
CHANGE(taken_out_and_written, (taken_out_and_statistics(recording, source, account), account->sum.written = 3))
CHANGE(put_in, (source->packets[4] = source->packets[3], source->packets[4].id = 14, source->n_packets = 5,
                source->delivered = 5, account->sum.written = 5))
CHANGE(first_before, account->from.sequence = 11)
CHANGE(first_before_and_written, (account->from.sequence = 11, account->until.sequence = 15))
CHANGE(last_behind, (account->from.sequence = 9, account->until.sequence = 13))
CHANGE(from_behind_until, account->from.sequence = 15)
CHANGE(too_short_a_span, account->until.sequence = 15)
CHANGE(too_many_terms, (account->sum.skipped = 1, account->verdict = IBVCAP_VERDICT_INCOMPLETE))
CHANGE(other_stream, strcpy(account->stream, "radar"))
CHANGE(other_queue, (of_queues(recording, source, account), account->queue = 1))
CHANGE(other_flow, account->flow = 3)
CHANGE(no_filter, (filtered(recording, source, account), source->description = "only flow 3", account->flow = 3))
CHANGE(too_many_filtered, (filtered(recording, source, account), account->sum.filtered--, source->received--))
CHANGE(gap_that_was_filtered, (filtered(recording, source, account), source->packets[3].drops = 3))
CHANGE(no_flow, source->description = "only flow 3")
CHANGE(gap_that_account_lacks,
       (gap(recording, source, account), account->sum.skipped = 0, account->sum.lag = 5, account->no_buffer_least = 7))
CHANGE(gap_of_other_flows, (by_flow(recording, source, account), source->packets[3].drops = 3))
CHANGE(restart_without_account, (source->packets[2].comment = RESTARTED, source->packets[2].id = 0,
                                 source->packets[3].id = 1, account->from.epoch = 0, account->until.epoch = 0,
                                 account->no_buffer_least = 1, account->verdict = IBVCAP_VERDICT_INCOMPLETE))
CHANGE(complete_with_restarts, account->sum.restarts = 1)
CHANGE(complete_with_failures, account->failures = 1)
CHANGE(complete_with_outages, account->outages = 1)
CHANGE(complete_with_abandoned, account->abandoned = 1)
CHANGE(complete_over_epochs, account->until.epoch = 8)
CHANGE(complete_without_epochs, account->from.epoch = account->until.epoch = 0)
CHANGE(other_recording, (of_queues(recording, source, account), recording->sources[1].account.recording = 5))
CHANGE(other_file, (of_queues(recording, source, account), recording->sources[1].account.file = 5))
CHANGE(one_without_account, (of_streams(recording, source, account), recording->sources[1].has_account = false))
CHANGE(first_without_account, (of_streams(recording, source, account), source->has_account = false))
CHANGE(queue_absent, account->n_queues = 2)
CHANGE(queue_absent_in_the_middle, (of_streams(recording, source, account), queue_absent(recording, source, account)))
CHANGE(queue_of_second_stream_absent,
       (of_streams(recording, source, account), recording->sources[1].account.n_queues = 2))
CHANGE(open_file, source->has_statistics = false)
CHANGE(open_queue, (of_queues(recording, source, account), recording->sources[1].has_statistics = false))
CHANGE(no_closing, recording->closing = NULL)
CHANGE(goes_on, recording->has_packet_behind = true)

Test(inspect_verdict, a_file_that_does_not_agree_with_itself_is_damaged)
{
	static const struct row rows[] = {
		{"repeated", repeated, FINDING_DAMAGE,
	         "does not agree with itself: lidar: numbers of packets come twice"},
		{"a hole", hole, FINDING_DAMAGE, "lidar: numbers of packets are absent that no gap explains"},
		{"a gap that is none", named_too_much, FINDING_DAMAGE, "are absent that no gap explains"},
		{"the last packet taken out", taken_out, FINDING_DAMAGE,
	         "its statistics name another number of packets than it has"},
		{"and the statistics changed", taken_out_and_statistics, FINDING_DAMAGE,
	         "its account names another number of packets than it has"},
		{"and the account", taken_out_and_written, FINDING_DAMAGE, "the terms of its account do not add up"},
		{"a packet put in", put_in, FINDING_DAMAGE, "numbers of packets are outside the account"},
		{"the first before the account", first_before, FINDING_DAMAGE,
	         "numbers of packets are outside the account"},
		{"the same, the span is right", first_before_and_written, FINDING_DAMAGE,
	         "numbers of packets are outside the account"},
		{"the last behind the account", last_behind, FINDING_DAMAGE,
	         "numbers of packets are outside the account"},
		{"it ends before it begins", from_behind_until, FINDING_DAMAGE, "outside the account"},
		{"one more in the span", too_short_a_span, FINDING_DAMAGE, "the terms of its account do not add up"},
		{"one more in the terms", too_many_terms, FINDING_DAMAGE, "the terms of its account do not add up"},
		{"the account of another stream", other_stream, FINDING_DAMAGE, "its account is that of another queue"},
		{"of another queue", other_queue, FINDING_DAMAGE, "its account is that of another queue"},
		{"of one flow", other_flow, FINDING_DAMAGE, "its account is not that of its flow"},
		{"of all flows", no_flow, FINDING_DAMAGE, "its account is not that of its flow"},
		{"of a filter", no_filter, FINDING_DAMAGE, "its account is not that of its filter"},
		{"fewer left out than numbers are absent", too_many_filtered, FINDING_DAMAGE,
	         "numbers of packets are absent that no gap explains"},
		{"a gap that the account has as packets that were left out", gap_that_was_filtered, FINDING_DAMAGE,
	         "gaps between its packets name more packets than its account"},
		{"a gap that the account lacks", gap_that_account_lacks, FINDING_DAMAGE,
	         "the terms of its account do not add up"},
		{"a gap that the account has as packets of other flows", gap_of_other_flows, FINDING_DAMAGE,
	         "gaps between its packets name more packets than its account"},
		{"a restart that the account lacks", restart_without_account, FINDING_DAMAGE,
	         "a packet comes after a restart of ibvcapd that its account does not name"},
		{"complete, and restarts", complete_with_restarts, FINDING_DAMAGE, "its account says complete, and"},
		{"complete, and failures", complete_with_failures, FINDING_DAMAGE, "its account says complete, and"},
		{"complete, and outages", complete_with_outages, FINDING_DAMAGE, "its account says complete, and"},
		{"complete, and abandoned", complete_with_abandoned, FINDING_DAMAGE, "its account says complete, and"},
		{"complete over epochs", complete_over_epochs, FINDING_DAMAGE, "its account says complete, and"},
		{"complete while the daemon was away", complete_without_epochs, FINDING_DAMAGE, "says complete, and"},
		{"an account of another recording", other_recording, FINDING_DAMAGE,
	         "lidar/1: its account is of another file"},
		{"an account of another file", other_file, FINDING_DAMAGE, "lidar/1: its account is of another file"},
		{"no account in one of two", one_without_account, FINDING_DAMAGE, "radar: it has an account, or none"},
		{"no account in the first of two", first_without_account, FINDING_DAMAGE,
	         "radar: it has an account, or none"},
		{"a queue is absent", queue_absent, FINDING_DAMAGE, "its account names more queues than the file has"},
		{"a queue is absent before another stream", queue_absent_in_the_middle, FINDING_DAMAGE,
	         "lidar: its account names more queues than the file has"},
		{"a queue of the second stream is absent", queue_of_second_stream_absent, FINDING_DAMAGE,
	         "radar: its account names more queues than the file has"},
		{"no statistics", open_file, FINDING_DAMAGE, "not closed: "},
		{"no statistics of one of two", open_queue, FINDING_DAMAGE, "not closed: "},
		{"no closing section", no_closing, FINDING_DAMAGE, "not closed: "},
		{"something behind the closing section", goes_on, FINDING_DAMAGE, "not closed: "},
	};

	CHECK(rows);
}

CHANGE(open_with_losses, (open_file(recording, source, account), source->packets[0].drops = 3))

Test(inspect_verdict, losses_of_a_damaged_file_are_told_too)
{
	static const struct row rows[] = {
		{"open", open_with_losses, FINDING_DAMAGE, "; 3 packets are missing"},
		{"queues that were not read", nothing, FINDING_NOTE, "complete"},
	};

	CHECK(rows);
	{
		struct made_recording recording = made_recording();

		open_with_losses(&recording, &recording.sources[0], NULL);
		made_write(&recording, path);
		cr_assert(zero(int, inspect_file_read(&file, path)));
		cr_expect_str_eq(verdict_word(&file.verdict), "incomplete");
		inspect_file_deinit(&file);
	}
}

/* ---- restarts ------------------------------------------------------------------------------------ */

/* Packets 10 and 11 of one run, 0 and 1 of the next. */
CHANGE(restart, (source->packets[2].comment = RESTARTED, source->packets[2].id = 0, source->packets[3].id = 1,
                 account->until.epoch = 8, account->until.sequence = 2, account->sum.restarts = 1,
                 account->unknown = IBVCAP_UNKNOWN_RESTART, account->verdict = IBVCAP_VERDICT_NOT_PROVEN))
CHANGE(restart_at_begin, (source->packets[0].comment = RESTARTED, account->from.sequence = 1000,
                          account->until.epoch = 8, account->sum.restarts = 1,
                          account->unknown = IBVCAP_UNKNOWN_RESTART, account->verdict = IBVCAP_VERDICT_NOT_PROVEN))
CHANGE(restart_at_end, (restart(recording, source, account), account->sum.restarts = 2, account->until.sequence = 1))
CHANGE(restart_and_first_before, (restart(recording, source, account), account->from.sequence = 11))
CHANGE(restart_and_last_behind, (restart(recording, source, account), account->until.sequence = 1))
CHANGE(restart_before, source->packets[0].comment = RESTARTED)
CHANGE(restart_before_and_within, (restart(recording, source, account), source->packets[0].comment = RESTARTED))
CHANGE(restart_before_and_first_before, (restart_before(recording, source, account), account->from.sequence = 11))
CHANGE(restart_before_and_last_behind, (restart_before(recording, source, account), account->until.sequence = 13))
CHANGE(restart_before_and_lost, (restart_before(recording, source, account), account->sum.skipped = 5,
                                 source->packets[0].drops = 5, account->verdict = IBVCAP_VERDICT_INCOMPLETE))
CHANGE(away_at_end, (account->until.epoch = 0, account->until.sequence = 0, account->unknown = IBVCAP_UNKNOWN_AWAY,
                     account->verdict = IBVCAP_VERDICT_NOT_PROVEN))
CHANGE(away_at_begin, (account->from.epoch = 0, account->from.sequence = 99, account->unknown = IBVCAP_UNKNOWN_AWAY,
                       account->verdict = IBVCAP_VERDICT_NOT_PROVEN))
CHANGE(queues_not_read,
       (account->n_queues = 2, account->unknown = IBVCAP_UNKNOWN_QUEUES, account->verdict = IBVCAP_VERDICT_NOT_PROVEN))

Test(inspect_verdict, numbers_of_several_runs_must_be_within_the_ends)
{
	static const struct row rows[] = {
		{"one restart", restart, FINDING_DOUBT, "not proven: "},
		{"before the first packet", restart_at_begin, FINDING_DOUBT, "not proven: "},
		{"one more behind the last packet", restart_at_end, FINDING_DOUBT, "not proven: "},
		{"the first before the account", restart_and_first_before, FINDING_DAMAGE, "outside the account"},
		{"the last behind the account", restart_and_last_behind, FINDING_DAMAGE, "outside the account"},
		{"before the file", restart_before, FINDING_NOTE, "complete: no packet is missing"},
		{"before the file, and in it", restart_before_and_within, FINDING_DOUBT, "not proven: "},
		{"before the file, and the first before the account", restart_before_and_first_before, FINDING_DAMAGE,
	         "outside the account"},
		{"before the file, and the last behind the account", restart_before_and_last_behind, FINDING_DAMAGE,
	         "outside the account"},
		{"before the file, with losses of the run before", restart_before_and_lost, FINDING_LOSS,
	         "incomplete: 5 packets are missing"},
		{"away at the end", away_at_end, FINDING_DOUBT, "not proven: "},
		{"away at the begin", away_at_begin, FINDING_DOUBT, "not proven: "},
		{"queues that were not read", queues_not_read, FINDING_DOUBT, "not proven: "},
	};

	CHECK(rows);
}

/* ---- files without an account -------------------------------------------------------------------- */

CHANGE(drops_only, (no_account(recording, source, account), source->dropped = 2, source->os_dropped = 3))
CHANGE(gap_only, (no_account(recording, source, account), gap(recording, source, account)))
CHANGE(restart_only, (no_account(recording, source, account), source->packets[0].comment = RESTARTED))
CHANGE(hole_only, (no_account(recording, source, account), hole(recording, source, account)))

Test(inspect_verdict, a_file_without_an_account_proves_nothing_but_losses)
{
	static const struct row rows[] = {
		{"nothing", no_account, FINDING_DOUBT,
	         "not proven: it has no account, so nothing proves that no packet is missing"},
		{"a restart before a packet", restart_only, FINDING_DOUBT, "; it has no account, "},
		{"drops in the statistics", drops_only, FINDING_LOSS,
	         "incomplete: 5 packets are missing; it has no account, "},
		{"a gap", gap_only, FINDING_LOSS, "incomplete: 7 packets are missing; it has no account, "},
		{"a hole", hole_only, FINDING_DAMAGE, "absent that no gap explains"},
	};

	CHECK(rows);
}

/* ---- files that are none ------------------------------------------------------------------------- */

static void expect_bytes(const void *bytes, size_t n, enum finding verdict, const char *wanted)
{
	char text[VERDICT_TEXT_BYTES];

	made_write_bytes(path, bytes, n);
	cr_assert(zero(int, inspect_file_read(&file, path)));
	verdict_print(text, sizeof(text), &file.verdict);
	cr_expect_eq(file.verdict.worst, verdict, "%s", text);
	cr_expect(strstr(text, wanted) != NULL, "%s", text);
	inspect_file_deinit(&file);
}

Test(inspect_verdict, files_that_are_no_recordings_prove_nothing)
{
	static const uint8_t pcap[24] = {0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4};
	static const uint8_t other_pcaps[3][24] = {{0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4},
	                                           {0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4},
	                                           {0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4}};
	uint8_t packed[256];
	size_t n = ZSTD_compress(packed, sizeof(packed), pcap, sizeof(pcap), 1);

	expect_bytes("", 0, FINDING_DOUBT, "not proven: there is nothing in the file");
	expect_bytes("\x28\xb5\x2f\xfd", 4, FINDING_DOUBT, "not proven: cut off before its first block");
	expect_bytes("\n\r\r\n", 4, FINDING_DOUBT, "not proven: cut off before its first block");
	expect_bytes(pcap, sizeof(pcap), FINDING_DOUBT, "not proven: a pcap file, not written by ibvcap record");
	for (unsigned i = 0; i < 3; i++)
		expect_bytes(other_pcaps[i], sizeof(pcap), FINDING_DOUBT, "not proven: a pcap file");
	expect_bytes(packed, n, FINDING_DOUBT, "not proven: a pcap file");
	n = ZSTD_compress(packed, sizeof(packed), "", 0, 1);
	expect_bytes(packed, n, FINDING_DOUBT, "not proven: there is nothing in the file");
	expect_bytes("no recording", 12, FINDING_DAMAGE, "damaged: at byte 0: not a pcapng file");
}

/* In two zstd blocks: the whole file, and an end without bytes. */
static size_t compress_in_blocks(void *to, size_t room, const void *from, size_t n)
{
	ZSTD_CCtx *context = ZSTD_createCCtx();
	ZSTD_inBuffer in = {.src = from, .size = n};
	ZSTD_outBuffer out = {.dst = to, .size = room};

	cr_assert(zero(sz, ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush)));
	cr_assert(zero(sz, ZSTD_compressStream2(context, &out, &in, ZSTD_e_end)));
	ZSTD_freeCCtx(context);
	return out.pos;
}

Test(inspect_verdict, a_file_that_was_cut_is_never_complete)
{
	static uint8_t whole[8192], packed[8192];
	const struct made_recording recording = made_recording();
	size_t bytes = made_write(&recording, path), n;
	FILE *in = fopen(path, "re");

	cr_assert(eq(sz, fread(whole, 1, sizeof(whole), in), bytes));
	fclose(in);
	n = compress_in_blocks(packed, sizeof(packed), whole, bytes);
	for (size_t cut = 1; cut <= n; cut++) {
		made_write_bytes(path, packed, n - cut);
		cr_assert(zero(int, inspect_file_read(&file, path)));
		cr_expect(ne(int, (int)file.verdict.worst, FINDING_NOTE), "%zu bytes fewer", cut);
		inspect_file_deinit(&file);
	}
	for (size_t cut = 4; cut <= bytes; cut += 4) {
		made_write_bytes(path, whole, bytes - cut);
		cr_assert(zero(int, inspect_file_read(&file, path)));
		cr_expect(ne(int, (int)file.verdict.worst, FINDING_NOTE), "%zu bytes fewer", cut);
		inspect_file_deinit(&file);
	}
	expect_bytes(packed, n, FINDING_NOTE, "complete");
	expect_bytes(packed, n - 1, FINDING_DAMAGE, "cut off: the packets before are whole: the file ends within");
	expect_bytes(whole, bytes - 4, FINDING_DAMAGE, "cut off: the packets before are whole: at byte");
}
