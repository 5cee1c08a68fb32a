// SPDX-License-Identifier: Apache-2.0
/* A disk that is full or broken: a file ends where the last write ended that did not fail. */
#include "lib/recording/recording_words.h"
#include "tests/unit/tools/captured.h"
#include "tests/unit/tools/disk.h"
#include "tests/unit/tools/own_folder.h"
#include "tools/record/file_window.h"
#include "tools/record/part_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1 << 20)

static char folder[] = "part_failures.XXXXXX", path[PATH_MAX];
static struct part_file file, meta;
static uint8_t zeros[1 << 19];

static void begin(void)
{
	own_folder_enter(folder);
	disk_type = EXT4_SUPER_MAGIC;
	disk_free_bytes = UINT64_C(1) << 40;
	strcpy(path, "a");
	cr_assert_eq(part_file_open(&file, path, true), 0);
	meta = PART_FILE_CLOSED;
}

static void end(void)
{
	part_file_close(&meta);
	part_file_close(&file);
	own_folder_leave(folder);
}

TestSuite(part_file_failures, .init = begin, .fini = end);

static int append(const char *text)
{
	return part_file_write(&file, text, strlen(text), PART_FILE_CACHED);
}

/* The file is this text, now and when it is complete. */
static void expect_text(const char *text)
{
	char found[64] = "";

	cr_expect_eq(pread(file.fd, found, sizeof(found) - 1, 0), (ssize_t)strlen(text));
	cr_expect_str_eq(found, text);
	cr_expect_eq(file.bytes, strlen(text));
}

/* ---- writing --------------------------------------------------------------------------------------- */

Test(part_file_failures, a_write_in_parts_is_whole)
{
	cr_assert_eq(append("one "), 0);
	disk_fail(DISK_PWRITE, 0, 5, 0);
	cr_expect_eq(append("thousand"), 0);
	cr_expect_eq(disk_count(DISK_PWRITE), 1 + 6);
	disk_fail(DISK_PWRITE, 0, 2, EINTR);
	cr_expect_eq(append(" and one"), 0);
	expect_text("one thousand and one");
}

Test(part_file_failures, a_write_that_fails_half_way_leaves_nothing)
{
	cr_assert_eq(append("one"), 0);
	disk_fail(DISK_PWRITE, 0, 1, 0);
	cr_assert_eq(append("x"), 0);
	disk_fail(DISK_PWRITE, 0, 1, EIO);
	cr_expect_eq(append("two"), -EIO);
	expect_text("onex");
	disk_fail(DISK_PWRITE, 0, 1, ENOSPC);
	disk_fail(DISK_FTRUNCATE, 0, 1, EROFS);
	cr_expect_eq(append("two"), -EROFS, "the file has more than it should");
	cr_expect_eq(append("three"), 0);
	expect_text("onexthree");
}

Test(part_file_failures, room_is_allocated_ahead_in_proportion_to_the_file)
{
	file.end_bytes = 1000;
	cr_assert_eq(append("one"), 0);
	cr_expect(disk_allocated_at == 0 && disk_allocated_bytes == 1003 + MIB, "%ld", disk_allocated_bytes);
	cr_expect_eq(file.allocated, 1003 + MIB);
	cr_assert_eq(append("two"), 0);
	cr_expect_eq(disk_count(DISK_FALLOCATE), 1, "there is enough");
	file.bytes = 3 * MIB;
	cr_assert_eq(append("two"), 0);
	cr_expect(disk_allocated_at == 3 * MIB && disk_allocated_bytes == 1003 + 3 * MIB);
	file.bytes = 30 * MIB;
	cr_assert_eq(append("two"), 0);
	cr_expect(disk_allocated_at == 30 * MIB && disk_allocated_bytes == 1003 + 16 * MIB);
	file.bytes = file.allocated - 1003;
	cr_assert_eq(append("two"), 0);
	cr_expect_eq(disk_count(DISK_FALLOCATE), 3, "it is just enough");
	cr_assert_eq(append("x"), 0);
	cr_expect_eq(disk_count(DISK_FALLOCATE), 4);
}

Test(part_file_failures, a_small_disk_is_not_eaten)
{
	file.end_bytes = 1000;
	disk_free_bytes = 64 * 5000;
	cr_assert_eq(append("one"), 0);
	cr_expect_eq(disk_allocated_bytes, 1003 + 5000);
	part_file_close(&file);
	cr_assert_eq(part_file_open(&file, path, true), 0);
	cr_assert_eq(append("one"), 0);
	cr_expect_eq(file.allocated, 0, "without an end nothing is allocated");
}

Test(part_file_failures, in_memory_only_the_end_is_allocated)
{
	part_file_close(&file);
	disk_type = TMPFS_MAGIC;
	cr_assert_eq(part_file_open(&file, path, true), 0);
	cr_assert_eq(append("zero"), 0);
	cr_expect_eq(disk_count(DISK_FALLOCATE), 0);
	file.end_bytes = 1000;
	cr_assert_eq(append("one"), 0);
	cr_expect(disk_allocated_at == 7 && disk_allocated_bytes == 1000);
	disk_fail(DISK_FALLOCATE, 0, 1, ENOSPC);
	cr_expect_eq(append("two"), -ENOSPC);
	expect_text("zeroone");
	cr_assert_eq(part_file_open_beside(&meta, &file, RECORDING_META), 0);
	cr_expect(file.is_in_memory && meta.is_in_memory);
}

Test(part_file_failures, without_room_ahead_less_is_allocated)
{
	file.end_bytes = 1000;
	disk_fail(DISK_FALLOCATE, 0, 1, ENOSPC);
	cr_expect_eq(append("one"), 0);
	cr_expect(disk_allocated_at == 0 && disk_allocated_bytes == 1003);
	cr_expect_eq(file.allocated, 1003);
	disk_fail(DISK_FALLOCATE, 0, 2, EDQUOT);
	cr_expect_eq(append("two"), -EDQUOT);
	expect_text("one");
	cr_expect(disk_allocated_at == 3 && disk_allocated_bytes == 1000, "the room for the end is kept");
	disk_fail(DISK_FALLOCATE, 0, 2, EFBIG);
	cr_expect_eq(append("two"), -EFBIG);
	disk_fail(DISK_FALLOCATE, 0, 9, EOPNOTSUPP);
	cr_expect_eq(append("two"), 0, "not every file system can do it");
	expect_text("onetwo");
	disk_fail(DISK_FALLOCATE, 0, 1, ENOSPC);
	disk_fail(DISK_FTRUNCATE, 0, 2, EROFS);
	file.allocated = 0;
	cr_expect_eq(append("x"), -EROFS);
}

Test(part_file_failures, long_writes_go_to_the_disk_at_once)
{
	cr_assert_eq(part_file_write(&file, zeros, 100, PART_FILE_TO_DISK), 0);
	cr_expect_eq(disk_count(DISK_SYNC_FILE_RANGE), 1);
	cr_assert_eq(part_file_write(&file, zeros, 100, PART_FILE_CACHED), 0);
	cr_expect_eq(disk_count(DISK_SYNC_FILE_RANGE), 1);
	cr_expect_eq(file.direct_bytes, 0);
	cr_assert_eq(part_file_cut(&file, 0), 0);
	cr_expect_eq(size_of("a.part"), 0);
}

Test(part_file_failures, a_text_is_replaced_or_stays)
{
	cr_assert_eq(append("a long text"), 0);
	file.end_bytes = 100;
	cr_expect_eq(part_file_replace(&file, "short", 5), 0);
	expect_text("short");
	cr_expect(disk_allocated_at == 0 && disk_allocated_bytes == 105);
	cr_expect_eq(part_file_replace(&file, "longer", 6), 0);
	expect_text("longer");
	disk_fail(DISK_FALLOCATE, 0, 1, ENOSPC);
	cr_expect_eq(part_file_replace(&file, "no", 2), -ENOSPC);
	expect_text("longer");
	disk_fail(DISK_FTRUNCATE, 0, 1, EIO);
	cr_expect_eq(part_file_replace(&file, "no", 2), -EIO);
	disk_fail(DISK_PWRITE, 0, 1, EIO);
	cr_expect_eq(part_file_replace(&file, "longer", 6), -EIO);
}

/* ---- the end --------------------------------------------------------------------------------------- */

static int name_both(bool sync)
{
	struct part_file both[] = {file, meta};

	return part_file_name_all(both, 2, sync);
}

Test(part_file_failures, what_the_disk_did_not_take_is_told)
{
	cr_assert_eq(append("one"), 0);
	disk_fail(DISK_FDATASYNC, 0, 1, EIO);
	cr_expect_eq(part_file_finish(&file, true), -EIO);
	cr_expect_eq(part_file_finish(&file, true), 0);
	cr_expect_eq(disk_count(DISK_FDATASYNC), 2);
	cr_expect_eq(part_file_finish(&file, false), 0);
	cr_expect_eq(disk_count(DISK_FDATASYNC), 2);
	disk_fail(DISK_FTRUNCATE, 0, 1, EROFS);
	cr_expect_eq(part_file_finish(&file, false), -EROFS);
}

Test(part_file_failures, names_are_on_the_disk_if_that_is_wanted)
{
	cr_expect_eq(name_both(false), 0);
	cr_expect_eq(disk_count(DISK_FSYNC), 0);
	cr_expect_eq(size_of("a"), 0);
	part_file_close(&file);
	cr_assert_eq(part_file_open(&file, path, false), 0);
	disk_fail(DISK_FSYNC, 0, 1, EINVAL);
	cr_expect_eq(name_both(true), 0, "not every file system can do it");
	part_file_close(&file);
	cr_assert_eq(part_file_open(&file, path, false), 0);
	disk_fail(DISK_FSYNC, 0, 1, EIO);
	cr_expect_eq(name_both(true), -EIO);
	cr_expect_eq(disk_count(DISK_FSYNC), 2);
}

Test(part_file_failures, a_rename_that_fails_takes_the_others_back)
{
	cr_assert_eq(part_file_open_beside(&meta, &file, RECORDING_META), 0);
	disk_fail(DISK_RENAMEAT, 1, 1, EIO);
	cr_expect_eq(name_both(false), -EIO);
	cr_expect(size_of("a") < 0 && size_of("a.part") == 0 && size_of("a.part.meta") == 0);
	disk_fail(DISK_RENAMEAT, 0, 1, EIO);
	cr_expect_eq(name_both(false), -EIO);
	cr_expect_eq(disk_count(DISK_RENAMEAT), 2 + 1 + 1, "of the first there is nothing to take back");
	cr_expect_eq(name_both(false), 0);
	cr_expect(size_of("a") == 0 && size_of("a.meta") == 0 && size_of("a.part") < 0);
}

Test(part_file_failures, a_file_that_is_discarded_is_gone)
{
	cr_assert_eq(part_file_open_beside(&meta, &file, RECORDING_META), 0);
	part_file_discard(&meta);
	part_file_discard(&file);
	cr_expect(size_of("a.part") < 0 && size_of("a.part.meta") < 0);
	cr_expect(file.fd == -1 && file.folder == -1 && meta.fd == -1);
}

/* ---- opening --------------------------------------------------------------------------------------- */

Test(part_file_failures, names_that_are_too_long_and_folders_that_are_not_there)
{
	struct part_file other;

	memset(path, 'x', 251);
	path[251] = '\0';
	cr_expect_eq(part_file_open(&other, path, true), -ENAMETOOLONG);
	path[250] = '\0';
	cr_expect_eq(part_file_open(&other, path, true), 0);
	cr_expect_eq(part_file_open_beside(&meta, &other, RECORDING_META), -ENAMETOOLONG);
	part_file_close(&other);
	strcpy(path, "not/there");
	cr_expect_eq(part_file_open(&other, path, true), -ENOENT);
	strcpy(path, "/dev/null");
	cr_expect_eq(part_file_open(&other, path, true), 0, "a device is opened as it is");
	cr_expect(other.fd >= 0 && !part_file_is_regular(&other));
	cr_expect_eq(part_file_write(&other, "x", 1, PART_FILE_TO_DISK), 0);
	cr_expect_eq(other.bytes, 1);
	cr_expect_eq(part_file_finish(&other, true), 0);
	part_file_discard(&other);
	cr_expect_eq(access("/dev/null", F_OK), 0);
}

Test(part_file_failures, what_was_left_stays_if_it_cannot_be_put_aside)
{
	const char *said;

	cr_assert_eq(append("left"), 0);
	part_file_close(&file);
	disk_fail(DISK_RENAMEAT2, 0, 1, EROFS);
	captured_begin();
	cr_expect_eq(part_file_open(&file, path, true), -EROFS);
	cr_expect_str_eq(captured_end(), "");
	cr_expect_eq(size_of("a.part"), 4);
	disk_fail(DISK_RENAMEAT2, 0, 1, EINVAL);
	captured_begin();
	cr_expect_eq(part_file_open(&file, path, true), 0, "not every file system can refuse to replace a file");
	said = captured_end();
	cr_expect_str_eq(said, "ibvcap record: a.part is what a recorder that was killed has left: now a.part.old\n");
	cr_expect_eq(size_of("a.part.old"), 4);
	cr_expect_eq(size_of("a.part"), 0);
}
