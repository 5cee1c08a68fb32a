// SPDX-License-Identifier: Apache-2.0
/* What a recorder's files are on a disk that is full or broken, compressed, and with an index. */
#include "tests/unit/tools/captured.h"
#include "tests/unit/tools/disk.h"
#include "tests/unit/tools/recorded.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define T RECORDED_BASE_NS

static void begin_recorder(void)
{
	recorded_prepare(1, false);
	disk_free_bytes = UINT64_C(1) << 40;
	disk_total_bytes = disk_free_bytes + 1100;
}

TestSuite(recorder_disk, .init = begin_recorder, .fini = recorded_clean_up, .timeout = 30);

static bool has_file(const char *name)
{
	char path[120];

	snprintf(path, sizeof(path), "%s/%s", recorded_folder, name);
	return access(path, F_OK) == 0;
}

static unsigned n_pieces;
static void (*before_second)(void);

/* Three times two rows, of which each two are a piece of their own: a second later they are handed over. */
static void rows_and_seconds(unsigned call)
{
	(void)call;
	if (recorder.n_packets < 2 * n_pieces)
		return;
	if (SLIST_FIRST(&recorder.outputs)->buffer->used) {
		recorded_pass_ns(UINT64_C(1000000000));
		return;
	}
	if (n_pieces == 1 && before_second) {
		recorded_wait_for_writer();
		before_second();
	}
	if (n_pieces == 3)
		recorded_stop();
	else
		recorded_publish(0, 2, T + 3 * n_pieces++, 1);
}

/* ---- the index ------------------------------------------------------------------------------------- */

static FILE *open_index(void)
{
	char line[200], path[120];
	FILE *index;

	snprintf(path, sizeof(path), "%s/a.pcapng.index", recorded_folder);
	index = fopen(path, "r");
	cr_assert(index);
	cr_assert(fgets(line, sizeof(line), index));
	cr_expect_str_eq(line,
	                 "# ibvcap index 2: offset bytes packets first_ns last_ns first_sequence last_sequence\n");
	return index;
}

static void expect_index_of_pieces(void)
{
	uint64_t offset, bytes, packets, first_ns, last_ns, first, last, next = 0, stamp;
	FILE *index = open_index();

	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(fscanf(index,
		                    "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
		                    &offset, &bytes, &packets, &first_ns, &last_ns, &first, &last),
		             7);
		cr_expect(i ? offset == next : offset > 0);
		next = offset + bytes;
		cr_expect(packets == 2 && first == 2 * i && last == 2 * i + 1);
		cr_expect(first_ns == T + 3 * i && last_ns == T + 3 * i + 1);
	}
	cr_assert_eq(fscanf(index, " # end %" SCNu64 " %" SCNx64, &bytes, &stamp), 2);
	cr_expect_gt(bytes, next);
	fclose(index);
}

Test(recorder_disk, the_index_has_each_piece)
{
	recorder.options.no_index = false;
	recorded_script = rows_and_seconds;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_str_eq(files[0].packets, "0:0 0:1 0:2 0:3 0:4 0:5");
	expect_index_of_pieces();
}

Test(recorder_disk, a_compressed_file_has_no_index)
{
	recorder.options.no_index = false;
	recorder.options.zstd_level = 3;
	recorded_script = rows_and_seconds;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_str_eq(files[0].packets, "0:0 0:1 0:2 0:3 0:4 0:5");
	cr_expect_eq(files[0].accounts[0].sum.written, 6);
	cr_expect_not(has_file("a.pcapng.index"));
}

/* The next write is that of the packets, and then comes the index. */
static void break_the_index(void)
{
	disk_fail(DISK_PWRITE, 1, 1, EIO);
}

Test(recorder_disk, without_an_index_the_recording_goes_on)
{
	const char *said;

	recorder.options.no_index = false;
	recorded_script = rows_and_seconds;
	before_second = break_the_index;
	captured_begin();
	cr_expect_eq(recorded_run(NULL), 0);
	said = captured_end();
	cr_expect(strstr(said, "a.pcapng.index: Input/output error; the file has no index"), "%s", said);
	cr_expect_str_eq(files[0].packets, "0:0 0:1 0:2 0:3 0:4 0:5");
	cr_expect_eq(recording_account_verdict(&files[0].accounts[0]), IBVCAP_VERDICT_COMPLETE);
	cr_expect_not(has_file("a.pcapng.index") || has_file("a.pcapng.part.index") || has_file("a.pcapng.part"));
}

/* ---- a disk that is full --------------------------------------------------------------------------- */

static int disk_error;

static void fill_the_disk(void)
{
	disk_fail(DISK_PWRITE, 0, 1, disk_error);
}

Test(recorder_disk, a_full_disk_ends_the_recording_and_the_file_says_so)
{
	const char *said;

	disk_error = ENOSPC;
	recorded_script = rows_and_seconds;
	before_second = fill_the_disk;
	captured_begin();
	cr_expect_eq(recorded_run(NULL), 0);
	said = captured_end();
	cr_expect(strstr(said, "a.pcapng: No space left on device; --quota, --files and --disk-limit keep room"), "%s",
	          said);
	cr_expect_eq(recorder.writer.error, ENOSPC);
	cr_assert_eq(n_files, 1);
	cr_expect_str_eq(files[0].packets, "0:0 0:1");
	cr_expect(strstr(files[0].closing, "the recording ended because the file could not be written: No space left"),
	          "%s", files[0].closing);
	cr_expect(strstr(files[0].closing, "Incomplete: "), "%s", files[0].closing);
	cr_expect_eq(files[0].accounts[0].sum.written, 2);
	cr_expect_eq(files[0].accounts[0].sum.unwritten, recorder.n_packets - 2);
	cr_expect_eq(recorder.accounts[0].sum.unwritten, recorder.n_packets - 2);
	cr_expect_eq(recorder.accounts[0].sum.written, 2);
	cr_expect_eq(recording_account_verdict(&recorder.accounts[0]), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(files[0].values[0][PCAPNG_STATISTIC_OS_DROPPED], recorder.n_packets - 2);
}

static void exceed_the_disk_limit(void)
{
	disk_total_bytes = 1100;
	disk_free_bytes = 50;
}

Test(recorder_disk, a_file_ends_although_the_disk_limit_leaves_no_room_for_packets)
{
	const char *said;

	recorder.options.disk_limit = 90;
	recorded_script = rows_and_seconds;
	before_second = exceed_the_disk_limit;
	captured_begin();
	cr_expect_eq(recorded_run(NULL), 0);
	said = captured_end();
	cr_expect(strstr(said, "the older files are deleted, and --quota, --disk-limit or the disk has no room"), "%s",
	          said);
	cr_assert_eq(n_files, 1);
	cr_expect_str_eq(files[0].packets, "0:0 0:1");
	cr_expect_eq(files[0].accounts[0].sum.unwritten, recorder.n_packets - 2);
}

Test(recorder_disk, a_broken_disk_is_told_without_a_hint)
{
	const char *said;

	disk_error = EIO;
	recorded_script = rows_and_seconds;
	before_second = fill_the_disk;
	captured_begin();
	cr_expect_eq(recorded_run(NULL), 0);
	said = captured_end();
	cr_expect(strstr(said, "a.pcapng: Input/output error\n"), "%s", said);
	cr_expect_eq(recorder.writer.error, EIO);
}

static void fill_in_the_third_file(unsigned call)
{
	if (call == 5) {
		recorded_settle_all();
		recorded_pass_ns(UINT64_C(1000000000));
	}
	if (call == 7) {
		recorded_wait_for_files(2);
		recorded_wait_for_writer();
		disk_fail(DISK_PWRITE, 0, 1, ENOSPC);
		recorded_publish(0, 1, T + 10, 1);
		recorded_stop();
	}
}

Test(recorder_disk, on_a_full_disk_the_oldest_file_gives_way)
{
	recorder.options.file_packets = 2;
	recorder.options.files = 10;
	recorded_publish(0, 5, T, 1);
	recorded_script = fill_in_the_third_file;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_eq(recorder.writer.error, 0);
	cr_expect_eq(recorder.writer.window.n_deleted, 1);
	cr_assert_eq(n_files, 2);
	cr_expect_str_eq(files[0].packets, "0:2 0:3");
	cr_expect_str_eq(files[1].packets, "0:4 0:5");
	cr_expect_eq(recording_account_verdict(&files[1].accounts[0]), IBVCAP_VERDICT_COMPLETE);
	cr_expect_eq(recorder.writer.n_files, 3);
}

Test(recorder_disk, of_many_files_the_newest_are_kept)
{
	recorder.options.file_packets = 1;
	recorder.options.files = 2;
	recorder.options.count = 5;
	recorded_publish(0, 5, T, 1);
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 2);
	cr_expect_str_eq(files[0].packets, "0:3");
	cr_expect_str_eq(files[1].packets, "0:4");
	cr_expect_eq(recorder.writer.window.n_deleted, 3);
}

Test(recorder_disk, the_files_of_a_quota_are_no_more_than_it)
{
	recorder.options.file_packets = 1;
	recorder.options.quota = 10000;
	recorder.options.count = 20;
	recorded_publish(0, 20, T, 1);
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect(n_files > 2 && n_files < 12, "%u", n_files);
	cr_expect_eq(recorder.writer.window.n_deleted, 20 - n_files);
	cr_expect_str_eq(files[n_files - 1].packets, "0:19");
	cr_expect_eq(recorder.writer.error, 0);
}

Test(recorder_disk, a_file_whose_sync_fails_keeps_its_part)
{
	const char *said;

	recorder.options.count = 2;
	recorded_publish(0, 2, T, 1);
	disk_fail(DISK_FDATASYNC, 0, 1, EIO);
	captured_begin();
	cr_expect_eq(recorded_run(NULL), 0);
	said = captured_end();
	cr_expect(strstr(said, "Input/output error"), "%s", said);
	cr_expect_eq(recorder.writer.error, EIO);
	cr_expect(has_file("a.pcapng.part") && !has_file("a.pcapng"));
}

Test(recorder_disk, names_are_synced_if_that_is_wanted)
{
	recorder.options.count = 1;
	recorder.options.sync = true;
	recorded_publish(0, 1, T, 1);
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_eq(disk_count(DISK_FSYNC), 1);
}

Test(recorder_disk, the_command_gets_each_file)
{
	char command[100], pattern[100];
	glob_t copies = {0};
	FILE *script;

	snprintf(command, sizeof(command), "%s/copy", recorded_folder);
	snprintf(pattern, sizeof(pattern), "%s/a*.pcapng.copy", recorded_folder);
	script = fopen(command, "w");
	cr_assert(script);
	fputs("#!/bin/sh\ncp \"$1\" \"$1.copy\"\n", script);
	fclose(script);
	cr_assert_eq(chmod(command, 0700), 0);
	recorder.options.command = command;
	recorder.options.file_packets = 1;
	recorder.options.count = 3;
	recorded_publish(0, 3, T, 1);
	cr_expect_eq(recorded_run(NULL), 0);
	for (unsigned i = 0; i < 500 && copies.gl_pathc < 3; i++) {
		usleep(10000);
		globfree(&copies);
		glob(pattern, 0, NULL, &copies);
	}
	cr_expect_eq(copies.gl_pathc, 3);
	globfree(&copies);
	cr_expect_eq(n_files, 3);
	cr_expect_eq(recorder.writer.n_files, 3);
}
