// SPDX-License-Identifier: Apache-2.0
/* Raw recordings: rows, their meta and their description belong together, in every file. */
#include "lib/base/time.h"
#include "tests/unit/tools/captured.h"
#include "tests/unit/tools/disk.h"
#include "tests/unit/tools/recorded.h"
#include "tools/record/record_file.h"
#include "tools/record/row_filter.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#define T         RECORDED_BASE_NS
#define ROWS_MAX  2000
#define FILES_MAX 8

struct raw_read {
	char name[100];
	uint64_t first; /* number of the first row */
	uint64_t n_rows;
	json_t *said;
	struct recording_account account;
};

static struct raw_read raws[FILES_MAX];
static unsigned n_raws;
static char pattern[64];

static void read_raw(struct raw_read *raw, const char *path)
{
	static uint8_t rows[ROWS_MAX * SLOT_BYTES + 8192];
	static struct ibvcap_meta meta[ROWS_MAX];
	char beside[160];
	int fd = open(path, O_RDONLY), fd_meta;
	ssize_t n = read(fd, rows, sizeof(rows)), n_meta, offset;

	snprintf(beside, sizeof(beside), "%s.meta", path);
	fd_meta = open(beside, O_RDONLY);
	n_meta = read(fd_meta, meta, sizeof(meta));
	snprintf(beside, sizeof(beside), "%s.json", path);
	snprintf(raw->name, sizeof(raw->name), "%s", path + strlen(recorded_folder) + 1);
	raw->said = json_load_file(beside, 0, NULL);
	cr_assert(n >= 0 && n_meta >= 0 && raw->said, "%s", path);
	close(fd);
	close(fd_meta);
	raw->n_rows = (uint64_t)n_meta / sizeof(meta[0]);
	offset = (ssize_t)json_integer_value(json_object_get(raw->said, "offset"));
	cr_expect_eq(n, offset + (ssize_t)raw->n_rows * SLOT_BYTES, "%s: %zd bytes", path, n);
	memcpy(&raw->first, rows + offset, sizeof(raw->first));
	cr_expect(recording_account_from_json(json_object_get(raw->said, "account"), &raw->account), "%s", path);
	cr_expect_eq((uint64_t)json_integer_value(json_array_get(json_object_get(raw->said, "shape"), 0)), raw->n_rows);
	cr_expect_eq(json_integer_value(json_array_get(json_object_get(raw->said, "shape"), 1)), SLOT_BYTES);
}

static void read_raws(void)
{
	glob_t found = {0};
	char all[80];

	snprintf(all, sizeof(all), "%s/*.raw", recorded_folder);
	n_raws = 0;
	if (glob(all, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc && n_raws < FILES_MAX; i++)
			read_raw(&raws[n_raws++], found.gl_pathv[i]);
	globfree(&found);
}

static void prepare_raw(void)
{
	recorded_prepare(1, false);
	snprintf(pattern, sizeof(pattern), "%s/r.raw", recorded_folder);
	recorder.options.path = pattern;
	recorder.options.raw = true;
}

static int run_raw(void)
{
	int r = recorded_run(NULL);

	read_raws();
	return r;
}

static void forget_raws(void)
{
	for (unsigned i = 0; i < n_raws; i++)
		json_decref(raws[i].said);
	recorded_clean_up();
}

TestSuite(raw_recorder, .fini = forget_raws, .timeout = 30);

static json_int_t sum_of(const struct raw_read *raw, const char *term)
{
	return json_integer_value(json_object_get(json_object_get(raw->said, "sum"), term));
}

/* Files of so many rows, each beginning where the one before ended, and complete. */
static void expect_raws(unsigned n, const uint64_t *n_rows)
{
	uint64_t first = 0;

	cr_assert_eq(n_raws, n, "%u", n_raws);
	for (unsigned i = 0; i < n; i++) {
		const struct recording_account *account = &raws[i].account;

		cr_expect_eq(raws[i].n_rows, n_rows[i], "%u: %lu", i, raws[i].n_rows);
		cr_expect_eq(raws[i].first, first);
		cr_expect_eq(recording_account_verdict(account), IBVCAP_VERDICT_COMPLETE, "%u: %x", i,
		             account->rx.unknown);
		cr_expect_eq(account->sum.written, n_rows[i]);
		cr_expect_eq(sum_of(&raws[i], "written"), (json_int_t)n_rows[i]);
		cr_expect_eq(account->from.sequence, first);
		first += n_rows[i];
		cr_expect_eq(account->until.sequence, first);
		cr_expect(account->file == i && account->is_last == (i + 1 == n));
		cr_expect_eq(account->recording, recorder.accounts[0].recording);
	}
	cr_expect_eq(recorder.accounts[0].sum.written, first);
	cr_expect_eq(recording_account_verdict(&recorder.accounts[0]), IBVCAP_VERDICT_COMPLETE);
	cr_expect_eq(recorder.writer.n_files, n);
	cr_expect_eq(recorder.writer.error, 0);
}

static void set_filter(const char *text)
{
	char error[PACKET_FILTER_ERROR_BYTES];

	recorder.options.filter = recorder.sources[0].filter = text;
	recorder.options.row_filter = row_filter_new(text, error);
	cr_assert(recorder.options.row_filter, "%s", error);
}

/* The row's number is behind the headers, of which all bytes are 0. */
Test(raw_recorder, a_filter_takes_rows_and_the_others_are_counted)
{
	json_t *runs;

	prepare_raw();
	set_filter("ether[42] % 3 = 1");
	recorder.options.count = 20;
	recorder.options.file_packets = 12;
	recorded_publish(0, 10, T, 1);
	recorded_publish_kind(0, 1, T + 10, 1, IBVCAP_PACKET_FLAG_ERROR, 0); /* 10 */
	recorded_publish(0, 100, T + 11, 1);
	cr_expect_eq(run_raw(), 0);
	cr_assert_eq(n_raws, 2);
	for (unsigned i = 0; i < 2; i++) {
		const struct recording_account *account = &raws[i].account;

		cr_expect_eq(account->until.sequence - account->from.sequence,
		             account->sum.written + account->sum.filtered + account->sum.errored);
		cr_expect_eq(raws[i].n_rows, account->sum.written + account->sum.errored);
		cr_expect_eq(sum_of(&raws[i], "filtered"), (json_int_t)account->sum.filtered);
		cr_expect_str_eq(json_string_value(json_object_get(raws[i].said, "filter")), "ether[42] % 3 = 1");
		runs = json_object_get(raws[i].said, "runs");
		cr_expect_eq(json_array_size(runs), 1, "rows that are left out end no run");
		cr_expect_eq(json_integer_value(json_object_get(json_array_get(runs, 0), "sequence")),
		             (json_int_t)raws[i].first);
	}
	cr_expect_eq(raws[0].first, 1);
	cr_expect_eq(raws[0].account.sum.errored, 1);
	cr_expect_eq(raws[0].account.sum.written + raws[1].account.sum.written, 20);
	cr_expect_eq(raws[0].account.until.sequence, raws[1].account.from.sequence);
	cr_expect_eq(recording_account_verdict(&raws[1].account), IBVCAP_VERDICT_COMPLETE, "%x",
	             raws[1].account.rx.unknown);
	cr_expect_eq(recorder.accounts[0].sum.filtered, raws[0].account.sum.filtered + raws[1].account.sum.filtered);
	row_filter_free(recorder.options.row_filter);
}

Test(raw_recorder, rows_until_the_count)
{
	static const uint64_t n_rows[] = {100};

	prepare_raw();
	recorder.options.count = 100;
	recorded_publish(0, 120, T, 1);
	cr_expect_eq(run_raw(), 0);
	expect_raws(1, n_rows);
	cr_expect_str_eq(raws[0].name, "r.raw");
	cr_expect_eq(raws[0].account.sum.lag, 20);
	cr_expect_eq(recorder.accounts[0].sum.lag, 20);
	cr_expect_geq(recorder.writer.bytes, 100 * SLOT_BYTES);
	cr_expect_eq(json_integer_value(json_object_get(raws[0].said, "payload_bytes")), SLOT_BYTES);
	cr_expect_eq(json_integer_value(json_object_get(raws[0].said, "network_header_bytes")), 42);
	cr_expect_str_eq(json_string_value(json_object_get(raws[0].said, "layout")), "payload");
	cr_expect_eq(json_array_size(json_object_get(raws[0].said, "runs")), 1);
	cr_expect_eq(json_array_size(json_object_get(raws[0].said, "losses")), 0);
	cr_expect_not(json_object_get(raws[0].said, "error"));
}

Test(raw_recorder, files_of_so_many_packets)
{
	static const uint64_t n_rows[] = {30, 30, 30, 10};

	prepare_raw();
	recorder.options.file_packets = 30;
	recorder.options.count = 100;
	recorded_publish(0, 100, T, 1);
	cr_expect_eq(run_raw(), 0);
	expect_raws(4, n_rows);
	cr_expect_eq(strncmp(raws[2].name, "r_00003_", 8), 0, "%s", raws[2].name);
	cr_expect_geq(recorder.writer.bytes, 100 * SLOT_BYTES);
}

Test(raw_recorder, files_of_so_many_bytes)
{
	static const uint64_t n_rows[] = {25, 25, 10};

	prepare_raw();
	recorder.options.file_bytes = 2599;
	recorder.options.count = 60;
	recorded_publish(0, 60, T, 1);
	cr_expect_eq(run_raw(), 0);
	expect_raws(3, n_rows);
}

Test(raw_recorder, a_row_that_is_too_long_has_a_file_of_its_own)
{
	static const uint64_t n_rows[] = {1, 1, 1};

	prepare_raw();
	recorder.options.file_bytes = 99;
	recorder.options.count = 3;
	recorded_publish(0, 3, T, 1);
	cr_expect_eq(run_raw(), 0);
	expect_raws(3, n_rows);
}

static void rows_each_half_second(unsigned call)
{
	if (call > 4) {
		recorded_stop();
		return;
	}
	recorded_publish(0, 10, time_utc_ns(), 1);
	recorded_settle_all();
	recorded_pass_ns(TIME_SECOND_NS / 2);
}

Test(raw_recorder, files_end_by_time)
{
	static const uint64_t n_rows[] = {30, 20};

	prepare_raw();
	recorder.options.file_ns = TIME_SECOND_NS + TIME_SECOND_NS / 4;
	recorded_script = rows_each_half_second;
	cr_expect_eq(run_raw(), 0);
	expect_raws(2, n_rows);
}

static void rows_and_errors(unsigned call)
{
	if (call == 0) {
		recorded_publish(0, 5, T, 1);
		recorded_publish_kind(0, 2, T, 1, IBVCAP_PACKET_FLAG_ERROR, 0);
		recorded_publish(0, 1, T, 1);
	}
	if (call == 3)
		recorded_stop();
}

Test(raw_recorder, rows_in_error_keep_their_place_and_are_no_packets)
{
	prepare_raw();
	recorded_script = rows_and_errors;
	cr_expect_eq(run_raw(), 0);
	cr_assert_eq(n_raws, 1);
	cr_expect_eq(raws[0].n_rows, 8);
	cr_expect_eq(raws[0].account.sum.written, 6);
	cr_expect_eq(raws[0].account.sum.errored, 2);
	cr_expect_eq(recording_account_verdict(&raws[0].account), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(raws[0].account.until.sequence, 8);
	cr_expect_eq(sum_of(&raws[0], "errored"), 2);
	cr_expect_eq(sum_of(&raws[0], "published"), 8);
	cr_expect_eq(recorder.accounts[0].sum.errored, 2);
}

static void overflow_raw(unsigned call)
{
	if (call == 1)
		recorded_publish(0, 10, T, 1);
	if (call == 3)
		recorded_publish(0, 1000, T, 1);
	if (call == 8)
		recorded_stop();
}

Test(raw_recorder, a_gap_is_named_at_its_row)
{
	const json_t *loss, *run;
	uint64_t skipped;

	prepare_raw();
	recorded_script = overflow_raw;
	cr_expect_eq(run_raw(), 0);
	cr_assert_eq(n_raws, 1);
	skipped = raws[0].account.sum.skipped;
	cr_expect_gt(skipped, 0);
	cr_expect_eq(raws[0].n_rows + skipped, 1010);
	cr_expect_eq(recording_account_verdict(&raws[0].account), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(recorder.accounts[0].sum.skipped, skipped);
	cr_assert_eq(json_array_size(json_object_get(raws[0].said, "losses")), 1);
	loss = json_array_get(json_object_get(raws[0].said, "losses"), 0);
	cr_expect_eq(json_integer_value(json_object_get(loss, "row")), 10);
	cr_expect_eq((uint64_t)json_integer_value(json_object_get(loss, "packets")), skipped);
	cr_assert_eq(json_array_size(json_object_get(raws[0].said, "runs")), 2);
	run = json_array_get(json_object_get(raws[0].said, "runs"), 1);
	cr_expect_eq(json_integer_value(json_object_get(run, "row")), 10);
	cr_expect_eq((uint64_t)json_integer_value(json_object_get(run, "sequence")), 10 + skipped);
	cr_expect_str_eq(json_string_value(json_object_get(run, "epoch")), "0000000000000063");
}

static void stop_behind_rows(unsigned call)
{
	if (call == 2) {
		recorded_publish(0, 100, T, 1);
		recorded_stop();
	}
}

Test(raw_recorder, what_was_published_when_it_ends_is_recorded)
{
	static const uint64_t n_rows[] = {100};

	prepare_raw();
	recorded_script = stop_behind_rows;
	cr_expect_eq(run_raw(), 0);
	expect_raws(1, n_rows);
}

static void lose_at_the_end_of_raw(unsigned call)
{
	if (call == 1)
		recorded_publish(0, 3, T, 1);
	if (call == 4)
		recorded_settle(0, 5);
	if (call == 5)
		recorded_stop();
}

Test(raw_recorder, a_loss_of_the_card_at_the_end_is_counted_and_named)
{
	const json_t *loss;

	prepare_raw();
	recorded_script = lose_at_the_end_of_raw;
	cr_expect_eq(run_raw(), 0);
	cr_assert_eq(n_raws, 1);
	cr_expect_eq(raws[0].account.rx.no_buffer, 5);
	cr_expect_eq(raws[0].account.rx.no_buffer_least, 5);
	cr_expect_eq(recording_account_verdict(&raws[0].account), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(sum_of(&raws[0], "no_buffer"), 5);
	cr_expect_eq(recorder.accounts[0].rx.no_buffer, 5);
	loss = json_array_get(json_object_get(raws[0].said, "losses"), 0);
	cr_expect_eq(json_integer_value(json_object_get(loss, "packets")), 5);
	cr_expect_eq(json_integer_value(json_object_get(loss, "row")), 3);
}

static void settle_three(void)
{
	recorded_settle(0, 3);
}

static void stop_raw_at_once(unsigned call)
{
	if (call == 1)
		recorded_stop();
}

Test(raw_recorder, it_ends_behind_a_loss_that_may_have_been_before_its_end)
{
	prepare_raw();
	recorded_script = stop_raw_at_once;
	recorded_sleep = settle_three;
	cr_expect_eq(run_raw(), 0);
	cr_assert_eq(n_raws, 1);
	cr_expect_eq(raws[0].account.rx.no_buffer, 3);
	cr_expect_eq(raws[0].account.rx.unknown, 0);
	cr_expect_eq(recording_account_verdict(&recorder.accounts[0]), IBVCAP_VERDICT_INCOMPLETE);
}

static void removed(unsigned call)
{
	if (call == 2)
		recorded_error[0] = -ENODEV;
}

Test(raw_recorder, a_stream_that_is_removed_is_not_proven)
{
	prepare_raw();
	recorded_script = removed;
	cr_expect_eq(run_raw(), -ENODEV);
	cr_assert_eq(n_raws, 1);
	cr_expect_eq(raws[0].account.rx.unknown, IBVCAP_UNKNOWN_REMOVED | IBVCAP_UNKNOWN_NO_PACKETS);
	cr_expect_eq(recording_account_verdict(&recorder.accounts[0]), IBVCAP_VERDICT_NOT_PROVEN);
	cr_expect(strstr(
		json_string_value(json_object_get(json_array_get(json_object_get(raws[0].said, "losses"), 0), "why")),
		"the administrator removed the stream"));
}

Test(raw_recorder, a_duration_ends_it)
{
	uint64_t start_ns = time_monotonic_ns();

	prepare_raw();
	recorder.options.duration_ns = 2 * TIME_SECOND_NS;
	captured_begin();
	cr_expect_eq(run_raw(), 0);
	cr_expect_str_eq(captured_end(), "");
	cr_expect_geq(time_monotonic_ns() - start_ns, 2 * TIME_SECOND_NS);
	cr_expect_lt(time_monotonic_ns() - start_ns, 3 * TIME_SECOND_NS);
}

Test(raw_recorder, a_place_where_no_file_can_be_made_is_an_error_of_the_files)
{
	prepare_raw();
	strcat(pattern, "/not/there");
	captured_begin();
	cr_expect_eq(run_raw(), 0);
	cr_expect(strstr(captured_end(), "No such file or directory"));
	cr_expect_eq(recorder.writer.error, ENOENT);
	cr_expect_eq(recorder.writer.n_files, 0);
}

static void full_disk_in_the_third_file(unsigned call)
{
	if (call == 2)
		recorded_settle_all();
	if (call == 3) {
		recorded_publish(0, 10, T, 1);
		disk_fail(DISK_PWRITE, 3, 1, ENOSPC); /* behind the description, the run and the rows */
		recorded_stop();
	}
}

Test(raw_recorder, on_a_full_disk_the_oldest_file_gives_way)
{
	prepare_raw();
	disk_free_bytes = disk_total_bytes = UINT64_C(1) << 40;
	recorder.options.file_packets = 10;
	recorder.options.files = 9;
	recorded_publish(0, 20, T, 1);
	recorded_script = full_disk_in_the_third_file;
	cr_expect_eq(run_raw(), 0);
	cr_expect_eq(recorder.writer.error, 0);
	cr_expect_eq(recorder.writer.window.n_deleted, 1);
	cr_assert_eq(n_raws, 2);
	cr_expect(raws[0].n_rows == 10 && raws[0].first == 10 && raws[1].n_rows == 10 && raws[1].first == 20);
	cr_expect_eq(recording_account_verdict(&raws[1].account), IBVCAP_VERDICT_COMPLETE);
	cr_expect_eq(recorder.accounts[0].sum.written, 30);
}

static void break_the_disk(unsigned call)
{
	if (call == 2) {
		recorded_publish(0, 10, T, 1);
		disk_fail(DISK_PWRITE, 0, 1, EIO);
	}
}

Test(raw_recorder, rows_that_were_not_written_are_counted)
{
	prepare_raw();
	recorded_publish(0, 10, T, 1);
	recorded_script = break_the_disk;
	captured_begin();
	cr_expect_eq(run_raw(), 0);
	cr_expect(strstr(captured_end(), "r.raw: Input/output error"));
	cr_expect_eq(recorder.writer.error, EIO);
	cr_assert_eq(n_raws, 1);
	cr_expect_eq(raws[0].n_rows, 10);
	cr_expect_eq(raws[0].account.sum.unwritten, 10);
	cr_expect_eq(recording_account_verdict(&raws[0].account), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(recorder.accounts[0].sum.unwritten, 10);
	cr_expect_str_eq(json_string_value(json_object_get(raws[0].said, "error")), "Input/output error");
}
