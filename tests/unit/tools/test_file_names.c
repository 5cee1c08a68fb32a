// SPDX-License-Identifier: Apache-2.0
/* Names of files, and which of them give way to a quota, a number of files and a disk limit. */
#include "tests/unit/tools/disk.h"
#include "tests/unit/tools/own_folder.h"
#include "tools/record/file_window.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define T UINT64_C(1795334400000000000) /* 2026-11-22T08:00:00 */

static char folder[] = "file_names.XXXXXX";
static struct file_window window;
static char path[PATH_MAX];

static void enter_names(void)
{
	own_folder_enter(folder);
}

static void leave_names(void)
{
	file_window_deinit(&window);
	own_folder_leave(folder);
}

TestSuite(file_names, .init = enter_names, .fini = leave_names);

static void begin_window(struct file_window made)
{
	window = made;
	cr_assert_eq(file_window_init(&window), 0);
}

static void make_file(const char *name, size_t bytes)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
	close(fd);
}

static bool is_there(const char *name)
{
	return access(name, F_OK) == 0;
}

static void expect_name(const char *flow, const char *name)
{
	cr_expect_eq(file_window_name(&window, T, flow, path), 0);
	cr_expect_str_eq(path, name);
}

/* ---- names ----------------------------------------------------------------------------------------- */

Test(file_names, numbers_and_the_time_go_before_the_ending)
{
	cr_assert_eq(mkdir("d.1", 0755), 0);
	begin_window((struct file_window){.pattern = "d.1/a.pcapng.zst", .numbered = true});
	expect_name(NULL, "d.1/a_00001_20261122080000.pcapng.zst");
	expect_name("lidar-3", "d.1/a_lidar-3_00002_20261122080000.pcapng.zst");
	cr_expect_not(window.may_replace);
	begin_window((struct file_window){.pattern = ".hidden", .numbered = true});
	expect_name(NULL, ".hidden_00001_20261122080000");
	begin_window((struct file_window){.pattern = "./a", .numbered = true});
	expect_name(NULL, "./a_00001_20261122080000");
}

Test(file_names, one_file_has_the_name_as_it_is_and_may_replace_another)
{
	make_file("a.pcapng", 1);
	begin_window((struct file_window){.pattern = "a.pcapng"});
	expect_name(NULL, "a.pcapng");
	cr_expect(window.may_replace);
	expect_name(NULL, "a_00002_20261122080000.pcapng");
	cr_expect_not(window.may_replace);
	begin_window((struct file_window){.pattern = "b.pcapng", .by_flow = true});
	expect_name("s-0", "b_s-0.pcapng");
	cr_expect_not(window.may_replace);
	make_file("b_s-1.pcapng", 1);
	expect_name("s-1", "b_s-1_00002_20261122080000.pcapng");
}

Test(file_names, the_time_of_a_pattern_is_that_of_the_file)
{
	struct open_file open_one = {0};

	begin_window((struct file_window){.pattern = "t%H%M.pcapng", .numbered = true});
	expect_name(NULL, "t0800.pcapng");
	make_file("t0800.pcapng", 1);
	expect_name(NULL, "t0800_00002.pcapng");
	make_file("t0800_00003.pcapng", 1);
	expect_name(NULL, "t0800_00004.pcapng");
	make_file("t0800_s-1.pcapng", 1);
	expect_name("s-1", "t0800_s-1_00005.pcapng");
	file_window_open(&window, &open_one, "t0800_s-2.pcapng");
	expect_name("s-2", "t0800_s-2_00006.pcapng");
	file_window_close(&window, &open_one);
	expect_name("s-2", "t0800_s-2.pcapng");
}

Test(file_names, a_number_whose_name_is_there_is_left_out)
{
	begin_window((struct file_window){.pattern = "a", .numbered = true});
	make_file("a_00001_20261122080000", 1);
	make_file("a_00002_20261122080000", 1);
	expect_name(NULL, "a_00003_20261122080000");
	cr_assert_eq(mkdir("a_00004_20261122080000", 0755), 0);
	expect_name(NULL, "a_00004_20261122080000");
}

Test(file_names, numbers_go_on_behind_those_of_the_last_run)
{
	make_file("a_00010_20261122080000.pcapng", 1);
	make_file("a_999999999_2026112208000.pcapng", 1);
	make_file("a_0011_20261122080000.pcapng", 1);
	make_file("a_00012_20261122080000.pcap", 1);
	make_file("b_00012_20261122080000.pcapng", 1);
	begin_window((struct file_window){.pattern = "a.pcapng", .numbered = true});
	expect_name(NULL, "a_00011_20261122080000.pcapng");
	make_file("a_s0-12_00020_20261122080000.pcapng", 1);
	begin_window((struct file_window){.pattern = "a.pcapng", .numbered = true});
	expect_name(NULL, "a_00011_20261122080000.pcapng");
}

Test(file_names, too_long_names_are_refused)
{
	static char pattern[PATH_MAX + 10];
	int r;

	memset(pattern, 'x', PATH_MAX);
	window = (struct file_window){.pattern = pattern, .number = 1};
	TAILQ_INIT(&window.open);
	STAILQ_INIT(&window.kept);
	cr_expect_eq(file_window_name(&window, T, NULL, path), -ENAMETOOLONG);
	pattern[PATH_MAX - 1] = '\0';
	cr_expect_eq(file_window_name(&window, T, NULL, path), 0);
	window.number = 1;
	r = file_window_name(&window, T, "s-1", path);
	cr_expect_eq(r, -ENAMETOOLONG);
	pattern[PATH_MAX - 2] = 'Y';
	pattern[PATH_MAX - 3] = '%';
	cr_expect_eq(file_window_name(&window, T, NULL, path), -ENAMETOOLONG);
	memset(pattern, 'x', PATH_MAX);
	pattern[PATH_MAX - 20] = '\0';
	window.numbered = true;
	cr_expect_eq(file_window_name(&window, T, NULL, path), -ENAMETOOLONG);
}

Test(file_names, a_pattern_finds_all_of_its_names)
{
	char glob[FILE_NAMES_GLOB_BYTES];

	cr_expect(file_names_glob("d/a.pcapng", glob));
	cr_expect_str_eq(glob, "d/a*.pcapng*");
	cr_expect(file_names_glob("d/a%Y.pcapng", glob));
	cr_expect_str_eq(glob, "d/a**.pcapng*");
	cr_expect_not(file_names_glob("d%-5Ey/a.pcapng", glob), "in several folders");
	cr_expect_str_eq(glob, "d*/a*.pcapng*");
	cr_expect(file_names_glob("a%%[?*\\b", glob));
	cr_expect_str_eq(glob, "a%\\[\\?\\*\\\\b*");
}

Test(file_names, places_where_no_file_can_be_made)
{
	struct failure failure;

	cr_expect_eq(file_window_check("-", &failure), 0);
	cr_expect_eq(file_window_check("a.pcapng", &failure), 0);
	cr_expect_eq(file_window_check("/dev/null", &failure), 0);
	cr_expect_eq(file_window_check("not/there", &failure), -ENOENT);
	cr_expect_eq(file_window_check("%Y/there", &failure), 0, "it may come");
	make_file("file", 1);
	cr_expect_eq(file_window_check("file", &failure), 0);
	cr_expect_eq(file_window_check("file/a", &failure), -ENOTDIR);
}

/* ---- the window ------------------------------------------------------------------------------------ */

static void keep(const char *name, size_t bytes)
{
	make_file(name, bytes);
	cr_assert_eq(file_window_add(&window, name), 0);
}

Test(file_names, a_number_of_files_is_kept)
{
	begin_window((struct file_window){.pattern = "a", .files = 2});
	cr_expect(file_window_has_limit(&window));
	keep("1", 10);
	keep("2", 20);
	cr_expect(is_there("1"));
	keep("3", 30);
	cr_expect(!is_there("1") && is_there("2") && is_there("3"));
	cr_expect(window.n_kept == 2 && window.kept_bytes == 50 && window.n_deleted == 1);
	cr_expect_eq(file_window_add(&window, "none"), -ENOENT);
}

Test(file_names, without_a_limit_nothing_is_deleted)
{
	begin_window((struct file_window){.pattern = "a"});
	keep("1", 10);
	cr_expect_eq(window.n_kept, 0);
	cr_expect_not(file_window_give_way(&window));
	cr_expect(file_window_make_room(&window, STDIN_FILENO, UINT64_C(1) << 40));
	cr_expect(is_there("1"));
}

Test(file_names, a_quota_counts_what_is_kept_what_is_full_and_what_is_written)
{
	struct open_file full = {0};

	begin_window((struct file_window){.pattern = "a", .quota = 1000});
	keep("1", 300);
	keep("2", 300);
	cr_expect(file_window_make_room(&window, -1, 400));
	cr_expect(is_there("1"));
	cr_expect(file_window_make_room(&window, -1, 401));
	cr_expect(!is_there("1") && is_there("2"));
	cr_expect_eq(window.kept_bytes, 300);
	file_window_open(&window, &full, "3");
	cr_expect_eq(window.full_bytes, 0);
	file_window_fill(&window, &full, 500, NULL);
	cr_expect_eq(window.full_bytes, 500);
	cr_expect(file_window_make_room(&window, -1, 200));
	cr_expect(is_there("2"));
	cr_expect(file_window_make_room(&window, -1, 201));
	cr_expect_not(is_there("2"));
	cr_expect(file_window_make_room(&window, -1, 1000));
	cr_expect_not(file_window_make_room(&window, -1, 1001));
	file_window_close(&window, &full);
	cr_expect_eq(window.full_bytes, 0);
	file_window_close(&window, &full);
	cr_expect_eq(window.n_deleted, 2);
}

static unsigned n_discarded;

static void count_discarded(struct open_file *open)
{
	(void)open;
	n_discarded++;
}

Test(file_names, files_that_are_full_give_way_behind_those_that_are_complete)
{
	struct open_file full[2] = {0}, filling = {0};

	begin_window((struct file_window){.pattern = "a", .disk_limit = 50});
	keep("1", 300);
	for (unsigned i = 0; i < 2; i++) {
		file_window_open(&window, &full[i], i ? "3" : "2");
		file_window_fill(&window, &full[i], 100, count_discarded);
	}
	file_window_open(&window, &filling, "4");
	cr_expect(file_window_give_way(&window) && !is_there("1") && n_discarded == 0);
	cr_expect(file_window_give_way(&window) && n_discarded == 1 && !full[0].path[0] && full[1].path[0]);
	cr_expect_eq(window.full_bytes, 100);
	cr_expect(file_window_give_way(&window) && n_discarded == 2);
	cr_expect_not(file_window_give_way(&window));
	cr_expect_eq(window.n_deleted, 3);
	cr_expect_str_eq(filling.path, "4");
}

Test(file_names, a_disk_limit_is_that_of_df)
{
	int fd = open(".", O_RDONLY);

	begin_window((struct file_window){.pattern = "a", .disk_limit = 90});
	keep("1", 300);
	/* Of 1100 bytes root has 100: 900 of 1000 are used. */
	disk_total_bytes = 1100;
	disk_free_bytes = 100;
	cr_expect(file_window_make_room(&window, fd, 1));
	cr_expect(is_there("1"));
	disk_free_bytes = 99;
	cr_expect_not(file_window_make_room(&window, fd, 1), "the limit is not met");
	cr_expect_not(is_there("1"));
	close(fd);
}

Test(file_names, links_are_not_kept)
{
	begin_window((struct file_window){.pattern = "a", .files = 9});
	make_file("1", 1);
	cr_assert_eq(symlink("1", "2"), 0);
	cr_expect_eq(file_window_add(&window, "2"), 0);
	cr_expect_eq(window.n_kept, 0);
}
