// SPDX-License-Identifier: Apache-2.0
/* Where a recorder's files end, what each of them shows, and when packets reach the disk. */
#include "lib/base/time.h"
#include "tests/unit/tools/recorded.h"
#include "tools/record/account.h"
#include "tools/common/stop_signal.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define T RECORDED_BASE_NS

TestSuite(recorder_files, .fini = recorded_clean_up, .timeout = 30);

static struct record_options *options(void)
{
	return &recorder.options;
}

/* The files have these packets, follow one another, and are complete. */
static void expect_files(unsigned n, const char *const *packets)
{
	cr_assert_eq(n_files, n, "%u", n_files);
	for (unsigned i = 0; i < n; i++) {
		const struct recording_account *account = &files[i].accounts[0];

		cr_expect_str_eq(files[i].packets, packets[i]);
		cr_expect_eq(recording_account_verdict(account), IBVCAP_VERDICT_COMPLETE, "%u: unknown %x", i,
		             account->rx.unknown);
		cr_expect_eq(account->file, i);
		cr_expect_eq(account->is_last, i + 1 == n);
		cr_expect_eq(account->recording, files[0].accounts[0].recording);
		if (i)
			cr_expect_eq(memcmp(&account->from, &files[i - 1].accounts[0].until, sizeof(account->from)), 0);
	}
	cr_expect_eq(recorder.writer.n_files, n);
}

Test(recorder_files, a_file_ends_after_so_many_packets)
{
	static const char *const packets[] = {"0:0 0:1 0:2", "0:3 0:4 0:5", "0:6"};

	recorded_prepare(1, false);
	options()->file_packets = 3;
	options()->count = 7;
	recorded_publish(0, 7, T, TIME_SECOND_NS);
	cr_expect_eq(recorded_run(NULL), 0);
	expect_files(3, packets);
	cr_expect_str_eq(files[1].name, "_00002_20261122080003.pcapng", "the time of its first packet");
	cr_expect_str_eq(files[2].name, "_00003_20261122080006.pcapng");
	cr_expect_eq(files[1].accounts[0].from.sequence, 3);
	cr_expect_eq(files[1].accounts[0].sum.written, 3);
	cr_expect_eq(files[2].accounts[0].sum.written, 1);
	cr_expect_eq(recorder.accounts[0].sum.written, 7);
	cr_expect_eq(recorder.accounts[0].file, 0);
}

Test(recorder_files, a_file_ends_before_it_is_too_long)
{
	struct stat status;
	char path[200];

	recorded_prepare(1, false);
	options()->file_bytes = 1160;
	options()->count = 20;
	recorded_publish(0, 20, T, 1);
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 5);
	for (unsigned i = 0; i < n_files; i++)
		cr_expect_eq(files[i].accounts[0].sum.written, 4);
	snprintf(path, sizeof(path), "%s/a%s", recorded_folder, files[0].name);
	cr_assert_eq(stat(path, &status), 0);
	cr_expect_gt(status.st_size, 1160, "with the blocks at its end");
}

Test(recorder_files, a_file_of_one_packet_may_be_too_long)
{
	static const char *const packets[] = {"0:0", "0:1"};

	recorded_prepare(1, false);
	options()->file_bytes = 10;
	options()->count = 2;
	recorded_publish(0, 2, T, 1);
	cr_expect_eq(recorded_run(NULL), 0);
	expect_files(2, packets);
}

static uint64_t now_ns;

static void publish_around_a_full_hour(unsigned call)
{
	if (call == 0)
		recorded_publish(0, 4, now_ns - now_ns % (3600 * TIME_SECOND_NS) + 3599 * TIME_SECOND_NS,
		                 TIME_SECOND_NS / 2);
}

Test(recorder_files, aligned_files_end_at_multiples_of_their_time)
{
	static const char *const packets[] = {"0:0 0:1", "0:2 0:3"};

	recorded_prepare(1, false);
	/* The clock is in the middle of an hour. */
	now_ns = time_utc_ns();
	recorded_pass_ns((UINT64_C(5400) * TIME_SECOND_NS - now_ns % (3600 * TIME_SECOND_NS)));
	now_ns = time_utc_ns();
	options()->file_ns = 3600 * TIME_SECOND_NS;
	options()->aligned = true;
	options()->count = 4;
	recorded_script = publish_around_a_full_hour;
	cr_expect_eq(recorded_run(NULL), 0);
	expect_files(2, packets);
}

static void publish_around_an_hour_later(unsigned call)
{
	if (call == 0)
		recorded_publish(0, 4, time_utc_ns() + 3598 * TIME_SECOND_NS, TIME_SECOND_NS);
}

Test(recorder_files, files_that_are_not_aligned_last_for_their_time)
{
	static const char *const packets[] = {"0:0 0:1", "0:2 0:3"};

	recorded_prepare(1, false);
	options()->file_ns = 3600 * TIME_SECOND_NS;
	options()->count = 4;
	recorded_script = publish_around_an_hour_later;
	cr_expect_eq(recorded_run(NULL), 0);
	expect_files(2, packets);
}

static void a_packet_and_much_time(unsigned call)
{
	if (call == 0)
		recorded_publish(0, 1, time_utc_ns(), 0);
	if (call == 2)
		recorded_pass_ns(TIME_SECOND_NS);
	if (call == 4)
		cr_expect_eq(SLIST_FIRST(&recorder.outputs)->file->number, 0, "a packet may come late");
	if (call == 5)
		recorded_pass_ns(TIME_SECOND_NS / 10);
	if (call == 7) {
		cr_expect_eq(SLIST_FIRST(&recorder.outputs)->file->number, 1);
		recorded_pass_ns(5 * TIME_SECOND_NS);
	}
	if (call == 10)
		recorded_stop();
}

Test(recorder_files, a_file_ends_by_the_clock_and_one_without_packets_goes_on)
{
	static const char *const packets[] = {"0:0", ""};

	recorded_prepare(1, false);
	options()->file_ns = TIME_SECOND_NS + TIME_SECOND_NS / 10;
	recorded_script = a_packet_and_much_time;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 2);
	cr_expect_str_eq(files[0].packets, packets[0]);
	cr_expect_str_eq(files[1].packets, packets[1]);
}

static void signal_twice(unsigned call)
{
	if (call == 2 || call == 6)
		cr_assert_eq(raise(SIGUSR1), 0);
	if (call == 4)
		recorded_publish(0, 2, T, 1);
	if (call == 10)
		recorded_stop();
}

Test(recorder_files, a_signal_begins_a_new_file_also_without_packets)
{
	recorded_prepare(1, false);
	rotate_signal_catch();
	recorded_script = signal_twice;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 3);
	cr_expect_str_eq(files[0].name, ".pcapng", "the first file has the name as it is");
	cr_expect_str_eq(files[0].packets, "");
	cr_expect_str_eq(files[1].packets, "0:0 0:1");
	cr_expect_eq(strncmp(files[1].name, "_00002_", 7), 0, "%s", files[1].name);
	cr_expect_str_eq(files[2].packets, "");
}

/* ---- rows from before the beginning ---------------------------------------------------------------- */

static bool comes_late;

/* Of two queues, the worker of the second stands still, and the ring of the first gets full. */
static void publish_old_rows(unsigned call)
{
	if (call == 0)
		recorded_publish(0, 185, T + 10, 1);
	if (call == 4 && comes_late)
		recorded_pass_ns(2 * TIME_SECOND_NS);
	if (call == 8) {
		recorded_publish(1, 2, T, 1);
		recorded_publish(1, 1, T + 300, 1);
		recorded_sleep = recorded_settle_all;
		recorded_settle_all();
	}
	if (call == 16)
		recorded_stop();
}

static void record_old_rows(void)
{
	recorded_prepare(2, true);
	options()->file_packets = 100;
	cr_assert_eq(rx_queue_begin_at(rings[1].rx->parts[0], T + 5), 0);
	recorded_sleep = NULL;
	recorded_script = publish_old_rows;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 2);
	cr_expect_eq(files[0].accounts[1].sum.written, 0);
	cr_expect_eq(files[1].accounts[1].sum.written, 1);
	cr_expect_eq(files[1].accounts[1].from.sequence, 2, "%lu", files[1].accounts[1].from.sequence);
	cr_expect_eq(files[1].accounts[1].until.sequence, 3);
}

Test(recorder_files, rows_from_before_the_beginning_are_in_no_account)
{
	record_old_rows();
	cr_expect_eq(files[0].accounts[1].from.sequence, 2);
	cr_expect_eq(files[0].accounts[1].until.sequence, 2, "%lu", files[0].accounts[1].until.sequence);
}

Test(recorder_files, rows_from_before_the_beginning_that_come_behind_the_first_file_are_in_no_account)
{
	comes_late = true;
	record_old_rows();
	cr_expect_eq(files[0].accounts[1].from.sequence, 0);
	cr_expect_eq(files[0].accounts[1].until.sequence, 0);
	cr_expect(files[0].accounts[0].rx.unknown & IBVCAP_UNKNOWN_UNSETTLED);
}

static void publish_and_stop(unsigned call)
{
	if (call == 0)
		recorded_publish(1, 3, T + 2000, 1);
	if (call == 8)
		recorded_stop();
}

Test(recorder_files, rows_that_were_overwritten_as_the_recording_began_are_skipped_in_it)
{
	const struct recording_account *account = &files[0].accounts[1];

	recorded_prepare(2, true);
	recorded_publish(1, 1000, T, 1);
	cr_assert_eq(rx_queue_begin_at(rings[1].rx->parts[0], T), 0);
	source_take_moment(&recorder.sources[1], &recorder.sources[1].from);
	recorded_script = publish_and_stop;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 1);
	cr_expect_gt(account->sum.skipped, 0);
	cr_expect_eq(account->from.sequence, 0, "%lu", account->from.sequence);
	cr_expect_eq(account->until.sequence, account->sum.written + account->sum.skipped);
	cr_expect_eq(recorder.accounts[1].from.sequence, 0);
}

/* ---- by flow ------------------------------------------------------------------------------------- */

static unsigned n_errors_of_second;

static void publish_flows(unsigned call)
{
	if (call == 0) {
		recorded_publish_kind(1, n_errors_of_second, T, 0, IBVCAP_PACKET_FLAG_ERROR, 3);
		recorded_publish_kind(0, 2, T, 2, 0, 7);                            /* 0:0 0:1 */
		recorded_publish_kind(1, 1, T + 1, 1, 0, 3);                        /* 1:0 */
		recorded_publish_kind(0, 1, T + 4, 1, IBVCAP_PACKET_FLAG_ERROR, 7); /* lost for all */
		recorded_publish_kind(0, 1, T + 5, 1, 0, 0);                        /* 0:3 */
		recorded_publish_kind(0, 1, T + 6, 1, 0, 7);                        /* 0:4 */
	}
	if (call == 8)
		recorded_stop();
}

static struct recorded_file *file_named(const char *begin)
{
	struct recorded_file *found = NULL;

	for (unsigned i = 0; i < n_files; i++)
		if (!strncmp(files[i].name, begin, strlen(begin)))
			found = &files[i];
	cr_assert(found, "no file a%s", begin);
	return found;
}

Test(recorder_files, each_flow_of_a_stream_has_its_file)
{
	struct recorded_file *zero, *three, *seven;

	recorded_prepare(2, true);
	options()->by_flow = true;
	recorded_script = publish_flows;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 3);
	zero = file_named("_s-0.");
	three = file_named("_s-3.");
	seven = file_named("_s-7.");
	cr_assert(zero && three && seven);
	cr_expect_str_eq(zero->packets, "0:3+1");
	cr_expect_str_eq(three->packets, "1:0");
	cr_expect_str_eq(seven->packets, "0:0 0:1 0:4+1");
	cr_expect(strstr(seven->head, "only flow 7") && strstr(seven->head, "s/1"), "%s", seven->head);
	cr_expect_eq(seven->accounts[0].flow, 7);
	cr_expect_eq(seven->accounts[0].sum.written, 3);
	cr_expect_eq(seven->accounts[0].sum.other_files, 1);
	cr_expect_eq(seven->accounts[0].sum.errored, 1);
	cr_expect_eq(seven->accounts[1].sum.other_files, 1);
	cr_expect_eq(seven->values[0][PCAPNG_STATISTIC_FILTER_ACCEPTED], 4);
	cr_expect_eq(zero->accounts[0].sum.other_files, 3);
	cr_expect_eq(three->accounts[1].sum.written, 1);
	cr_expect_eq(three->accounts[1].n_queues, 2);
	cr_expect_eq(three->accounts[0].until.sequence, 5);
}

Test(recorder_files, flows_of_each_stream_are_its_own)
{
	recorded_prepare(2, false);
	options()->by_flow = true;
	recorded_script = publish_flows;
	n_errors_of_second = 2;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 4);
	cr_expect_str_eq(file_named("_s0-0.")->packets, "0:3+1");
	cr_expect_str_eq(file_named("_s0-7.")->packets, "0:0 0:1 0:4+1");
	cr_expect_str_eq(file_named("_s1-0.")->packets, "");
	cr_expect_str_eq(file_named("_s1-3.")->packets, "0:2+2");
	cr_expect_eq(file_named("_s1-3.")->accounts[0].sum.errored, 2);
	cr_expect_eq(file_named("_s1-0.")->accounts[0].sum.errored, 2);
	cr_expect_eq(file_named("_s0-0.")->accounts[0].sum.errored, 1);
	cr_expect_str_eq(file_named("_s1-3.")->accounts[0].stream, "s1");
	cr_expect_eq(file_named("_s1-3.")->accounts[0].sum.unwritten, 0);
}

/* ---- losses and files ---------------------------------------------------------------------------- */

static void lose_between_files(unsigned call)
{
	if (call == 1)
		recorded_publish(0, 3, T, 1);
	if (call == 3)
		recorded_settle_all();
	if (call == 5)
		recorded_settle(0, 6);
	if (call == 7)
		recorded_publish(0, 64, T + 10, 1);
	if (call == 9)
		recorded_publish(0, 64, T + 100, 1);
	if (call == 12)
		recorded_stop();
}

Test(recorder_files, a_loss_is_in_the_file_that_it_was_in)
{
	recorded_prepare(1, false);
	options()->file_packets = 3;
	options()->count = 6;
	recorded_script = lose_between_files;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 2);
	cr_expect_eq(files[0].accounts[0].rx.no_buffer + files[1].accounts[0].rx.no_buffer, 6);
	cr_expect_eq(files[0].accounts[0].rx.no_buffer, 6, "it was counted before the second file began");
	cr_expect_eq(recorder.accounts[0].rx.no_buffer, 6);
	cr_expect_eq(recording_account_verdict(&recorder.accounts[0]), IBVCAP_VERDICT_INCOMPLETE);
}

static void overflow_between_files(unsigned call)
{
	if (call == 1)
		recorded_publish(0, 3, T, 1);
	if (call == 3)
		recorded_publish(0, 1000, T + 100, 1);
	if (call == 8)
		recorded_stop();
}

Test(recorder_files, a_file_names_what_is_missing_behind_its_last_packet)
{
	const struct recording_account *first = &files[0].accounts[0], *second = &files[1].accounts[0];
	char text[80];

	recorded_prepare(1, false);
	options()->file_packets = 3;
	recorded_script = overflow_between_files;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_geq(n_files, 2);
	cr_assert_gt(first->sum.skipped, 0);
	cr_expect_eq(first->sum.written, 3);
	cr_expect_eq(first->until.sequence, 3 + first->sum.skipped);
	cr_expect_str_eq(files[0].packets, "0:0 0:1 0:2");
	snprintf(text, sizeof(text), "After the last packet: s0: %lu packets lost (skipped)", first->sum.skipped);
	cr_expect(strstr(files[0].closing, text), "%s", files[0].closing);
	cr_expect_eq(recording_account_verdict(first), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(second->from.sequence, first->until.sequence);
	cr_expect_eq(second->sum.skipped, 0);
	snprintf(text, sizeof(text), "0:%lu ", first->until.sequence);
	cr_expect_eq(strncmp(files[1].packets, text, strlen(text)), 0, "%s", files[1].packets);
	cr_expect_str_eq(files[1].comments, "");
	cr_expect_eq(recording_account_verdict(second), IBVCAP_VERDICT_COMPLETE);
}

static void lose_in_the_second_file(unsigned call)
{
	if (call == 0)
		recorded_publish(0, 4, T, 1);
	if (call == 2)
		recorded_settle_all(); /* the first file is over */
	if (call == 4)
		recorded_settle(0, 6);
	if (call == 6)
		recorded_stop();
}

Test(recorder_files, a_file_begins_when_the_one_before_is_settled)
{
	recorded_prepare(1, false);
	options()->file_packets = 3;
	recorded_script = lose_in_the_second_file;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 2);
	cr_expect_eq(recording_account_verdict(&files[0].accounts[0]), IBVCAP_VERDICT_COMPLETE);
	cr_expect_eq(files[0].accounts[0].rx.no_buffer_most, 0);
	cr_expect_eq(files[1].accounts[0].rx.no_buffer, 6);
	cr_expect_eq(files[1].accounts[0].rx.no_buffer_least, 6, "%lu", files[1].accounts[0].rx.no_buffer_least);
	cr_expect_eq(files[1].accounts[0].rx.unknown, 0);
}
