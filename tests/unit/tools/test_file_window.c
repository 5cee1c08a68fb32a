// SPDX-License-Identifier: Apache-2.0
/* A window deletes files of the same recording, and no others, whatever they are called. */
#include "lib/recording/pcapng.h"
#include "tests/unit/tools/own_folder.h"
#include "tools/record/file_window.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "file_window.XXXXXX", pattern[96];
static char lidar[] = "lidar", imu[] = "imu";
static char *streams[] = {lidar, imu};
static struct file_window window;
static int age;

static void make_folder(void)
{
	cr_assert(mkdtemp(folder));
}

static void remove_folder(void)
{
	file_window_deinit(&window);
	own_folder_remove(folder);
}

TestSuite(file_window, .init = make_folder, .fini = remove_folder);

/* The one after is younger. */
static void put(const char *name, const void *at, size_t bytes)
{
	struct timespec times[2] = {{.tv_sec = 1000 + age}, {.tv_sec = 1000 + age}};
	char path[96];
	int fd;

	age++;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, at, bytes), (ssize_t)bytes);
	cr_assert_eq(futimens(fd, times), 0);
	close(fd);
}

static void put_recording(const char *name, const char *application, const char *first, const char *second,
                          const char *description)
{
	struct pcapng_section section = {.application = pcapng_text_of(application)};
	const char *const interfaces[] = {first, second};
	uint8_t blocks[1000];
	size_t n = pcapng_write_section(blocks, sizeof(blocks), &section);

	for (unsigned i = 0; i < 2 && interfaces[i]; i++) {
		struct pcapng_interface interface = {.name = pcapng_text_of(interfaces[i]),
		                                     .description = pcapng_text_of(description)};

		n += pcapng_write_interface(blocks + n, sizeof(blocks) - n, &interface);
	}
	put(name, blocks, n);
}

static void put_own(const char *name)
{
	put_recording(name, "ibvcap 0", "lidar", NULL, "interface x");
}

static bool is_there(const char *name)
{
	char path[96];
	struct stat status;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return lstat(path, &status) == 0;
}

static void begin(const char *base, unsigned n_streams, bool by_flow)
{
	file_window_deinit(&window);
	snprintf(pattern, sizeof(pattern), "%s/%s", folder, base);
	window = (struct file_window){.pattern = pattern,
	                              .numbered = true,
	                              .by_flow = by_flow,
	                              .files = 1,
	                              .streams = {.names = streams, .n = n_streams}};
	cr_assert_eq(file_window_init(&window), 0);
}

Test(file_window, links_and_too_long_numbers_are_no_files_of_an_earlier_run)
{
	char link[96];

	put_own("c_00007_20261123014500.pcapng");
	put_own("c_4294967295_20261123014500.pcapng");
	snprintf(link, sizeof(link), "%s/c_00009_20261123014500.pcapng", folder);
	cr_assert_eq(symlink("c_00007_20261123014500.pcapng", link), 0);
	begin("c.pcapng", 1, false);
	cr_expect_eq(window.n_kept, 1);
	cr_expect_eq(window.number, 10);
}

Test(file_window, a_fitting_name_is_no_proof)
{
	put_own("a_00001_20261123014500.pcapng");
	put_own("a_00002_20261123014500.pcapng.part");
	put_recording("a_00003_20261123014500.pcapng", "Dumpcap", "lidar", NULL, "");
	put_recording("a_00004_20261123014500.pcapng", "ibvcap 0", "lidar_2", NULL, "");
	put_recording("a_00005_20261123014500.pcapng", "ibvcap 0", "lidar", "imu", "");
	put_recording("a_00006_20261123014500.pcapng", "ibvcap 0", "lidar", NULL, "only flow 3");
	put("a_00007_20261123014500.pcapng", "notes", 5);
	put("a_00008_20261123014500.pcapng", "", 0);
	put_own("a_9_00009_20261123014500.pcapng");
	put_own("a_00010_2026112301450.pcapng");
	put_own("a_00011_20261123014500.pcapng.part.old");
	put_own("a_00012_20261123014500.pcapng.part.part");
	begin("a.pcapng", 1, false);
	cr_expect_eq(window.n_kept, 2);
	cr_expect_eq(window.number, 9, "no name that is there comes again");
	while (file_window_give_way(&window))
		;
	cr_expect_eq(window.n_deleted, 2);
	cr_expect_not(is_there("a_00001_20261123014500.pcapng"));
	cr_expect_not(is_there("a_00002_20261123014500.pcapng.part"));
	cr_expect(is_there("a_00003_20261123014500.pcapng") && is_there("a_00004_20261123014500.pcapng") &&
	          is_there("a_00005_20261123014500.pcapng") && is_there("a_00006_20261123014500.pcapng"));
	begin("a.pcapng", 2, false);
	cr_expect_eq(window.n_kept, 1, "of both streams");
}

Test(file_window, files_of_each_flow_are_those_of_a_stream_that_is_recorded)
{
	put_recording("a_lidar-0_00001_20261123014500.pcapng", "ibvcap 0", "lidar", NULL, "only flow 0");
	put_recording("a_lidar-12_00002_20261123014500.pcapng", "ibvcap 0", "lidar/0", "lidar/1", "x, only flow 12");
	put_recording("a_imu-0_00003_20261123014500.pcapng", "ibvcap 0", "imu", NULL, "only flow 0");
	/* Of a recorder of lidar_2 with the pattern a_2. */
	put_recording("a_2_lidar_2-0_00004_20261123014500.pcapng", "ibvcap 0", "lidar_2", NULL, "only flow 0");
	put_recording("a_2_lidar-0_00004_20261123014500.pcapng", "ibvcap 0", "lidar", NULL, "only flow 0");
	/* Not what its name says. */
	put_recording("a_lidar-1_00005_20261123014500.pcapng", "ibvcap 0", "lidar", NULL, "only flow 0");
	put_recording("a_lidar-2_00006_20261123014500.pcapng", "ibvcap 0", "imu", NULL, "only flow 2");
	put_own("a_00007_20261123014500.pcapng");
	begin("a.pcapng", 1, true);
	cr_expect_eq(window.n_kept, 2);
	begin("a.pcapng", 2, true);
	cr_expect_eq(window.n_kept, 3);
}

Test(file_window, names_of_the_time_are_found_again)
{
	put_own("t20261123-0145.pcapng");
	put_own("t20261123-0146_00002.pcapng");
	put_own("t20261123-0147.pcapng.part");
	put_own("t20261323-0145.pcapng");
	put_own("t20261123-145.pcapng");
	put_own("t20261123-0145x.pcapng");
	put_own("tomorrow.pcapng");
	put_recording("t20261123-0148_lidar-7_00003.pcapng", "ibvcap 0", "lidar", NULL, "only flow 7");
	begin("t%Y%m%d-%H%M.pcapng", 1, false);
	cr_expect_eq(window.n_kept, 3);
	begin("t%Y%m%d-%H%M.pcapng", 1, true);
	cr_expect_eq(window.n_kept, 1);
	begin("t%%%Y[*].pcapng", 1, false);
	cr_expect_eq(window.n_kept, 0);
}

Test(file_window, a_file_that_another_recorder_writes_is_not_deleted)
{
	char path[96];
	int fd;

	put_own("a_00001_20261123014500.pcapng.part");
	put_own("a_00002_20261123014500.pcapng.part");
	snprintf(path, sizeof(path), "%s/a_00001_20261123014500.pcapng.part", folder);
	fd = open(path, O_RDONLY);
	cr_assert_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	begin("a.pcapng", 1, false);
	cr_expect_eq(window.n_kept, 1);
	close(fd);
	begin("a.pcapng", 1, false);
	cr_expect_eq(window.n_kept, 2);
	fd = open(path, O_RDONLY);
	cr_assert_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	while (file_window_give_way(&window))
		;
	cr_expect_eq(window.n_deleted, 1);
	cr_expect(is_there("a_00001_20261123014500.pcapng.part"));
	close(fd);
}

Test(file_window, a_file_of_this_run_is_deleted_although_a_child_has_its_lock)
{
	char path[96];
	int fd;

	begin("a.pcapng", 1, false);
	put_own("a_00001_20261123014500.pcapng");
	snprintf(path, sizeof(path), "%s/a_00001_20261123014500.pcapng", folder);
	fd = open(path, O_RDONLY);
	cr_assert_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	cr_assert_eq(file_window_add(&window, path), 0);
	cr_expect(file_window_give_way(&window));
	cr_expect_eq(window.n_deleted, 1);
	cr_expect_not(is_there("a_00001_20261123014500.pcapng"));
	close(fd);
}

/* A copy of a recording has such files, and one whose files take less than a tick of the kernel's clock each. */
Test(file_window, files_of_the_same_age_go_in_the_order_of_their_numbers)
{
	static const unsigned numbers[] = {99999, 3, 100001, 1, 100000, 20, 4, 2};
	static const unsigned order[] = {1, 2, 3, 4, 20, 99999, 100000, 100001};
	char name[64];

	for (unsigned i = 0; i < 8; i++, age--) {
		snprintf(name, sizeof(name), "a_%05u_20261123014500.pcapng", numbers[i]);
		put_own(name);
	}
	begin("a.pcapng", 1, false);
	for (unsigned i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "a_%05u_20261123014500.pcapng", order[i]);
		cr_expect(is_there(name), "%s", name);
		cr_expect(file_window_give_way(&window));
		cr_expect_not(is_there(name), "%s", name);
	}
}

Test(file_window, a_file_that_took_the_name_meanwhile_is_not_deleted)
{
	put_own("a_00001_20261123014500.pcapng");
	begin("a.pcapng", 1, false);
	cr_expect_eq(window.n_kept, 1);
	put("other", "notes", 5);
	put("a_00001_20261123014500.pcapng.index", "my notes", 8);
	cr_assert_eq(chdir(folder), 0);
	cr_assert_eq(rename("other", "a_00001_20261123014500.pcapng"), 0);
	cr_assert_eq(chdir(".."), 0);
	while (file_window_give_way(&window))
		;
	cr_expect_eq(window.n_deleted, 0);
	cr_expect(is_there("a_00001_20261123014500.pcapng"));
	/* And what lies beside a file and is no index stays. */
	put_own("a_00001_20261123014500.pcapng");
	begin("a.pcapng", 1, false);
	cr_expect(file_window_give_way(&window));
	cr_expect_not(is_there("a_00001_20261123014500.pcapng"));
	cr_expect(is_there("a_00001_20261123014500.pcapng.index"));
}

#define RAW_JSON(stream) "{\"stream\": \"" stream "\", \"meta_dtype\": [], \"shape\": [1, 8], \"sum\": {}}"

Test(file_window, raw_rows_are_known_by_their_description)
{
	put("r_00001_20261123014500.raw", "rows", 4);
	put("r_00001_20261123014500.raw.json", RAW_JSON("lidar"), sizeof(RAW_JSON("lidar")) - 1);
	put("r_00001_20261123014500.raw.meta", "meta", 4);
	put("r_00002_20261123014500.raw", "rows", 4);
	put("r_00002_20261123014500.raw.json", RAW_JSON("imu"), sizeof(RAW_JSON("imu")) - 1);
	put("r_00003_20261123014500.raw", "rows", 4);
	put("r_00003_20261123014500.raw.json", "{\"mine\": 1}", 11);
	put_own("r_00004_20261123014500.raw");
	file_window_deinit(&window);
	snprintf(pattern, sizeof(pattern), "%s/r.raw", folder);
	window = (struct file_window){
		.pattern = pattern, .numbered = true, .quota = 1, .streams = {streams, 1, .is_raw = true}};
	cr_assert_eq(file_window_init(&window), 0);
	cr_expect_eq(window.n_kept, 1);
	cr_expect_eq(window.kept_bytes, 8 + sizeof(RAW_JSON("lidar")) - 1, "with the files beside it");
	cr_expect(file_window_give_way(&window));
	cr_expect_not(is_there("r_00001_20261123014500.raw") || is_there("r_00001_20261123014500.raw.json") ||
	              is_there("r_00001_20261123014500.raw.meta"));
}
