// SPDX-License-Identifier: Apache-2.0
/* Accounts of sources from moments and sums, and the blocks and sentences that a file says of itself. */
#include "lib/ibvcap/rx/rx.h"
#include "lib/recording/recording.h"
#include "lib/recording/verdict.h"
#include "tools/record/record_file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct account_parts parts[3];
static struct source sources[3];
static struct recording_account accounts[3];

/* A queue that was read from packet 100 on, until packet 200; nothing was lost. */
static void make_source(unsigned i, uint32_t queue, uint32_t n_queues, const char *stream)
{
	struct ibvcap_rx_moment from = IBVCAP_INIT(struct ibvcap_rx_moment);

	from.epoch = 7;
	from.n_queues = n_queues;
	from.queues = 1u << queue;
	from.is_settled = 1;
	from.utc_ns = 1000;
	from.monotonic_ns = 1000;
	from.sequence = 100;
	sources[i] = (struct source){.queue = queue, .n_queues = n_queues};
	strcpy(sources[i].stream, stream);
	source_print_name(sources[i].name, stream, queue, n_queues);
	parts[i] = (struct account_parts){.from = from, .until = from};
	parts[i].until.utc_ns = 2000;
	parts[i].until.monotonic_ns = 2000;
	parts[i].until.sequence = 200;
	parts[i].until.delivered = 100;
	parts[i].start = (struct recording_sum){.written = 5, .errored = 1};
	parts[i].end = (struct recording_sum){.written = 105, .errored = 1};
}

/* The card lost so many packets of the stream, certainly between the moments. */
static void lose(unsigned i, uint64_t n)
{
	parts[i].until.before.least = parts[i].until.after.least = parts[i].until.after.most = n;
	parts[i].until.before.marks = parts[i].until.after.marks = n;
}

Test(record_account, an_account_is_the_difference_of_two_sums)
{
	make_source(0, 0, 1, "s");
	parts[0].start = (struct recording_sum){1, 2, 9, 3, 4, 5, 6, 7, 1, 0};
	parts[0].end = (struct recording_sum){11, 22, 99, 33, 44, 55, 66, 77, 3, 0};
	parts[0].unwritten = (struct row_counts){3, 1, 0};
	account_of_sources(parts, sources, 1, accounts);
	cr_expect_eq(accounts[0].sum.written, 7);
	cr_expect_eq(accounts[0].sum.other_files, 20);
	cr_expect_eq(accounts[0].sum.filtered, 90);
	cr_expect_eq(accounts[0].sum.unwritten, 33);
	cr_expect_eq(accounts[0].sum.errored, 40);
	cr_expect_eq(accounts[0].sum.skipped, 50);
	cr_expect_eq(accounts[0].sum.disk_wait, 60);
	cr_expect_eq(accounts[0].sum.lag, 70);
	cr_expect_eq(accounts[0].sum.pieces, 1, "of those that could be written");
	cr_expect(accounts[0].from.utc_ns == 1000 && accounts[0].from.epoch == 7 && accounts[0].from.sequence == 100);
	cr_expect(accounts[0].until.utc_ns == 2000 && accounts[0].until.sequence == 200);
	cr_expect_eq(accounts[0].flow, RECORDING_ACCOUNT_NO_FLOW);
	cr_expect_str_eq(accounts[0].stream, "s");
	cr_expect_eq(recording_account_verdict(&accounts[0]), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(record_sum_published(&accounts[0].sum), 7 + 20 + 90 + 33 + 40 + 50 + 60 + 70);
}

Test(record_account, losses_of_a_stream_are_those_of_its_first_queue)
{
	make_source(0, 0, 2, "s");
	make_source(1, 1, 2, "s");
	make_source(2, 0, 1, "t");
	lose(0, 9);
	lose(1, 9);
	lose(2, 4);
	account_of_sources(parts, sources, 3, accounts);
	cr_expect(accounts[0].rx.no_buffer == 9 && accounts[0].rx.no_buffer_least == 9 &&
	          accounts[0].rx.no_buffer_most == 9);
	cr_expect(accounts[1].rx.no_buffer == 0 && accounts[1].rx.no_buffer_least == 0 &&
	          accounts[1].rx.no_buffer_most == 0);
	cr_expect(accounts[2].rx.no_buffer == 4 && accounts[2].rx.no_buffer_least == 4);
	cr_expect_eq(accounts[0].rx.unknown | accounts[1].rx.unknown | accounts[2].rx.unknown, 0);
	cr_expect_eq(recording_account_verdict(&accounts[0]), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(recording_account_verdict(&accounts[1]), IBVCAP_VERDICT_COMPLETE);
	cr_expect_eq(accounts[1].queue, 1);
	cr_expect_eq(accounts[1].n_queues, 2);
}

Test(record_account, an_edge_is_the_streams)
{
	make_source(0, 0, 2, "s");
	make_source(1, 1, 2, "s");
	lose(0, 9);
	lose(1, 9);
	parts[0].until.before = parts[1].until.before = (struct ibvcap_settled_losses){0};
	account_of_sources(parts, sources, 2, accounts);
	cr_expect_eq(accounts[0].rx.unknown, IBVCAP_UNKNOWN_EDGE);
	cr_expect_eq(accounts[1].rx.unknown, 0);
	cr_expect(accounts[0].rx.no_buffer_least == 0 && accounts[0].rx.no_buffer_most == 9);
	cr_expect_eq(recording_account_verdict(&accounts[0]), IBVCAP_VERDICT_NOT_PROVEN);
}

Test(record_account, that_no_packet_came_is_the_streams)
{
	make_source(0, 0, 2, "s");
	make_source(1, 1, 2, "s");
	parts[1].until.delivered = 0;
	account_of_sources(parts, sources, 2, accounts);
	cr_expect_eq(accounts[0].rx.unknown | accounts[1].rx.unknown, 0, "a queue may be empty while others are not");
	parts[0].until.delivered = 0;
	account_of_sources(parts, sources, 2, accounts);
	cr_expect_eq(accounts[0].rx.unknown, IBVCAP_UNKNOWN_NO_PACKETS);
	cr_expect_eq(accounts[1].rx.unknown, 0);
}

Test(record_account, what_blocks_tell_of_the_past_is_counted_as_far_as_it_can_be)
{
	make_source(0, 0, 1, "s");
	parts[0].is_first = true;
	parts[0].named_no_buffer = 5;
	account_of_sources(parts, sources, 1, accounts);
	cr_expect_eq(accounts[0].rx.no_buffer, 0, "none was lost since");
	lose(0, 9);
	parts[0].from.after.most = 9;
	parts[0].from.after.least = 9;
	parts[0].from.after.marks = 9;
	account_of_sources(parts, sources, 1, accounts);
	cr_expect(accounts[0].rx.no_buffer == 5 && accounts[0].rx.no_buffer_most == 9);
	parts[0].named_no_buffer = 50;
	account_of_sources(parts, sources, 1, accounts);
	cr_expect_eq(accounts[0].rx.no_buffer, 9);
	parts[0].is_first = false;
	account_of_sources(parts, sources, 1, accounts);
	cr_expect_eq(accounts[0].rx.no_buffer, 0);
}

Test(record_account, other_queues_and_other_reasons_are_not_known)
{
	make_source(0, 0, 1, "s");
	parts[0].unknown = IBVCAP_UNKNOWN_REMOVED;
	account_of_sources(parts, sources, 1, accounts);
	cr_expect_eq(accounts[0].rx.unknown, IBVCAP_UNKNOWN_REMOVED);
	make_source(0, 0, 1, "s");
	parts[0].until.n_queues = 2;
	account_of_sources(parts, sources, 1, accounts);
	cr_expect(accounts[0].rx.unknown & IBVCAP_UNKNOWN_QUEUES);
	make_source(0, 0, 1, "s");
	parts[0].from.n_queues = 2;
	account_of_sources(parts, sources, 1, accounts);
	cr_expect(accounts[0].rx.unknown & IBVCAP_UNKNOWN_QUEUES);
	make_source(0, 0, 1, "s");
	parts[0].from.size = 0;
	account_of_sources(parts, sources, 1, accounts);
	cr_expect(accounts[0].rx.unknown & IBVCAP_UNKNOWN_UNSETTLED, "no moment: nothing is known");
	cr_expect_eq(accounts[0].rx.no_buffer_most, UINT64_MAX);
	cr_expect_eq(recording_account_verdict(&accounts[0]), IBVCAP_VERDICT_NOT_PROVEN);
}

Test(record_account, counts_between_the_moments_are_in_the_account)
{
	make_source(0, 0, 1, "s");
	parts[0].from.abandoned = 1;
	parts[0].until.abandoned = 4;
	parts[0].until.failures = 5;
	parts[0].until.epochs = 6;
	parts[0].until.after.outages = 8;
	parts[0].until.outage_from_ns = 77;
	parts[0].until.outage_until_ns = 88;
	account_of_sources(parts, sources, 1, accounts);
	cr_expect_eq(accounts[0].rx.abandoned, 3);
	cr_expect_eq(accounts[0].rx.failures, 5);
	cr_expect_eq(accounts[0].rx.restarts, 6);
	cr_expect_eq(accounts[0].rx.outages, 4);
	cr_expect(accounts[0].rx.outage_from_ns == 77 && accounts[0].rx.outage_until_ns == 88);
	cr_expect_eq(accounts[0].rx.unknown & (IBVCAP_UNKNOWN_ABANDONED | IBVCAP_UNKNOWN_FAILED |
	                                       IBVCAP_UNKNOWN_RESTART | IBVCAP_UNKNOWN_OUTAGE),
	             IBVCAP_UNKNOWN_ABANDONED | IBVCAP_UNKNOWN_FAILED | IBVCAP_UNKNOWN_RESTART | IBVCAP_UNKNOWN_OUTAGE);
}

/* ---- verdicts ------------------------------------------------------------------------------------ */

static const char *filter;

static void expect_verdict(enum ibvcap_verdict verdict, const char *text)
{
	char printed[VERDICT_TEXT_BYTES];
	struct verdict of_all = {0};

	for (unsigned i = 0; i < 3; i++)
		accounts[i].rx.interface_counts_all = true;
	verdict_find_accounts(&of_all, accounts, 3, filter);
	cr_expect_eq(verdict_result(&of_all), verdict);
	verdict_print_sentences(printed, sizeof(printed), &of_all);
	cr_expect_str_eq(printed, text);
}

Test(record_account, the_verdict_of_all_is_the_worst)
{
	expect_verdict(IBVCAP_VERDICT_COMPLETE, "Complete: no packet is missing.");
	accounts[1].rx.unknown = IBVCAP_UNKNOWN_REMOVED;
	expect_verdict(IBVCAP_VERDICT_NOT_PROVEN,
	               "Not proven: no packet is known to be missing, but maybe some are. The stream was removed from "
	               "the configuration.");
	accounts[0].rx.unknown = IBVCAP_UNKNOWN_QUEUES;
	accounts[2].sum.skipped = 3;
	accounts[2].rx.no_buffer = 5;
	accounts[2].rx.no_buffer_least = 2;
	cr_expect_eq(recording_accounts_unknown(accounts, 3), IBVCAP_UNKNOWN_QUEUES | IBVCAP_UNKNOWN_REMOVED);
	expect_verdict(
		IBVCAP_VERDICT_INCOMPLETE,
		"Incomplete: 8 packets are missing, and maybe more. The queues that were read were not all of the "
		"stream, or not the same all the time (a member of a group gets them after its begin), or packets of a "
		"queue came too late. The stream was removed from the configuration.");
	accounts[0].rx.unknown = accounts[1].rx.unknown = 0;
	expect_verdict(IBVCAP_VERDICT_INCOMPLETE, "Incomplete: 8 packets are missing.");
	filter = "udp";
	expect_verdict(IBVCAP_VERDICT_INCOMPLETE,
	               "Incomplete: 8 packets are missing; maybe some of them match the filter.");
}

Test(record_account, with_a_filter_the_packets_that_match_are_complete)
{
	char of[600];
	static char longest[9000];
	struct verdict verdict = {0};

	filter = "src host 10.0.0.5";
	accounts[0].sum.filtered = 3;
	accounts[2].sum.filtered = 4;
	expect_verdict(IBVCAP_VERDICT_COMPLETE,
	               "Complete: every packet that matches 'src host 10.0.0.5', 7 others left out.");
	memset(longest, 'x', sizeof(longest) - 1);
	verdict_find_accounts(&verdict, accounts, 3, longest);
	verdict_print_sentences(of, sizeof(of), &verdict);
	cr_expect(strstr(of, "', 7 others left out.") != NULL, "a long filter is cut, and the count is not: %s", of);
}

Test(record_account, each_recording_has_another_number)
{
	cr_expect_neq(account_random(), account_random());
}

Test(record_account, a_sum_is_printed_term_by_term)
{
	struct recording_account account = {.sum = {1, 0, 0, 3, 4, 5, 6, 7}, .rx = {.no_buffer = 8, .restarts = 9}};
	char text[400];

	record_print_sum(text, sizeof(text), &account);
	cr_expect_str_eq(text, "published 26 = written 1 + unwritten 3 + errored 4 + skipped 5 + disk_wait 6 + lag 7; "
	                       "not published: no_buffer 8; restarts 9");
	account.sum.other_files = 2;
	record_sum_add(&account.sum, &account.sum);
	record_print_sum(text, sizeof(text), &account);
	cr_expect_str_eq(text, "published 56 = written 2 + other_files 4 + unwritten 6 + errored 8 + skipped 10 + "
	                       "disk_wait 12 + lag 14; not published: no_buffer 8; restarts 9");
	account.sum.filtered = 11;
	account.rx.unjoined = 3;
	record_print_sum(text, sizeof(text), &account);
	cr_expect(strstr(text, " + other_files 4 + filtered 11 + unwritten 6") != NULL, "%s", text);
	cr_expect(strstr(text, "no_buffer 8, unjoined 3 of these; restarts 9") != NULL, "%s", text);
}

/* ---- blocks -------------------------------------------------------------------------------------- */

static char path[] = "record_account.XXXXXX";
static struct recording recording;
static struct pcapng_block block;

static void open_blocks(const uint8_t *at, size_t n)
{
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, at, n), (ssize_t)n);
	close(fd);
	cr_assert_eq(recording_open(&recording, path), 0);
	unlink(path);
}

static void expect_text(const struct pcapng_text *text, const char *wanted)
{
	cr_expect(text->bytes == strlen(wanted) && !memcmp(text->at, wanted, text->bytes), "'%.*s' is not '%s'",
	          (int)text->bytes, text->at ? text->at : "", wanted);
}

Test(record_account, the_head_says_what_is_recorded)
{
	static uint8_t blocks[8192];
	size_t n;

	make_source(0, 0, 1, "s");
	make_source(1, 0, 1, "t");
	strcpy(sources[0].interface, "interface x");
	strcpy(sources[0].device, "mlx5_0");
	strcpy(sources[0].flows, "port 5");
	strcpy(sources[0].clock, "clock c");
	sources[0].sequence = json_pack("{s:i}", "offset", 4);
	n = contents_write_head(blocks, sizeof(blocks), "because", sources, 2, 3);
	open_blocks(blocks, n);
	cr_assert_eq(recording_next(&recording, &block), 1);
	expect_text(&block.section.application, "ibvcap " IBVCAP_BUILD_VERSION);
	expect_text(&block.section.comment, "because");
	cr_expect(block.section.os.bytes > 6 && !memcmp(block.section.os.at, "Linux ", 6));
	cr_expect_gt(block.section.hardware.bytes, 0);
	cr_assert_eq(recording_next(&recording, &block), 1);
	expect_text(&block.interface.name, "s");
	expect_text(&block.interface.description, "interface x, only flow 3");
	expect_text(&block.interface.hardware, "mlx5_0");
	expect_text(&block.interface.filter, "port 5");
	expect_text(&block.interface.comment, "clock c; sequence {\"offset\":4}");
	cr_assert_eq(recording_next(&recording, &block), 1);
	expect_text(&block.interface.name, "t");
	expect_text(&block.interface.description, "only flow 3");
	cr_expect_not(block.interface.hardware.at || block.interface.filter.at || block.interface.comment.at);
	cr_expect_eq(recording_next(&recording, &block), 0);
	recording_close(&recording);
	json_decref(sources[0].sequence);
}

Test(record_account, the_head_has_the_filter_and_the_flows)
{
	static uint8_t blocks[8192];

	make_source(0, 0, 1, "s");
	strcpy(sources[0].interface, "interface x");
	strcpy(sources[0].flows, "10.0.0.1 port 5");
	sources[0].filter = "src host 10.0.0.5";
	open_blocks(blocks, contents_write_head(blocks, sizeof(blocks), NULL, sources, 1, 3));
	cr_assert_eq(recording_next(&recording, &block), 1);
	cr_assert_eq(recording_next(&recording, &block), 1);
	expect_text(&block.interface.description, "interface x, only flow 3, filtered, of the flows: 10.0.0.1 port 5");
	expect_text(&block.interface.filter, "src host 10.0.0.5");
	recording_close(&recording);
}

Test(record_account, the_end_says_what_became_of_all_packets)
{
	static const uint64_t values[PCAPNG_STATISTIC_N] = {36 + 9, 9 + 4, 36 + 9 - 2, 5 + 6 + 3, 1};
	static uint8_t blocks[65536];
	const struct record_end end = {.accounts = accounts,
	                               .sources = sources,
	                               .n_sources = 2,
	                               .start_ns = 1000000,
	                               .end_ns = 2000000,
	                               .error = 28,
	                               .note = "a note"};
	size_t n;

	make_source(0, 0, 1, "s");
	make_source(1, 0, 1, "t");
	account_of_sources(parts, sources, 2, accounts);
	accounts[0] = (struct recording_account){.flow = -1,
	                                         .stream = "s",
	                                         .n_queues = 1,
	                                         .sum.written = 1,
	                                         .sum.other_files = 2,
	                                         .sum.unwritten = 3,
	                                         .sum.errored = 4,
	                                         .sum.skipped = 5,
	                                         .sum.disk_wait = 6,
	                                         .sum.lag = 15,
	                                         .rx.no_buffer = 9,
	                                         .rx.no_buffer_least = 9,
	                                         .rx.no_buffer_most = 9};
	n = contents_write_head(blocks, sizeof(blocks), NULL, sources, 2, RECORDING_ACCOUNT_NO_FLOW);
	open_blocks(blocks, n + contents_write_end(blocks + n, sizeof(blocks) - n, &end));
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(recording_next(&recording, &block), 1);
	cr_expect_eq(block.type, PCAPNG_BLOCK_STATISTICS);
	cr_expect(block.statistics.interface == 0 && block.statistics.start_ns == 1000000);
	cr_expect(block.statistics.end_ns == 2000000 && block.statistics.time_ns == 2000000);
	cr_expect_eq(block.statistics.values_set, 0x1f);
	for (unsigned i = 0; i < PCAPNG_STATISTIC_N; i++)
		cr_expect_eq(block.statistics.values[i], values[i], "%u", i);
	cr_assert_eq(recording_next(&recording, &block), 1);
	cr_expect_eq(block.statistics.interface, 1);
	cr_assert_eq(recording_next(&recording, &block), 1);
	expect_text(&block.section.comment,
	            "the recording ended because the file could not be written: No space left on device. Incomplete: "
	            "27 packets are missing.\ns: published 36 = written 1 + other_files 2 + unwritten 3 + errored 4 + "
	            "skipped 5 + disk_wait 6 + lag 15; not published: no_buffer 9; restarts 0\nt: "
	            "published 100 = written "
	            "100 + unwritten 0 + errored 0 + skipped 0 + disk_wait 0 + lag 0; not published: "
	            "no_buffer 0; "
	            "restarts 0\nAfter the last packet: a note");
	cr_expect_eq(recording_next(&recording, &block), 0);
	recording_close(&recording);
}
