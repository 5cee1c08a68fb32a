// SPDX-License-Identifier: Apache-2.0
/* Names, counts and deletes the files of a recording. */
#include "tools/record/file_window.h"

#include "daemon/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define NUMBER_DIGITS     5 /* at least */
#define NUMBER_DIGITS_MAX 9 /* of a number that the next one follows: a uint32_t has room for it */
#define TIME_DIGITS       14

const char *const file_window_suffixes[] = {RECORDING_INDEX, RECORDING_META, RECORDING_JSON, RECORDING_HEADERS, NULL};

/* Behind the last '/'. */
static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Where the numbers go: before the first '.' of the name that is not its first character, so "a.pcapng.zst" is whole.
 */
static size_t stem_bytes(const char *path)
{
	const char *base = base_of(path), *dot = *base ? strchr(base + 1, '.') : NULL;

	return dot ? (size_t)(dot - path) : strlen(path);
}

/* ---- the window ---------------------------------------------------------------------------------- */

static int window_append(struct file_window *window, const char *path, uint64_t bytes)
{
	struct kept_file *kept = malloc(sizeof(*kept) + strlen(path) + 1);

	if (!kept)
		return -ENOMEM;
	strcpy(kept->path, path);
	kept->bytes = bytes;
	STAILQ_INSERT_TAIL(&window->kept, kept, entry);
	window->n_kept++;
	window->kept_bytes += bytes;
	return 0;
}

/* Length of the name that the file has, or would have got, when complete. */
static int name_bytes(const char *path)
{
	size_t n = strlen(path), part = strlen(RECORDING_PART);

	return (int)(n > part && !strcmp(path + n - part, RECORDING_PART) ? n - part : n);
}

static bool delete_oldest(struct file_window *window)
{
	struct kept_file *oldest = STAILQ_FIRST(&window->kept);
	char path[PATH_MAX];
	int n;

	if (!oldest)
		return false;
	unlink(oldest->path);
	n = name_bytes(oldest->path);
	for (const char *const *suffix = file_window_suffixes; *suffix; suffix++)
		if (snprintf(path, sizeof(path), "%.*s%s", n, oldest->path, *suffix) < (int)sizeof(path))
			unlink(path);
	STAILQ_REMOVE_HEAD(&window->kept, entry);
	window->n_kept--;
	window->kept_bytes -= oldest->bytes;
	window->n_deleted++;
	free(oldest);
	return true;
}

bool file_window_give_way(struct file_window *window)
{
	return file_window_has_limit(window) && delete_oldest(window);
}

int file_window_add(struct file_window *window, const char *path, uint64_t bytes)
{
	int r = window_append(window, path, bytes);

	while (window->files && window->n_kept > window->files)
		delete_oldest(window);
	return r;
}

static bool is_disk_too_full(const struct file_window *window, int fd)
{
	struct statvfs disk;
	uint64_t used;

	if (!window->disk_limit || fstatvfs(fd, &disk) < 0)
		return false;
	/* As df computes it: what only root may use counts as not there. */
	used = disk.f_blocks - disk.f_bfree;
	return used * 100 > (used + disk.f_bavail) * window->disk_limit;
}

bool file_window_make_room(struct file_window *window, int fd, uint64_t bytes)
{
	while (window->quota && window->kept_bytes + bytes > window->quota && delete_oldest(window))
		;
	while (is_disk_too_full(window, fd))
		if (!delete_oldest(window))
			return false;
	return !window->quota || bytes <= window->quota;
}

/* ---- files of an earlier run --------------------------------------------------------------------- */

/* Such names have the numbers at the end of the stem: …_00001_20261123014500. */

static bool are_numbers(const char *at, const char *suffix)
{
	size_t digits = strspn(at, "0123456789");

	if (digits < NUMBER_DIGITS || digits > NUMBER_DIGITS_MAX || at[digits] != '_')
		return false;
	at += digits + 1;
	if (strspn(at, "0123456789") != TIME_DIGITS)
		return false;
	at += TIME_DIGITS;
	if (strncmp(at, suffix, strlen(suffix)) != 0)
		return false;
	/* What a recorder was writing when it was killed, or the machine lost its power, counts too. */
	at += strlen(suffix);
	return !*at || !strcmp(at, RECORDING_PART);
}

/* Where the numbers are in a file's name, behind the stream and "-" and the flow if there is one. NULL: another name.
 */
static const char *numbers_in(const struct file_window *window, const char *name)
{
	const char *base = base_of(window->pattern), *at;
	size_t stem = stem_bytes(window->pattern) - (size_t)(base - window->pattern);

	if (strncmp(name, base, stem) != 0 || name[stem] != '_')
		return NULL;
	at = name + stem + 1;
	if (!window->by_flow)
		return are_numbers(at, base + stem) ? at : NULL;
	while ((at = strchr(at, '-'))) {
		at++;
		at += strspn(at, "0123456789");
		if (at[0] == '_' && at[-1] != '-' && are_numbers(at + 1, base + stem))
			return at + 1;
	}
	return NULL;
}

static int by_age(const void *a, const void *b)
{
	const struct kept_file *const *one = a, *const *other = b;

	/* Until they are in the window, bytes is the time of the last change. */
	return ((*one)->bytes > (*other)->bytes) - ((*one)->bytes < (*other)->bytes);
}

/* What a link points to takes no room that a deleted link would give back. */
static bool find_regular_file(DIR *directory, const char *name, struct stat *status)
{
	return fstatat(dirfd(directory), name, status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status->st_mode);
}

static int collect_left_files(struct file_window *window, DIR *directory, const char *folder, struct kept_file ***found,
                              size_t *n)
{
	struct dirent *item;
	struct stat status;

	while ((item = readdir(directory))) {
		struct kept_file *kept, **grown;

		if (!numbers_in(window, item->d_name) || !find_regular_file(directory, item->d_name, &status))
			continue;
		grown = realloc(*found, (*n + 1) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		*found = grown;
		kept = malloc(sizeof(*kept) + strlen(folder) + strlen(item->d_name) + 1);
		if (!kept)
			return -ENOMEM;
		sprintf(kept->path, "%s%s", folder, item->d_name);
		kept->bytes = (uint64_t)status.st_mtim.tv_sec * TIME_SECOND_NS + (uint64_t)status.st_mtim.tv_nsec;
		(*found)[(*n)++] = kept;
	}
	return 0;
}

/* In the order of their age. */
static int append_left_files(struct file_window *window, struct kept_file **found, size_t n)
{
	struct stat status;
	int r = 0;

	if (n)
		qsort(found, n, sizeof(*found), by_age);
	for (size_t i = 0; i < n; i++) {
		unsigned number = (unsigned)strtoul(numbers_in(window, base_of(found[i]->path)), NULL, 10);

		if (number >= window->number)
			window->number = number + 1;
		if (r == 0 && lstat(found[i]->path, &status) == 0)
			r = window_append(window, found[i]->path, (uint64_t)status.st_size);
		free(found[i]);
	}
	return r;
}

int file_window_check(const char *pattern)
{
	char path[PATH_MAX], folder[PATH_MAX];
	struct stat status;
	const char *base;

	if (!strcmp(pattern, "-") || (stat(pattern, &status) == 0 && !S_ISREG(status.st_mode)))
		return 0;
	if (!realpath(pattern, path))
		snprintf(path, sizeof(path), "%s", pattern);
	base = base_of(path);
	snprintf(folder, sizeof(folder), "%.*s", (int)(base - path), path);
	if (strchr(folder, '%'))
		return 0;
	return faccessat(AT_FDCWD, folder[0] ? folder : ".", W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

int file_window_init(struct file_window *window)
{
	const char *base = base_of(window->pattern);
	struct kept_file **found = NULL;
	char folder[PATH_MAX];
	DIR *directory;
	size_t n = 0;
	int r, left;

	STAILQ_INIT(&window->kept);
	window->number = 1;
	if (!window->numbered || strchr(window->pattern, '%'))
		return 0;
	snprintf(folder, sizeof(folder), "%.*s", (int)(base - window->pattern), window->pattern);
	directory = opendir(folder[0] ? folder : ".");
	if (!directory)
		return -errno;
	r = collect_left_files(window, directory, folder, &found, &n);
	closedir(directory);
	left = append_left_files(window, found, n);
	free(found);
	return r < 0 ? r : left;
}

void file_window_deinit(struct file_window *window)
{
	struct kept_file *kept;

	while ((kept = STAILQ_FIRST(&window->kept))) {
		STAILQ_REMOVE_HEAD(&window->kept, entry);
		free(kept);
	}
}

/* ---- names --------------------------------------------------------------------------------------- */

/* Put text into the path where its stem ends. */
static int insert_at_stem(char path[PATH_MAX], const char *text)
{
	size_t stem = stem_bytes(path);
	char rest[PATH_MAX];

	strcpy(rest, path + stem);
	if (stem + strlen(text) + strlen(rest) + sizeof(RECORDING_INDEX) > PATH_MAX)
		return -ENAMETOOLONG;
	snprintf(path + stem, PATH_MAX - stem, "%s%s", text, rest);
	return 0;
}

/* The pattern is the user's own, and strftime() takes nothing from it but the time. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static size_t put_time_in(char path[PATH_MAX], const char *pattern, const struct tm *utc)
{
	return strftime(path, PATH_MAX, pattern, utc);
}
#pragma GCC diagnostic pop

/* Does a file that is complete have this name? What is no regular file is written in its place, again and again. */
static bool is_name_taken(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

int file_window_name(struct file_window *window, uint64_t time_ns, const char *flow, char path[PATH_MAX])
{
	time_t seconds = (time_t)(time_ns / TIME_SECOND_NS);
	bool has_time = strchr(window->pattern, '%'), takes_number;
	char number[32], plain[PATH_MAX];
	struct tm utc;
	int r = 0;

	gmtime_r(&seconds, &utc);
	if (has_time && put_time_in(path, window->pattern, &utc) == 0)
		return -ENAMETOOLONG;
	if (!has_time && snprintf(path, PATH_MAX, "%s", window->pattern) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (flow && (insert_at_stem(path, "_") < 0 || insert_at_stem(path, flow) < 0))
		return -ENAMETOOLONG;
	strcpy(plain, path);
	/* Without an option that begins new files the first file has the name as it is, and those that SIGUSR1 begins
	 * get numbers. A name that has only the time may come again within the unit of time that it shows. */
	takes_number = window->numbered && !has_time;
	if (!takes_number && (window->numbered || window->by_flow || window->number > 1))
		takes_number = is_name_taken(path);
	while (takes_number && r == 0) {
		strcpy(path, plain);
		snprintf(number, sizeof(number), "_%05u", window->number);
		if (!has_time)
			strftime(number + strlen(number), sizeof(number) - strlen(number), "_%Y%m%d%H%M%S", &utc);
		r = insert_at_stem(path, number);
		takes_number = r == 0 && is_name_taken(path) && ++window->number;
	}
	window->number++;
	return r;
}
