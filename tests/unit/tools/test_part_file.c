// SPDX-License-Identifier: Apache-2.0
/* Files get their names together or not at all, and what a killed recorder has left is never overwritten. */
#include "lib/recording/recording_words.h"
#include "tools/record/part_file.h"
#include "tests/unit/tools/own_folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "part_file.XXXXXX", path[PATH_MAX];
static struct part_file rows, meta;

static void enter_folder(void)
{
	own_folder_enter(folder);
}

static void leave_folder(void)
{
	part_file_close(&meta);
	part_file_close(&rows);
	own_folder_leave(folder);
}

TestSuite(part_file, .init = enter_folder, .fini = leave_folder);

static bool has(const char *name, const char *text)
{
	char found[64] = "";
	int fd = open(name, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof(found) - 1);

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text) && !strcmp(found, text);
}

static void begin(const char *text)
{
	strcpy(path, "a");
	cr_assert_eq(part_file_open(&rows, path, false), 0);
	cr_assert_eq(part_file_open_beside(&meta, &rows, RECORDING_META), 0);
	cr_assert_eq(part_file_write(&rows, text, strlen(text), PART_FILE_TO_DISK), 0);
	cr_assert_eq(part_file_write(&meta, text, strlen(text), PART_FILE_CACHED), 0);
}

/* As a recorder that is killed. */
static void leave(void)
{
	part_file_close(&meta);
	part_file_close(&rows);
}

static int name_both(void)
{
	struct part_file both[] = {rows, meta};

	cr_assert_eq(part_file_finish(&rows, true), 0);
	cr_assert_eq(part_file_finish(&meta, true), 0);
	return part_file_name_all(both, 2, true);
}

Test(part_file, files_get_their_names_together_or_not_at_all)
{
	begin("one");
	cr_assert_eq(mkdir("a.meta", 0755), 0);
	cr_expect_eq(name_both(), -EISDIR);
	cr_expect(has("a.part", "one") && has("a.part.meta", "one"));
	cr_expect_neq(access("a", F_OK), 0);
	cr_assert_eq(rmdir("a.meta"), 0);
	cr_expect_eq(name_both(), 0);
	cr_expect(has("a", "one") && has("a.meta", "one"));
}

Test(part_file, what_was_left_is_never_overwritten)
{
	static const char *const texts[] = {"first", "second", "third", "fourth"};

	for (unsigned i = 0; i < 4; i++) {
		begin(texts[i]);
		leave();
	}
	cr_expect(has("a.part.old", "first") && has("a.part.old.meta", "first"));
	cr_expect(has("a.part.old2", "second") && has("a.part.old2.meta", "second"));
	cr_expect(has("a.part.old3", "third") && has("a.part.old3.meta", "third"));
	cr_expect(has("a.part", "fourth"));
	/* Killed between two renames: only the meta is left. */
	cr_assert_eq(rename("a.part", "a"), 0);
	begin("fifth");
	cr_expect(has("a.part.old4.meta", "fourth") && has("a", "fourth") && has("a.part", "fifth"));
}

Test(part_file, a_name_that_another_recorder_has_given_meanwhile_is_not_taken)
{
	begin("one");
	cr_assert_eq(name_both(), 0);
	leave();
	cr_expect_eq(part_file_open(&rows, path, true), -EALREADY);
	cr_expect(has("a", "one"));
	cr_expect_neq(access("a.part", F_OK), 0);
}

Test(part_file, what_is_no_file_is_refused)
{
	strcpy(path, "a");
	cr_assert_eq(mkfifo("a.part", 0644), 0);
	cr_expect_eq(part_file_open(&rows, path, true), -EEXIST);
	cr_assert_eq(unlink("a.part"), 0);
	cr_assert_eq(symlink("elsewhere", "a.part"), 0);
	cr_expect_eq(part_file_open(&rows, path, true), -ELOOP);
	cr_expect_neq(access("elsewhere", F_OK), 0);
}

/* Another user can make a hard link to a file of root, unless fs.protected_hardlinks forbids it. */
Test(part_file, a_hard_link_is_not_written_through)
{
	int fd = open("elsewhere", O_WRONLY | O_CREAT, 0644);

	cr_assert_geq(fd, 0);
	close(fd);
	cr_assert_eq(link("elsewhere", "a.part"), 0);
	cr_assert_eq(link("elsewhere", "a.part.meta"), 0);
	begin("one");
	cr_expect(has("elsewhere", "") && has("a.part", "one") && has("a.part.meta", "one"));
}

Test(part_file, one_recorder_at_a_time)
{
	struct part_file other;

	begin("one");
	cr_expect_eq(part_file_open(&other, path, false), -EBUSY);
	leave();
}

Test(part_file, a_file_that_took_the_place_is_not_renamed)
{
	int fd;

	begin("one");
	cr_assert_eq(rename("a.part", "elsewhere"), 0);
	fd = open("a.part", O_WRONLY | O_CREAT, 0644);
	cr_assert_geq(fd, 0);
	close(fd);
	cr_expect_eq(name_both(), -ESTALE);
	cr_expect(has("elsewhere", "one"));
	cr_expect_neq(access("a", F_OK), 0);
}

Test(part_file, a_folder_that_is_renamed_keeps_its_files)
{
	cr_assert_eq(mkdir("b", 0755), 0);
	strcpy(path, "b/a");
	cr_assert_eq(part_file_open(&rows, path, false), 0);
	cr_assert_eq(part_file_open_beside(&meta, &rows, RECORDING_META), 0);
	cr_assert_eq(part_file_write(&rows, "one", 3, PART_FILE_CACHED), 0);
	cr_assert_eq(rename("b", "c"), 0);
	cr_assert_eq(mkdir("b", 0755), 0);
	cr_expect_eq(name_both(), 0);
	cr_expect(has("c/a", "one"));
	cr_expect_neq(access("b/a", F_OK), 0);
}

Test(part_file, a_write_that_fails_leaves_nothing_and_no_room_taken)
{
	static const char text[300000];
	struct stat status;

	begin("one");
	rows.end_bytes = 1 << 16;
	rows.direct = open("/dev/full", O_WRONLY);
	for (size_t i = 0; i < 4096; i++)
		if (((uintptr_t)text + i - rows.bytes) % DISK_PAGE_BYTES == 0)
			cr_expect_eq(part_file_write(&rows, text + i, sizeof(text) - i, PART_FILE_TO_DISK), -ENOSPC);
	cr_expect(has("a.part", "one"));
	cr_assert_eq(stat("a.part", &status), 0);
	cr_expect_leq(status.st_blocks * 512, (1 << 16) + 2 * 4096);
	cr_expect_eq(part_file_finish(&rows, false), 0);
	cr_assert_eq(stat("a.part", &status), 0);
	cr_expect_leq(status.st_blocks * 512, 4096);
}
