// SPDX-License-Identifier: Apache-2.0
/* Which rows a recorder puts into its files, in which order, and when it ends. */
#include "lib/base/time.h"
#include "tests/unit/tools/captured.h"
#include "tests/unit/tools/recorded.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define T RECORDED_BASE_NS

TestSuite(recorder, .fini = recorded_clean_up, .timeout = 30);

static void expect_complete(unsigned file, unsigned source, uint64_t written)
{
	const struct recording_account *account = &files[file].accounts[source];

	cr_expect_eq(recording_account_verdict(account), IBVCAP_VERDICT_COMPLETE, "unknown %x", account->rx.unknown);
	cr_expect_eq(account->sum.written, written, "%lu", account->sum.written);
}

Test(recorder, rows_of_several_sources_come_in_the_order_of_their_times)
{
	recorded_prepare(3, false);
	recorded_publish(0, 4, T, 10);      /* 0 10 20 30 */
	recorded_publish(1, 3, T + 5, 10);  /* 5 15 25 */
	recorded_publish(2, 3, T + 10, 20); /* 10 30 50 */
	recorder.options.count = 10;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 1);
	cr_expect_str_eq(files[0].packets, "0:0 1:0 0:1 2:0 1:1 0:2 1:2 0:3 2:1 2:2");
	cr_expect_eq(files[0].first_ns, T);
	cr_expect_eq(files[0].queue, 0);
	cr_expect_str_eq(files[0].comments, "");
	expect_complete(0, 0, 4);
	expect_complete(0, 1, 3);
	expect_complete(0, 2, 3);
	cr_expect_eq(recorder.n_bytes, 10 * 142);
	cr_expect_eq(files[0].frame_bytes, 142);
	cr_expect_eq(files[0].wire_bytes, 142);
	cr_expect_eq(recorder.accounts[0].recording, files[0].accounts[0].recording);
	cr_expect_str_eq(recorder.accounts[2].stream, "s2");
	cr_expect_eq(recorder.accounts[1].sum.written, 3);
}

Test(recorder, only_the_first_bytes_of_a_frame_if_they_are_wanted)
{
	recorded_prepare(1, false);
	recorder.options.snap_bytes = 50;
	recorder.options.count = 1;
	recorded_publish(0, 1, 0, 0);
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_eq(files[0].frame_bytes, 50);
	cr_expect_eq(files[0].wire_bytes, 142);
	cr_expect_lt(time_utc_ns() - files[0].first_ns, 10 * TIME_SECOND_NS, "a row without a time gets that of now");
}

Test(recorder, a_count_ends_the_recording_and_leaves_the_rest_in_the_ring)
{
	recorded_prepare(2, false);
	recorded_publish(0, 10, T, 10);
	recorded_publish(1, 10, T + 1, 10);
	recorder.options.count = 5;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_str_eq(files[0].packets, "0:0 1:0 0:1 1:1 0:2");
	cr_expect_eq(files[0].accounts[0].sum.lag, 7);
	cr_expect_eq(files[0].accounts[1].sum.lag, 8);
	cr_expect_eq(recorder.accounts[1].sum.lag, 8);
	cr_expect_eq(files[0].accounts[0].until.sequence, 3);
	cr_expect_eq(files[0].accounts[1].until.sequence, 2);
	expect_complete(0, 0, 3);
	expect_complete(0, 1, 2);
	cr_expect_eq(recorded_max, 5, "no more rows are acquired than are wanted");
}

static void stop_after_rows(unsigned call)
{
	if (call != 2)
		return;
	recorded_publish(0, 40, T, 10);
	recorded_publish(1, 40, T + 5, 10);
	recorded_stop();
}

Test(recorder, what_was_published_when_the_recording_ends_is_recorded)
{
	recorded_prepare(2, false);
	recorded_script = stop_after_rows;
	cr_expect_eq(recorded_run(NULL), 0);
	expect_complete(0, 0, 40);
	expect_complete(0, 1, 40);
	cr_expect_eq(strncmp(files[0].packets, "0:0 1:0 0:1 1:1 0:2", 19), 0, "%s", files[0].packets);
	cr_expect_eq(files[0].accounts[0].sum.lag + files[0].accounts[1].sum.lag, 0);
}

static void publish_always(unsigned call)
{
	recorded_publish(0, 1, T + call, 0);
	if (call == 3)
		recorded_stop();
}

static void publish_errors_always(unsigned call)
{
	/* A batch ends with its block: some of the 70 rows are left for the end. */
	recorded_publish_kind(0, call == 3 ? 70 : 1, T + call, 0, call < 20 ? IBVCAP_PACKET_FLAG_ERROR : 0, 0);
	if (call == 3)
		recorded_stop();
}

Test(recorder, rows_in_error_at_the_end_are_rows_too)
{
	recorded_prepare(1, false);
	recorded_script = publish_errors_always;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_eq(recorder.n_packets, 0);
	cr_expect_eq(recorder.accounts[0].sum.errored + recorder.accounts[0].sum.lag, rings[0].ring.head);
	cr_expect_leq(recorder.accounts[0].sum.errored, 78, "%lu", recorder.accounts[0].sum.errored);
}

Test(recorder, what_comes_after_the_end_is_left)
{
	recorded_prepare(1, false);
	recorded_script = publish_always;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_eq(recorder.n_packets + recorder.accounts[0].sum.lag, rings[0].ring.head);
	cr_expect_lt(recorder.n_packets, 8, "the ring never was empty");
	expect_complete(0, 0, recorder.n_packets);
}

static void pass_time(unsigned call)
{
	(void)call;
	recorded_pass_ns(TIME_SECOND_NS / 10);
}

Test(recorder, a_duration_ends_the_recording)
{
	uint64_t start_ns = time_monotonic_ns();

	recorded_prepare(1, false);
	recorder.options.duration_ns = 2 * TIME_SECOND_NS;
	recorded_script = pass_time;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_geq(time_monotonic_ns() - start_ns, 2 * TIME_SECOND_NS);
	cr_expect_lt(time_monotonic_ns() - start_ns, 3 * TIME_SECOND_NS);
	cr_expect_eq(files[0].accounts[0].rx.unknown, IBVCAP_UNKNOWN_NO_PACKETS);
	cr_expect(strstr(files[0].closing, "Not proven: no packet came"), "%s", files[0].closing);
}

/* ---- rows that are missing ----------------------------------------------------------------------- */

static void errors_between(unsigned call)
{
	if (call == 0) {
		recorded_publish(0, 2, T, 1);
		recorded_publish_kind(0, 3, T + 2, 1, IBVCAP_PACKET_FLAG_ERROR, 0);
		recorded_publish(0, 1, T + 5, 1);
		recorded_publish_kind(0, 2, T + 6, 1, IBVCAP_PACKET_FLAG_ERROR, 0);
	}
	if (call == 4)
		recorded_stop();
}

Test(recorder, rows_in_error_are_counted_and_named)
{
	recorded_prepare(1, false);
	recorded_script = errors_between;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_str_eq(files[0].packets, "0:0 0:1 0:5+3");
	cr_expect_str_eq(files[0].comments, "packets lost (errored): their rows are in error: the device could not "
	                                    "write them, or they are longer than payload_size\nlosses {\"errored\":3}");
	cr_expect_eq(files[0].accounts[0].sum.errored, 5);
	cr_expect_eq(files[0].accounts[0].sum.written, 3);
	cr_expect_eq(files[0].accounts[0].until.sequence, 8);
	cr_expect_eq(recording_account_verdict(&files[0].accounts[0]), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(recorder.accounts[0].sum.errored, 5);
	cr_expect_eq(files[0].values[0][PCAPNG_STATISTIC_RECEIVED], 8);
	cr_expect_eq(files[0].values[0][PCAPNG_STATISTIC_DROPPED], 5);
	cr_expect_eq(files[0].values[0][PCAPNG_STATISTIC_DELIVERED], 3);
	cr_expect(strstr(files[0].closing, "Incomplete: 5 packets are missing."), "%s", files[0].closing);
	cr_expect(strstr(files[0].closing, "After the last packet: s0: packets lost (errored)"), "%s",
	          files[0].closing);
}

static void overflow(unsigned call)
{
	if (call == 1)
		recorded_publish(0, 10, T, 1);
	if (call == 3) {
		recorded_pass_ns(7 * TIME_SECOND_NS / 1000);
		recorded_publish(0, 1000, T + 100, 1);
	}
	if (call == 8)
		recorded_stop();
}

Test(recorder, rows_that_were_recycled_are_skipped)
{
	const struct recording_account *account = &files[0].accounts[0];
	char text[80];

	recorded_prepare(1, false);
	recorded_script = overflow;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_gt(account->sum.skipped, 0);
	cr_expect_eq(account->sum.disk_wait, 0);
	cr_expect_eq(account->sum.written + account->sum.skipped, 1010);
	cr_expect_eq(recording_account_verdict(account), IBVCAP_VERDICT_INCOMPLETE);
	snprintf(text, sizeof(text), "%lu packets lost (skipped): the recorder was too slow", account->sum.skipped);
	cr_expect(strstr(files[0].comments, text), "%s", files[0].comments);
	snprintf(text, sizeof(text), "0:9 0:%lu+%lu ", account->sum.skipped + 10, account->sum.skipped);
	cr_expect(strstr(files[0].packets, text), "%s: %s", text, files[0].packets);
	cr_expect_eq(files[0].values[0][PCAPNG_STATISTIC_OS_DROPPED], account->sum.skipped);
}

static void lose_at_the_end(unsigned call)
{
	if (call == 1)
		recorded_publish(0, 10, T, 1);
	if (call == 3)
		recorded_settle(0, 4);
	if (call == 4)
		recorded_stop();
}

Test(recorder, a_loss_of_the_card_that_no_packet_follows_is_counted)
{
	recorded_prepare(1, false);
	recorded_script = lose_at_the_end;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_eq(files[0].accounts[0].rx.no_buffer, 4);
	cr_expect_eq(files[0].accounts[0].rx.no_buffer_least, 4);
	cr_expect_eq(files[0].accounts[0].rx.no_buffer_most, 4);
	cr_expect_eq(recording_account_verdict(&files[0].accounts[0]), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect(strstr(files[0].closing, "Incomplete: 4 packets are missing.\n"), "%s", files[0].closing);
	cr_expect(strstr(files[0].closing, "After the last packet: s0: 4 packets lost (no_buffer)"), "%s",
	          files[0].closing);
	cr_expect_eq(recorder.accounts[0].rx.no_buffer, 4);
}

static uint64_t lost_at_sleep;

static void settle_a_loss(void)
{
	recorded_settle(0, lost_at_sleep);
}

static void stop_at_once(unsigned call)
{
	if (call == 1)
		recorded_stop();
}

/* The daemon's first record after the end counts it: only a later end is certainly behind it. */
Test(recorder, the_recording_ends_behind_a_loss_that_may_have_been_before_its_end)
{
	recorded_prepare(1, false);
	recorded_script = stop_at_once;
	recorded_sleep = settle_a_loss;
	lost_at_sleep = 3;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_eq(files[0].accounts[0].rx.no_buffer, 3);
	cr_expect_eq(files[0].accounts[0].rx.no_buffer_least, 3);
	cr_expect_eq(files[0].accounts[0].rx.unknown, 0);
	cr_expect_eq(recording_account_verdict(&files[0].accounts[0]), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(recording_account_verdict(&recorder.accounts[0]), IBVCAP_VERDICT_INCOMPLETE);
}

static void never_settle(void)
{
}

Test(recorder, without_an_answer_of_the_daemon_nothing_is_proven)
{
	uint64_t start_ns = time_monotonic_ns();

	recorded_prepare(1, false);
	recorded_script = stop_at_once;
	recorded_sleep = never_settle;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_eq(files[0].accounts[0].rx.unknown, IBVCAP_UNKNOWN_UNSETTLED | IBVCAP_UNKNOWN_NO_PACKETS);
	cr_expect_eq(recording_account_verdict(&files[0].accounts[0]), IBVCAP_VERDICT_NOT_PROVEN);
	cr_expect(strstr(files[0].closing,
	                 "Not proven: no packet is known to be missing, but maybe some are. The daemon (ibvcapd) "),
	          "%s", files[0].closing);
	cr_expect_geq(time_monotonic_ns() - start_ns, SETTLE_NS_MAX);
	cr_expect_lt(time_monotonic_ns() - start_ns, 3 * SETTLE_NS_MAX, "it does not wait for ever");
}

/* ---- sources that end ---------------------------------------------------------------------------- */

static void first_source_ends(unsigned call)
{
	if (call == 2)
		recorded_error[0] = -ENODEV;
	if (call == 4)
		recorded_publish(1, 2, T + 100, 1);
	if (call == 8)
		recorded_error[1] = -ESHUTDOWN;
}

Test(recorder, a_source_that_ends_leaves_the_others)
{
	unsigned which = 9;
	const char *said;

	recorded_prepare(2, false);
	recorded_publish(0, 2, T, 1);
	recorded_publish(1, 2, T, 1);
	recorded_script = first_source_ends;
	captured_begin();
	cr_expect_eq(recorded_run(&which), -ESHUTDOWN);
	said = captured_end();
	cr_expect_eq(which, 1);
	cr_expect(strstr(said, "s0: later files have none of its packets"), "%s", said);
	cr_expect_not(strstr(said, "s1: later files"), "%s", said);
	cr_expect_str_eq(files[0].packets, "0:0 1:0 1:1 0:1 1:2 1:3");
	cr_expect_eq(files[0].accounts[0].rx.unknown, IBVCAP_UNKNOWN_REMOVED);
	cr_expect_eq(files[0].accounts[1].rx.unknown, IBVCAP_UNKNOWN_AWAY);
	cr_expect_eq(recording_account_verdict(&files[0].accounts[0]), IBVCAP_VERDICT_NOT_PROVEN);
	cr_expect(strstr(files[0].closing, "s0: the administrator removed the stream before the recording ended"), "%s",
	          files[0].closing);
	cr_expect_eq(recorder.accounts[0].rx.unknown, IBVCAP_UNKNOWN_REMOVED);
}

static void end_while_it_waits(unsigned call)
{
	if (call == 3)
		recorded_error[0] = -ESHUTDOWN;
}

Test(recorder, the_end_of_the_only_source_is_the_end)
{
	unsigned which = 9;

	recorded_prepare(1, false);
	recorder.options.duration_ns = TIME_SECOND_NS;
	recorded_script = end_while_it_waits;
	captured_begin();
	cr_expect_eq(recorded_run(&which), -ESHUTDOWN);
	cr_expect_str_eq(captured_end(), "", "the caller tells it");
	cr_expect_eq(which, 0);
	cr_expect_eq(files[0].accounts[0].rx.unknown, IBVCAP_UNKNOWN_AWAY | IBVCAP_UNKNOWN_NO_PACKETS);
}

Test(recorder, a_queue_that_failed_was_told_already)
{
	recorded_prepare(2, false);
	recorder.options.duration_ns = TIME_SECOND_NS;
	recorded_script = pass_time;
	recorded_error[1] = -EIO;
	captured_begin();
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_str_eq(captured_end(), "");
	cr_expect_eq(files[0].accounts[1].rx.unknown, IBVCAP_UNKNOWN_FAILED | IBVCAP_UNKNOWN_NO_PACKETS);
	cr_expect_eq(files[0].accounts[0].rx.unknown, IBVCAP_UNKNOWN_NO_PACKETS);
}

static void interrupted_once(unsigned call)
{
	recorded_error[0] = call == 0 ? -EINTR : 0;
}

Test(recorder, a_signal_does_not_end_it)
{
	recorded_prepare(1, false);
	recorded_publish(0, 1, T, 1);
	recorder.options.count = 1;
	recorded_script = interrupted_once;
	cr_expect_eq(recorded_run(NULL), 0);
	expect_complete(0, 0, 1);
}
