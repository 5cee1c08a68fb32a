// SPDX-License-Identifier: Apache-2.0
/* A file has the bytes of its pieces, whether they went to the disk directly or through the kernel's cache. */
#include "tools/record/record_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY_BYTES (2u << 20)

static const struct record_file_options options = {.format = &pcapng_format};
static struct file_window window = {.may_replace = true};
static struct record_file file;
static char folder[] = "record_file.XXXXXX", path[64], part[80];
static uint8_t *memory, *wanted, *found;
static size_t n_wanted;

static void open_file(void)
{
	STAILQ_INIT(&window.kept);
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/a.pcapng", folder);
	snprintf(part, sizeof(part), "%s.part", path);
	memory = aligned_alloc(DISK_PAGE_BYTES, MEMORY_BYTES);
	wanted = malloc(8 * MEMORY_BYTES);
	found = malloc(8 * MEMORY_BYTES);
	for (size_t i = 0; i < MEMORY_BYTES; i++)
		memory[i] = (uint8_t)(i * 7 + i / 251);
	cr_assert_eq(record_file_open(&file, &options, &window, path), 0);
}

/* A piece that begins in a page of memory where the file ends in a page, or elsewhere. */
static int write_piece(size_t bytes, size_t elsewhere, bool is_late)
{
	struct record_piece piece = {
		.at = memory + (file.parts[0].bytes + elsewhere) % DISK_PAGE_BYTES, .bytes = bytes, .is_late = is_late};
	int r = record_file_write(&file, &piece);

	if (r == 0) {
		memcpy(wanted + n_wanted, piece.at, bytes);
		n_wanted += bytes;
	}
	return r;
}

/* Direct writes go to another file. */
static void write_directly_to(const char *other)
{
	if (file.parts[0].direct >= 0)
		close(file.parts[0].direct);
	file.parts[0].direct = open(other, O_WRONLY);
	cr_assert_geq(file.parts[0].direct, 0);
}

static void expect_content(const char *of)
{
	int fd = open(of, O_RDONLY);

	cr_assert_geq(fd, 0);
	cr_expect_eq(read(fd, found, 8 * MEMORY_BYTES), (ssize_t)n_wanted);
	cr_expect_eq(memcmp(found, wanted, n_wanted), 0);
	close(fd);
}

static void close_file(void)
{
	expect_content(part);
	cr_expect_eq(record_file_finish(&file, true), 0);
	expect_content(path);
	file_window_deinit(&window);
	unlink(path);
	rmdir(folder);
	free(memory);
	free(wanted);
	free(found);
}

TestSuite(record_file, .init = open_file, .fini = close_file);

Test(record_file, pieces_of_any_length_follow_each_other)
{
	static const size_t bytes[] = {1 << 20, 300001, 7, 4096, 999999, 262144, 1, 4095, 500000};

	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		cr_expect_eq(write_piece(bytes[i], 0, false), 0);
}

/* As where the file system takes direct writes. */
Test(record_file, whole_pages_go_past_the_cache_and_the_rest_through_it)
{
	write_directly_to(part);
	cr_expect_eq(write_piece(1 << 20, 0, false), 0);
	cr_expect_eq(file.parts[0].direct_bytes, 1 << 20);
	cr_expect_eq(write_piece(300001, 0, false), 0);
	cr_expect_eq(file.parts[0].direct_bytes, (1 << 20) + 299008);
	cr_expect_eq(write_piece(300001, 0, false), 0);
	cr_expect_eq(file.parts[0].direct_bytes, (1 << 20) + 299008 + 294912);
	cr_expect_eq(write_piece(262143, 0, false), 0);
	cr_expect_eq(file.parts[0].direct_bytes, (1 << 20) + 299008 + 294912, "it is too short");
}

Test(record_file, late_pieces_and_those_elsewhere_in_memory_go_through_the_cache)
{
	cr_expect_eq(write_piece(500001, 0, false), 0);
	cr_expect_eq(write_piece(500001, 0, true), 0);
	cr_expect_eq(write_piece(500001, 1, false), 0);
	cr_expect_eq(write_piece(500001, 0, false), 0);
}

/* This one returns EINVAL for whatever is not a number. */
Test(record_file, a_file_system_that_refuses_direct_writes_gets_the_others)
{
	cr_expect_eq(write_piece(500001, 0, false), 0);
	write_directly_to("/proc/self/oom_score_adj");
	cr_expect_eq(write_piece(500001, 0, false), 0);
	cr_expect_lt(file.parts[0].direct, 0);
	cr_expect_eq(write_piece(500001, 0, false), 0);
}

Test(record_file, of_a_direct_write_that_fails_nothing_is_left)
{
	cr_expect_eq(write_piece(500001, 0, false), 0);
	write_directly_to("/dev/full");
	cr_expect_eq(write_piece(500001, 0, false), -ENOSPC);
	expect_content(part);
	cr_expect_eq(write_piece(100, 0, false), 0, "the end of the file");
}

Test(record_file, a_link_stays_and_what_it_points_to_is_replaced)
{
	char link[64];

	cr_assert_eq(record_file_finish(&file, true), 0);
	snprintf(link, sizeof(link), "%s/link.pcapng", folder);
	cr_assert_eq(symlink("a.pcapng", link), 0);
	cr_assert_eq(record_file_open(&file, &options, &window, link), 0);
	cr_expect_eq(write_piece(1000, 0, false), 0);
	cr_expect_eq(unlink(link), 0);
}

static void expect_link_is_refused(const char *of, const char *suffix, int error)
{
	static const struct record_file_options indexed = {.format = &pcapng_format, .index = true};
	struct record_file refused;
	char link[80];

	snprintf(link, sizeof(link), "%s%s", of, suffix);
	cr_assert_eq(symlink("a.pcapng.part", link), 0);
	cr_expect_eq(record_file_open(&refused, &indexed, &window, of), -error, "%s", suffix);
	cr_expect_eq(unlink(link), 0);
}

/* In a folder that others may write to, their links would have the recorder overwrite any file of its user. */
Test(record_file, no_link_is_followed_to_a_file_that_is_written)
{
	char other[64];

	cr_expect_eq(write_piece(1000, 0, false), 0);
	snprintf(other, sizeof(other), "%s/b.pcapng", folder);
	expect_link_is_refused(other, ".part", ELOOP);
	expect_link_is_refused(other, ".part.index", EEXIST);
}

Test(record_file, without_its_end_a_file_keeps_its_part)
{
	struct stat status;

	cr_expect_eq(write_piece(1000, 0, false), 0);
	cr_expect_eq(record_file_finish(&file, false), 0);
	cr_expect_lt(stat(path, &status), 0);
	cr_assert_eq(stat(part, &status), 0);
	cr_expect_eq(status.st_size, 1000);
	cr_expect_leq(status.st_blocks * 512, 4096);
	cr_assert_eq(unlink(part), 0);
	n_wanted = 0;
	cr_assert_eq(record_file_open(&file, &options, &window, path), 0);
}
