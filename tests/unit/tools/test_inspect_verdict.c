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
#define ONE_SOURCE                                                                                               \
	"clock device; sequence {\"offsets_from\":\"payload\",\"offset\":0,\"bytes\":4,\"step\":1,\"source\":3," \
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

static void read_made(const struct made_recording *recording, char text[static VERDICT_TEXT_BYTES])
{
	made_write(recording, path);
	cr_assert(zero(int, inspect_file_read(&file, path)));
	verdict_print(text, VERDICT_TEXT_BYTES, &file.verdict);
}

static void expect_verdict(const struct made_recording *recording, const char *what, enum finding verdict,
                           const char *part)
{
	char text[VERDICT_TEXT_BYTES];

	read_made(recording, text);
	cr_expect_eq(file.verdict.worst, verdict, "%s: %u: %s", what, file.verdict.worst, text);
	cr_expect(strstr(text, part) != NULL, "%s: %s", what, text);
	inspect_file_deinit(&file);
}

/* The verdict's whole text, and its word. */
static void expect_exactly(const struct made_recording *recording, const char *wanted, const char *word)
{
	char text[VERDICT_TEXT_BYTES];

	read_made(recording, text);
	cr_expect_str_eq(text, wanted);
	cr_expect_str_eq(verdict_word(&file.verdict), word);
	inspect_file_deinit(&file);
}

/* A change may use these names: the recording, its first source, and the account of that source. */
#define NAMES(made)                                            \
	struct made_recording *const recording = (made);       \
	struct made_source *const source = recording->sources; \
	struct recording_account *const account = &source->account

/* A change that several cases make. */
#define CHANGE(name, ...)                             \
	static void name(struct made_recording *made) \
	{                                             \
		NAMES(made);                          \
		(void)account;                        \
		__VA_ARGS__;                          \
	}

/* A case of a table: a recording that is complete, after these changes, has this verdict; text is all of the verdict's
 * text, or a part of it. */
#define CASE(what, verdict, text, ...)                         \
	do {                                                   \
		struct made_recording made = made_recording(); \
		NAMES(&made);                                  \
		(void)account;                                 \
		__VA_ARGS__;                                   \
		expect_verdict(&made, what, verdict, text);    \
	} while (0)

/* The account names packets that are missing, and its span and verdict are right. */
static void lose_rows(struct recording_account *account, uint64_t *term, uint64_t n)
{
	*term += n;
	account->until.sequence += n;
}

TestSuite(inspect_verdict, .init = begin, .fini = end);

/* ---- complete ------------------------------------------------------------------------------------ */

CHANGE(of_queues, recording->n_sources = 2, recording->sources[0] = made_source("lidar/0", 10, 14),
       recording->sources[1] = made_source("lidar/1", 0, 3), recording->sources[1].account.queue = 1,
       recording->sources[0].account.n_queues = recording->sources[1].account.n_queues = 2)
CHANGE(of_streams, recording->n_sources = 2, recording->sources[1] = made_source("radar", 0, 3))
CHANGE(by_flow, source->description = "interface eth0, only flow 3", account->flow = 3, source->packets[1].id = 12,
       source->packets[2].id = 13, source->packets[3].id = 17, account->until.sequence = 18,
       account->sum.other_files = 4, source->received += 4)
CHANGE(filtered, source->description = "interface eth0, filtered, of the flows: port 5", source->flows = "udp",
       source->packets[1].id = 12, source->packets[2].id = 13, source->packets[3].id = 17, account->until.sequence = 18,
       account->sum.filtered = 4, source->received += 4)
CHANGE(numbered, source->comment = SEQUENCE)
CHANGE(unnumbered_beside_numbered, of_streams(recording), source->comment = SEQUENCE)
CHANGE(repeated_number, source->comment = SEQUENCE, source->packets[2].number = 11, source->packets[3].number = 12)

Test(inspect_verdict, a_file_is_complete_only_if_its_accounts_prove_it)
{
	CASE("as it is", FINDING_NOTE, "complete: no packet is missing", (void)0);
	CASE("no packet came", FINDING_NOTE, "complete: no packet is missing", *source = made_source("lidar", 10, 10));
	CASE("two queues", FINDING_NOTE, "complete: no packet is missing", of_queues(recording));
	CASE("two streams", FINDING_NOTE, "complete: no packet is missing", of_streams(recording));
	CASE("one flow", FINDING_NOTE, "complete: no packet is missing", by_flow(recording));
	CASE("a filter", FINDING_NOTE, "complete: every packet that matches 'udp', 4 others left out",
	     filtered(recording));
	CASE("a filter, and numbers of their own, which others have, too", FINDING_NOTE,
	     "complete: every packet that matches 'udp', 4 others left out", filtered(recording),
	     source->comment = SEQUENCE, source->packets[1].number = 12, source->packets[2].number = 13,
	     source->packets[3].number = 17);
	CASE("a filter, and one flow", FINDING_NOTE, "complete: every packet that matches 'udp', 4 others left out",
	     filtered(recording), account->flow = 3, account->sum.other_files = 3, account->until.sequence += 3,
	     source->received += 3,
	     source->description = "interface eth0, only flow 3, filtered, of the flows: port 5");
	CASE("a recording with a filter, and one without", FINDING_NOTE,
	     "complete: no packet is missing, but for 4 that the filters left out", filtered(recording),
	     recording->n_sources = 2, recording->sources[1] = made_source("radar", 0, 3));
	CASE("not the first file, not the last", FINDING_NOTE, "complete: no packet is missing", account->file = 3,
	     account->is_last = false);
	CASE("rows that were not read any more", FINDING_NOTE, "complete: no packet is missing", account->sum.lag = 5);
	CASE("numbers of their own", FINDING_NOTE, "complete: no packet is missing, by the packets' own numbers, too",
	     numbered(recording));
	CASE("a comment that names no loss", FINDING_NOTE, "complete: no packet is missing",
	     account->rx.no_buffer_most = 0, source->packets[2].comment = "not lossless any more");
}

/* A stream has no description, or a number came twice: one of the two packets may be of another source, or of later
 * numbers that began again, and the number of a packet that is missing. */
Test(inspect_verdict, only_numbers_that_were_followed_and_came_once_are_a_proof_of_their_own)
{
	struct made_recording unnumbered = made_recording(), repeated = made_recording();

	unnumbered_beside_numbered(&unnumbered);
	expect_exactly(&unnumbered, "complete: no packet is missing", "complete");
	repeated_number(&repeated);
	expect_exactly(&repeated, "complete: no packet is missing", "complete");
}

/* ---- the interface ------------------------------------------------------------------------------- */

CHANGE(lost_number, source->comment = SEQUENCE, source->packets[3].number = 15)
CHANGE(interface_drops, account->rx.unknown = IBVCAP_UNKNOWN_INTERFACE, account->rx.interface_lost = 3)
/* Drops between the times of packets 11 and 12, more than a second from each. */
CHANGE(drops_between, interface_drops(recording), numbered(recording),
       account->rx.interface_quiet_ns = MADE_TIME_NS + 1500000000,
       account->rx.interface_until_ns = MADE_TIME_NS + 2000000000, source->packets[2].later_ns = 3500000000,
       source->packets[3].later_ns = 3500000000)
CHANGE(of_one_source, source->comment = ONE_SOURCE)
#define BETWEEN                                                                                                      \
	"by the packets' own numbers none is absent between the first and the last one of each source in the file; " \
	"earlier and later ones, and those of other sources, are not known"

Test(inspect_verdict, what_an_interface_dropped_is_a_doubt_that_the_packets_own_numbers_decide)
{
	CASE("drops", FINDING_DOUBT, "whose they were; these were up to 3 packets, of all streams and programs",
	     interface_drops(recording));
	CASE("drops of a driver that does not count all", FINDING_DOUBT,
	     "whose they were; 3 of them were counted, of all streams and programs; the interface does not count all",
	     interface_drops(recording), account->rx.interface_counts_all = false);
	CASE("drops at a time that is not known", FINDING_DOUBT, BETWEEN, interface_drops(recording),
	     numbered(recording));
	CASE("drops between packets of a source", FINDING_NOTE,
	     "complete: no packet of the sources in the file is missing, although the interface dropped some: by the "
	     "packets' own numbers none is absent, from before the first drop until after the last one; a source of "
	     "which no packet is in the file is not known",
	     drops_between(recording));
	CASE("drops between packets of a stream that is one source", FINDING_NOTE,
	     "complete: no packet is missing, although the interface dropped some", drops_between(recording),
	     of_one_source(recording));
	CASE("the same, and a driver that does not count all", FINDING_NOTE,
	     "complete from the flow rules on: no packet is missing, although", drops_between(recording),
	     of_one_source(recording), account->rx.interface_counts_all = false);
	CASE("drops before the first packet", FINDING_DOUBT, BETWEEN, drops_between(recording),
	     account->rx.interface_quiet_ns = MADE_TIME_NS);
	CASE("drops less than a second after the first packet", FINDING_DOUBT, BETWEEN, drops_between(recording),
	     account->rx.interface_quiet_ns = MADE_TIME_NS + 1000000000);
	CASE("drops after the last packet", FINDING_DOUBT, BETWEEN, drops_between(recording),
	     account->rx.interface_until_ns = MADE_TIME_NS + 4000000000);
	CASE("drops less than a second before the last packet", FINDING_DOUBT, BETWEEN, drops_between(recording),
	     account->rx.interface_until_ns = MADE_TIME_NS + 2600000000);
	CASE("drops before the first packet of another source", FINDING_DOUBT, BETWEEN, drops_between(recording),
	     source->packets[3].port = 4001);
	CASE("drops after the last packet of another source", FINDING_DOUBT, BETWEEN, drops_between(recording),
	     source->packets[0].port = 4001);
	CASE("drops, and a late packet of an earlier number", FINDING_DOUBT, BETWEEN, drops_between(recording),
	     source->packets[2].number = 13, source->packets[2].later_ns = 0, source->packets[3].number = 12);
	CASE("drops, and a number is absent", FINDING_LOSS,
	     "incomplete: 2 are absent by their own numbers: lost by the sender or the network, or dropped by the "
	     "interface; which, cannot be told",
	     interface_drops(recording), lost_number(recording));
	CASE("drops, and a number that came twice", FINDING_DOUBT, "whose they were", drops_between(recording),
	     repeated_number(recording));
	CASE("drops, and a stream without numbers", FINDING_DOUBT, "whose they were", drops_between(recording),
	     unnumbered_beside_numbered(recording));
	CASE("drops and another doubt", FINDING_DOUBT, "whose they were", drops_between(recording),
	     account->rx.unknown |= IBVCAP_UNKNOWN_OUTAGE);
	CASE("a driver that does not count all", FINDING_NOTE,
	     "complete from the flow rules on: no packet is missing; what did not come to the flow rules is not "
	     "known: the interface does not count all of it, or the flow rules changed",
	     account->rx.interface_counts_all = false);
	CASE("the same, and the account says so", FINDING_NOTE, "is not known: the interface does not count all of it",
	     account->rx.interface_counts_all = false, account->rx.interface_uncounted = IBVCAP_UNCOUNTED_INTERFACE);
	CASE("flow rules that changed", FINDING_NOTE, "is not known: the flow rules changed",
	     account->rx.interface_counts_all = false, account->rx.interface_uncounted = IBVCAP_UNCOUNTED_FLOW_RULES);
}

/* ---- malformed ----------------------------------------------------------------------------------- */

CHANGE(malformed, source->comment = SEQUENCE, account->sum.malformed = 1, source->packets[1].number = UINT64_MAX)

Test(inspect_verdict, a_malformed_packet_is_no_loss_but_may_hide_a_number)
{
	CASE("no number is absent", FINDING_NOTE, "; 1 are malformed", malformed(recording),
	     source->packets[2].number = 11, source->packets[3].number = 12);
	CASE("one is absent", FINDING_DOUBT,
	     "not proven: 1 numbers are absent: they may be those of the malformed packets, or of lost ones",
	     malformed(recording));
	CASE("more are absent", FINDING_LOSS, "up to 1 may be those of the malformed packets", malformed(recording),
	     source->packets[3].number = 15);
	CASE("another packet has no number", FINDING_DOUBT, "unread 1", malformed(recording),
	     source->packets[2].number = UINT64_MAX, source->packets[3].number = 11);
}

/* ---- missing ------------------------------------------------------------------------------------- */

CHANGE(skipped, lose_rows(account, &account->sum.skipped, 2))
CHANGE(no_buffer, account->rx.no_buffer = account->rx.no_buffer_least = account->rx.no_buffer_most = 2)
CHANGE(gap, lose_rows(account, &account->sum.skipped, 5), source->packets[2].id = 17, source->packets[3].id = 18,
       source->packets[2].drops = 7, source->packets[2].comment = "x\nlosses {\"skipped\":5,\"no_buffer\":2}",
       account->rx.no_buffer = account->rx.no_buffer_least = account->rx.no_buffer_most = 2)
CHANGE(lost_and_named, numbered(recording), gap(recording), source->packets[2].number = 17,
       source->packets[3].number = 18)

Test(inspect_verdict, packets_that_are_missing_are_counted)
{
	CASE("unwritten", FINDING_LOSS, "incomplete: 2 packets are missing",
	     lose_rows(account, &account->sum.unwritten, 2));
	CASE("errored", FINDING_LOSS, "incomplete: 2 packets are missing",
	     lose_rows(account, &account->sum.errored, 2));
	CASE("skipped", FINDING_LOSS, "incomplete: 2 packets are missing", skipped(recording));
	CASE("disk_wait", FINDING_LOSS, "incomplete: 2 packets are missing",
	     lose_rows(account, &account->sum.disk_wait, 2));
	CASE("no_buffer", FINDING_LOSS, "incomplete: 2 packets are missing", no_buffer(recording));
	CASE("a gap between packets", FINDING_LOSS, "incomplete: 7 packets are missing", gap(recording));
	CASE("and something unknown", FINDING_LOSS, "incomplete: 2 packets are missing; ", skipped(recording),
	     account->rx.unknown = IBVCAP_UNKNOWN_OUTAGE);
	CASE("lost before the card", FINDING_LOSS,
	     "incomplete: 2 were lost before the network card, by the sender or the network", lost_number(recording));
	CASE("lost before the card, or by one that does not count all", FINDING_LOSS,
	     "incomplete: 2 were lost before the flow rules, by the sender, the network or the card",
	     lost_number(recording), account->rx.interface_counts_all = false);
	CASE("all lost numbers are named", FINDING_LOSS,
	     "incomplete: 7 packets are missing; 5 are absent by their own numbers", lost_and_named(recording));
	CASE("some lost numbers are named", FINDING_LOSS,
	     "incomplete: 7 packets are missing; 2 were lost before the network card", lost_and_named(recording),
	     source->packets[3].number = 22);
	CASE("lost for sure, maybe by the card", FINDING_LOSS, "incomplete: 2 are absent by their own numbers; ",
	     lost_number(recording), account->rx.no_buffer = account->rx.no_buffer_most = 2, source->dropped = 2,
	     account->rx.unknown = IBVCAP_UNKNOWN_EDGE);
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
	for (uint32_t bit = 1; bit; bit <<= 1) {
		struct made_recording recording = made_recording();
		char wanted[INSPECT_TEXT_BYTES];

		if (!ibvcap_unknown_text(bit))
			continue;
		recording.sources[0].account.rx.unknown = bit;
		snprintf(wanted, sizeof(wanted), "not proven: %s", ibvcap_unknown_text(bit));
		expect_exactly(&recording, wanted, "not proven");
		expect_verdict(&recording, wanted, FINDING_DOUBT, wanted);
	}
}

CHANGE(named_by_packet_only, source->packets[0].drops = 2, source->packets[0].comment = LOST_BY_CARD)
CHANGE(named_late, source->packets[3].drops = 2, source->packets[3].comment = LOST_BY_CARD,
       source->packets[3].later_ns = INSPECT_CARD_NS)
#define COUNTED_SINCE "2 packets lost\nlosses {\"no_buffer\":2,\"no_buffer_since_ns\":179533440101000000"
CHANGE(no_account, source->has_account = false)
CHANGE(extract, recording->closing = "extracted by ibvcap: 4 packets", source->has_statistics = false)
CHANGE(stray_number, source->comment = SEQUENCE, source->packets[3].number = 2000)

Test(inspect_verdict, what_is_not_proven_is_not_complete)
{
	CASE("the card lost some near an end", FINDING_DOUBT, "not proven: ", account->rx.no_buffer_most = 1);
	CASE("the same, in the account of another queue", FINDING_DOUBT, "not proven: ", of_queues(recording),
	     recording->sources[1].account.rx.no_buffer_most = 1);
	CASE("a loss of the card that only the first packet names", FINDING_NOTE,
	     "complete: no packet is missing; 2 that packets name were lost by the card before the file began",
	     named_by_packet_only(recording));
	CASE("the first packet comes late", FINDING_NOTE, "before the file began", named_by_packet_only(recording),
	     source->packets[0].later_ns = source->packets[1].later_ns = source->packets[2].later_ns =
	             source->packets[3].later_ns = 3 * INSPECT_CARD_NS);
	CASE("a packet names it within a second", FINDING_NOTE, "before the file began", named_late(recording),
	     source->packets[3].later_ns = INSPECT_CARD_NS - 3000000);
	CASE("a packet names it later", FINDING_DOUBT,
	     "not proven: packets name 2 losses of the card that its account does not have", named_late(recording));
	CASE("the same, and the daemon had not counted it within a second", FINDING_DOUBT,
	     "not proven: packets name 2 losses of the card that its account does not have", named_late(recording),
	     source->packets[3].comment = COUNTED_SINCE "1}");
	CASE("it may have been counted before", FINDING_NOTE, "before the file began", named_late(recording),
	     source->packets[3].comment = COUNTED_SINCE "0}");
	CASE("the packet and the account that name a loss are of two queues", FINDING_LOSS,
	     "incomplete: 2 packets are missing", of_queues(recording), no_buffer(recording),
	     recording->sources[1].packets[0].drops = 2, recording->sources[1].packets[0].comment = LOST_BY_CARD);
	CASE("two packets name more than the account", FINDING_LOSS,
	     "incomplete: 2 packets are missing; packets name 2 losses of the card that its account does not",
	     no_buffer(recording), source->packets[1].later_ns = 2 * INSPECT_CARD_NS,
	     source->packets[3].later_ns = 2 * INSPECT_CARD_NS, source->packets[1].drops = 2,
	     source->packets[1].comment = LOST_BY_CARD, source->packets[3].drops = 2,
	     source->packets[3].comment = LOST_BY_CARD);
	CASE("an account of a later version", FINDING_DOUBT, "not proven: its account cannot be read",
	     source->account_text = "{\"version\":2}");
	CASE("an account that is no JSON", FINDING_DOUBT, "not proven: its account cannot be read",
	     source->account_text = "{");
	CASE("another program", FINDING_DOUBT, "not proven: not written by ibvcap record",
	     recording->application = "Dumpcap");
	CASE("a program whose name begins like ours", FINDING_DOUBT, "not written by ibvcap",
	     recording->application = "ibvcapture 1");
	CASE("another program, open", FINDING_DOUBT, "not written by ibvcap", recording->application = "",
	     source->has_statistics = false);
	CASE("numbers of another program", FINDING_DOUBT, "not written by ibvcap", recording->application = "",
	     source->packets[1].id = 10);
	CASE("drops that another program names", FINDING_LOSS,
	     "incomplete: not written by ibvcap record, so nothing proves that no packet is missing; "
	     "4 packets are missing",
	     recording->application = "Dumpcap", source->has_account = false, source->dropped = 4);
	CASE("an extract", FINDING_DOUBT, "not proven: an extract: ", extract(recording));
	CASE("an extract that left packets out", FINDING_DOUBT, "not proven: an extract: ", extract(recording),
	     source->packets[2].id = 20);
	CASE("an extract with losses", FINDING_LOSS,
	     "incomplete: an extract: it names the losses between its packets, and nothing proves what was left "
	     "out; 3 packets are missing",
	     extract(recording), source->packets[2].drops = 3);
	CASE("a gap beyond jump", FINDING_DOUBT,
	     "not proven: the own numbers of the packets of lidar do not prove that none is missing: restarted 1",
	     source->comment = SEQUENCE, source->packets[2].number = 2000, source->packets[3].number = 2001);
	CASE("a stray number", FINDING_DOUBT, "none is missing: stray 1", stray_number(recording));
	CASE("a packet without a number", FINDING_DOUBT, "none is missing: unread 1", source->comment = SEQUENCE,
	     source->packets[3].number = UINT64_MAX);
	CASE("both", FINDING_DOUBT, "none is missing: unread 1, stray 1", stray_number(recording),
	     source->packets[2].number = UINT64_MAX);
	CASE("a description that no tracker takes", FINDING_NOTE, "complete: no packet is missing",
	     source->comment = "sequence {\"offsets_from\":\"payload\",\"bytes\":4,\"step\":1,\"window\":3}");
	CASE("a late number", FINDING_DOUBT, "none is missing: ", source->comment = SEQUENCE,
	     source->packets[0].number = 1000, source->packets[1].number = 1001, source->packets[2].number = 900,
	     source->packets[3].number = 1002);
}

/* ---- damage -------------------------------------------------------------------------------------- */

CHANGE(hole, source->packets[3].id = 14)
CHANGE(taken_out_and_statistics, source->n_packets = 3, source->delivered = 3)
CHANGE(queue_absent, account->n_queues = 2)
CHANGE(open_file, source->has_statistics = false)

Test(inspect_verdict, a_file_that_does_not_agree_with_itself_is_damaged)
{
	CASE("repeated", FINDING_DAMAGE, "does not agree with itself: lidar: numbers of packets come twice",
	     source->packets[1].id = 10);
	CASE("a hole", FINDING_DAMAGE, "lidar: numbers of packets are absent that no gap explains", hole(recording));
	CASE("a gap that is none", FINDING_DAMAGE, "are absent that no gap explains", skipped(recording),
	     source->packets[2].drops = 1);
	CASE("the last packet taken out", FINDING_DAMAGE, "its statistics name another number of packets than it has",
	     source->n_packets = 3);
	CASE("and the statistics changed", FINDING_DAMAGE, "its account names another number of packets than it has",
	     taken_out_and_statistics(recording));
	CASE("and the account", FINDING_DAMAGE, "the terms of its account do not add up",
	     taken_out_and_statistics(recording), account->sum.written = 3);
	CASE("a packet put in", FINDING_DAMAGE, "numbers of packets are outside the account",
	     source->packets[4] = source->packets[3], source->packets[4].id = 14, source->n_packets = 5,
	     source->delivered = 5, account->sum.written = 5);
	CASE("the first before the account", FINDING_DAMAGE, "numbers of packets are outside the account",
	     account->from.sequence = 11);
	CASE("the same, the span is right", FINDING_DAMAGE, "numbers of packets are outside the account",
	     account->from.sequence = 11, account->until.sequence = 15);
	CASE("the last behind the account", FINDING_DAMAGE, "numbers of packets are outside the account",
	     account->from.sequence = 9, account->until.sequence = 13);
	CASE("it ends before it begins", FINDING_DAMAGE, "outside the account", account->from.sequence = 15);
	CASE("one more in the span", FINDING_DAMAGE, "the terms of its account do not add up",
	     account->until.sequence = 15);
	CASE("one more in the terms", FINDING_DAMAGE, "the terms of its account do not add up",
	     account->sum.skipped = 1);
	CASE("more losses than at most", FINDING_DAMAGE, "the terms of its account do not add up",
	     account->rx.no_buffer = 7);
	CASE("drops of the interface without a doubt", FINDING_DAMAGE,
	     "its account says complete, and names what leaves losses unknown", account->rx.interface_lost = 7);
	CASE("the account of another stream", FINDING_DAMAGE, "its account is that of another queue",
	     strcpy(account->stream, "radar"));
	CASE("of another queue", FINDING_DAMAGE, "its account is that of another queue", of_queues(recording),
	     account->queue = 1);
	CASE("of one flow", FINDING_DAMAGE, "its account is not that of its flow", account->flow = 3);
	CASE("of all flows", FINDING_DAMAGE, "its account is not that of its flow",
	     source->description = "only flow 3");
	CASE("of a filter", FINDING_DAMAGE, "its account is not that of its filter", filtered(recording),
	     source->description = "only flow 3", account->flow = 3);
	CASE("fewer left out than numbers are absent", FINDING_DAMAGE,
	     "numbers of packets are absent that no gap explains", filtered(recording), account->sum.filtered--,
	     source->received--);
	CASE("a gap that the account has as packets that were left out", FINDING_DAMAGE,
	     "gaps between its packets name more packets than its account", filtered(recording),
	     source->packets[3].drops = 3);
	CASE("a gap that the account lacks", FINDING_DAMAGE, "the terms of its account do not add up", gap(recording),
	     account->sum.skipped = 0, account->sum.lag = 5, account->rx.no_buffer_least = 7);
	CASE("a gap that the account has as packets of other flows", FINDING_DAMAGE,
	     "gaps between its packets name more packets than its account", by_flow(recording),
	     source->packets[3].drops = 3);
	CASE("a restart that the account lacks", FINDING_DAMAGE,
	     "a packet comes after a restart of ibvcapd that its account does not name",
	     source->packets[2].comment = RESTARTED, source->packets[2].id = 0, source->packets[3].id = 1,
	     account->from.epoch = 0, account->until.epoch = 0, account->rx.no_buffer_least = 1);
	CASE("complete, and restarts", FINDING_DAMAGE, "its account says complete, and", account->rx.restarts = 1);
	CASE("complete, and failures", FINDING_DAMAGE, "its account says complete, and", account->rx.failures = 1);
	CASE("complete, and outages", FINDING_DAMAGE, "its account says complete, and", account->rx.outages = 1);
	CASE("complete, and abandoned", FINDING_DAMAGE, "its account says complete, and", account->rx.abandoned = 1);
	CASE("complete over epochs", FINDING_DAMAGE, "its account says complete, and", account->until.epoch = 8);
	CASE("complete while the daemon was away", FINDING_DAMAGE, "says complete, and",
	     account->from.epoch = account->until.epoch = 0);
	CASE("an account of another recording", FINDING_DAMAGE, "lidar/1: its account is of another file",
	     of_queues(recording), recording->sources[1].account.recording = 5);
	CASE("an account of another file", FINDING_DAMAGE, "lidar/1: its account is of another file",
	     of_queues(recording), recording->sources[1].account.file = 5);
	CASE("no account in one of two", FINDING_DAMAGE, "radar: it has an account, or none", of_streams(recording),
	     recording->sources[1].has_account = false);
	CASE("no account in the first of two", FINDING_DAMAGE, "radar: it has an account, or none",
	     of_streams(recording), source->has_account = false);
	CASE("a queue is absent", FINDING_DAMAGE, "its account names more queues than the file has",
	     queue_absent(recording));
	CASE("a queue is absent before another stream", FINDING_DAMAGE,
	     "lidar: its account names more queues than the file has", of_streams(recording), queue_absent(recording));
	CASE("a queue of the second stream is absent", FINDING_DAMAGE,
	     "radar: its account names more queues than the file has", of_streams(recording),
	     recording->sources[1].account.n_queues = 2);
	CASE("no statistics", FINDING_DAMAGE, "not closed: ", open_file(recording));
	CASE("no statistics of one of two", FINDING_DAMAGE, "not closed: ", of_queues(recording),
	     recording->sources[1].has_statistics = false);
	CASE("no closing section", FINDING_DAMAGE, "not closed: ", recording->closing = NULL);
	CASE("something behind the closing section", FINDING_DAMAGE,
	     "not closed: ", recording->has_packet_behind = true);
}

Test(inspect_verdict, losses_of_a_damaged_file_are_told_too)
{
	struct made_recording recording = made_recording();
	char text[VERDICT_TEXT_BYTES];

	open_file(&recording);
	recording.sources[0].packets[0].drops = 3;
	read_made(&recording, text);
	cr_expect_eq(file.verdict.worst, FINDING_DAMAGE);
	cr_expect(strstr(text, "; 3 packets are missing") != NULL, "%s", text);
	cr_expect_str_eq(verdict_word(&file.verdict), "incomplete");
	inspect_file_deinit(&file);
}

/* ---- restarts ------------------------------------------------------------------------------------ */

/* Packets 10 and 11 of one run, 0 and 1 of the next. */
CHANGE(restart, source->packets[2].comment = RESTARTED, source->packets[2].id = 0, source->packets[3].id = 1,
       account->until.epoch = 8, account->until.sequence = 2, account->rx.restarts = 1,
       account->rx.unknown = IBVCAP_UNKNOWN_RESTART)
CHANGE(restart_before, source->packets[0].comment = RESTARTED)

Test(inspect_verdict, numbers_of_several_runs_must_be_within_the_ends)
{
	CASE("one restart", FINDING_DOUBT, "not proven: ", restart(recording));
	CASE("before the first packet", FINDING_DOUBT, "not proven: ", source->packets[0].comment = RESTARTED,
	     account->from.sequence = 1000, account->until.epoch = 8, account->rx.restarts = 1,
	     account->rx.unknown = IBVCAP_UNKNOWN_RESTART);
	CASE("one more behind the last packet", FINDING_DOUBT, "not proven: ", restart(recording),
	     account->rx.restarts = 2, account->until.sequence = 1);
	CASE("the first before the account", FINDING_DAMAGE, "outside the account", restart(recording),
	     account->from.sequence = 11);
	CASE("the last behind the account", FINDING_DAMAGE, "outside the account", restart(recording),
	     account->until.sequence = 1);
	CASE("before the file", FINDING_NOTE, "complete: no packet is missing", restart_before(recording));
	CASE("before the file, and in it", FINDING_DOUBT, "not proven: ", restart(recording),
	     source->packets[0].comment = RESTARTED);
	CASE("before the file, and the first before the account", FINDING_DAMAGE, "outside the account",
	     restart_before(recording), account->from.sequence = 11);
	CASE("before the file, and the last behind the account", FINDING_DAMAGE, "outside the account",
	     restart_before(recording), account->until.sequence = 13);
	CASE("before the file, with losses of the run before", FINDING_LOSS, "incomplete: 5 packets are missing",
	     restart_before(recording), account->sum.skipped = 5, source->packets[0].drops = 5);
	CASE("away at the end", FINDING_DOUBT, "not proven: ", account->until.epoch = 0, account->until.sequence = 0,
	     account->rx.unknown = IBVCAP_UNKNOWN_AWAY);
	CASE("away at the begin", FINDING_DOUBT, "not proven: ", account->from.epoch = 0, account->from.sequence = 99,
	     account->rx.unknown = IBVCAP_UNKNOWN_AWAY);
	CASE("queues that were not read", FINDING_DOUBT, "not proven: ", account->n_queues = 2,
	     account->rx.unknown = IBVCAP_UNKNOWN_QUEUES);
}

/* ---- files without an account -------------------------------------------------------------------- */

Test(inspect_verdict, a_file_without_an_account_proves_nothing_but_losses)
{
	CASE("nothing", FINDING_DOUBT, "not proven: it has no account, so nothing proves that no packet is missing",
	     no_account(recording));
	CASE("a restart before a packet", FINDING_DOUBT, "; it has no account, ", no_account(recording),
	     source->packets[0].comment = RESTARTED);
	CASE("drops in the statistics", FINDING_LOSS, "incomplete: 5 packets are missing; it has no account, ",
	     no_account(recording), source->dropped = 2, source->os_dropped = 3);
	CASE("a gap", FINDING_LOSS, "incomplete: 7 packets are missing; it has no account, ", no_account(recording),
	     gap(recording));
	CASE("a hole", FINDING_DAMAGE, "absent that no gap explains", no_account(recording), hole(recording));
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
	expect_bytes(pcap, sizeof(pcap), FINDING_DOUBT, "not proven: not written by ibvcap record");
	for (unsigned i = 0; i < 3; i++)
		expect_bytes(other_pcaps[i], sizeof(pcap), FINDING_DOUBT, "not proven: not written by ibvcap record");
	expect_bytes(packed, n, FINDING_DOUBT, "not proven: not written by ibvcap record");
	n = ZSTD_compress(packed, sizeof(packed), "", 0, 1);
	expect_bytes(packed, n, FINDING_DOUBT, "not proven: there is nothing in the file");
	expect_bytes("host\n", 5, FINDING_DAMAGE, "not a capture in pcap or pcapng format");
	expect_bytes("no recording", 12, FINDING_DAMAGE, "not a capture in pcap or pcapng format");
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
