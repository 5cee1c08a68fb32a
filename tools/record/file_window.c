// SPDX-License-Identifier: Apache-2.0
/* Counts and deletes the files of a recording. file_names.c makes their names. */
#include "tools/record/file_window.h"

#include "lib/base/safe_path.h"
#include "lib/base/time.h"
#include "tools/record/part_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* ---- the window ---------------------------------------------------------------------------------- */

/* The file and what belongs to it. */
static uint64_t bytes_of_all(const char *path, const struct stat *status)
{
	uint64_t bytes = (uint64_t)status->st_size;
	char beside[PATH_MAX];
	struct stat other;

	for (const char *const *suffix = own_file_suffixes; *suffix; suffix++)
		if (snprintf(beside, sizeof(beside), "%s%s", path, *suffix) < (int)sizeof(beside) &&
		    lstat(beside, &other) == 0)
			bytes += (uint64_t)other.st_size;
	return bytes;
}

/* Only regular files are kept, because a deleted link gives no room back. NULL: no regular file, or no memory. */
static struct kept_file *new_kept_file(const char *path)
{
	struct kept_file *kept;
	struct stat status;

	errno = 0;
	if (lstat(path, &status) < 0 || !S_ISREG(status.st_mode))
		return NULL;
	kept = malloc(sizeof(*kept) + strlen(path) + 1);
	if (!kept)
		return NULL;
	strcpy(kept->path, path);
	kept->bytes = bytes_of_all(path, &status);
	kept->time_ns = (uint64_t)status.st_mtim.tv_sec * TIME_SECOND_NS + (uint64_t)status.st_mtim.tv_nsec;
	kept->device = status.st_dev;
	kept->inode = status.st_ino;
	kept->is_left = false;
	return kept;
}

static void window_append(struct file_window *window, struct kept_file *kept)
{
	STAILQ_INSERT_TAIL(&window->kept, kept, entry);
	window->n_kept++;
	window->kept_bytes += kept->bytes;
}

/* Does a recorder write the file now? Its lock says so. */
static bool is_being_written(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool is_locked;

	if (fd < 0)
		return false;
	is_locked = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	close(fd);
	return is_locked;
}

/*
 * Files of this recorder are complete, but may still be locked: a child that was forked for --command while they were
 * written holds the lock until its exec. So only the locks of files that an earlier run has left are looked at.
 */
static bool delete_kept(const struct kept_file *kept)
{
	struct failure failure;
	struct safe_path place;
	bool is_deleted;

	if (safe_path_find(&place, kept->path, &failure) < 0)
		return false;
	is_deleted = place.exists && place.status.st_dev == kept->device && place.status.st_ino == kept->inode &&
	             !(kept->is_left && is_being_written(place.folder, place.name)) &&
	             unlinkat(place.folder, place.name, 0) == 0;
	if (is_deleted)
		own_file_remove_beside(place.folder, place.name);
	close(place.folder);
	return is_deleted;
}

/* False: there is no file. A file that cannot be deleted is not tried again. */
static bool delete_oldest(struct file_window *window)
{
	struct kept_file *oldest = STAILQ_FIRST(&window->kept);

	if (!oldest) {
		struct open_file *open;

		/* A file that is full and not complete. */
		TAILQ_FOREACH (open, &window->open, entry)
			if (open->discard) {
				window->n_deleted++;
				open->discard(open);
				file_window_close(window, open);
				return true;
			}
		return false;
	}
	window->n_deleted += delete_kept(oldest);
	STAILQ_REMOVE_HEAD(&window->kept, entry);
	window->n_kept--;
	window->kept_bytes -= oldest->bytes;
	free(oldest);
	return true;
}

void file_window_open(struct file_window *window, struct open_file *open, const char *path)
{
	*open = (struct open_file){0};
	snprintf(open->path, sizeof(open->path), "%s", path);
	TAILQ_INSERT_TAIL(&window->open, open, entry);
}

void file_window_fill(struct file_window *window, struct open_file *open, uint64_t bytes,
                      void (*discard)(struct open_file *open))
{
	open->bytes = bytes;
	open->discard = discard;
	window->full_bytes += bytes;
}

void file_window_close(struct file_window *window, struct open_file *open)
{
	if (!open->path[0])
		return;
	TAILQ_REMOVE(&window->open, open, entry);
	window->full_bytes -= open->bytes;
	*open = (struct open_file){0};
}

bool file_window_give_way(struct file_window *window)
{
	return file_window_has_limit(window) && delete_oldest(window);
}

int file_window_add(struct file_window *window, const char *path)
{
	struct kept_file *kept;

	if (!file_window_has_limit(window))
		return 0;
	kept = new_kept_file(path);
	if (!kept)
		return -errno;
	window_append(window, kept);
	while (window->files && window->n_kept > window->files)
		delete_oldest(window);
	return 0;
}

static bool is_disk_too_full(const struct file_window *window, int fd)
{
	struct statvfs disk;
	uint64_t used;

	if (!window->disk_limit || fstatvfs(fd, &disk) < 0)
		return false;
	/* As df computes it: blocks that only root may use do not count. */
	used = disk.f_blocks - disk.f_bfree;
	return used * 100 > (used + disk.f_bavail) * window->disk_limit;
}

bool file_window_make_room(struct file_window *window, int fd, uint64_t bytes)
{
	while (window->quota && window->kept_bytes + window->full_bytes + bytes > window->quota &&
	       delete_oldest(window))
		;
	while (is_disk_too_full(window, fd))
		if (!delete_oldest(window))
			return false;
	return !window->quota || bytes <= window->quota;
}

/* ---- files of an earlier run --------------------------------------------------------------------- */

struct left_files {
	struct kept_file **files;
	size_t n;
};

/* Files whose last changes were within a tick of the kernel's clock have the same time: their numbers tell. */
static int by_age(const void *a, const void *b)
{
	const struct kept_file *const *one = a, *const *other = b;
	int order = ((*one)->time_ns > (*other)->time_ns) - ((*one)->time_ns < (*other)->time_ns);

	return order ? order : strverscmp((*one)->path, (*other)->path);
}

/* The name says which flow of which stream the file has to show. */
static bool is_own(const struct file_window *window, const char *path, const struct file_name *name)
{
	struct own_streams one = window->streams;

	if (!window->by_flow)
		return own_file_is(path, &one, -1) && !is_being_written(AT_FDCWD, path);
	one.names += name->stream;
	one.n = 1;
	return own_file_is(path, &one, name->flow) && !is_being_written(AT_FDCWD, path);
}

static int collect_left_file(struct file_window *window, const char *path, struct left_files *left)
{
	struct kept_file **grown, *kept;
	struct file_name name;

	if (!file_names_parse(window, path, &name))
		return 0;
	if (name.number >= window->number)
		window->number = name.number + 1;
	if (!file_window_has_limit(window) || !is_own(window, path, &name))
		return 0;
	kept = new_kept_file(path);
	if (!kept)
		return -errno;
	grown = realloc(left->files, (left->n + 1) * sizeof(*grown));
	if (!grown) {
		free(kept);
		return -ENOMEM;
	}
	kept->is_left = true;
	left->files = grown;
	grown[left->n++] = kept;
	return 0;
}

/* In the order of their age. */
static int collect_left_files(struct file_window *window, const glob_t *found)
{
	struct left_files left = {0};
	int r = 0;

	for (size_t i = 0; i < found->gl_pathc && r == 0; i++)
		r = collect_left_file(window, found->gl_pathv[i], &left);
	if (left.n)
		qsort(left.files, left.n, sizeof(*left.files), by_age);
	for (size_t i = 0; i < left.n; i++)
		window_append(window, left.files[i]);
	free(left.files);
	return r;
}

int file_window_check(const char *pattern, struct failure *failure)
{
	const char *percent = strchr(pattern, '%');
	struct safe_path place;
	int r;

	failure->text[0] = '\0';
	if (!strcmp(pattern, "-") || (percent && percent < file_names_base(pattern)))
		return 0;
	r = safe_path_find(&place, pattern, failure);
	if (r < 0)
		return r;
	if (!safe_path_is_special(&place) && faccessat(place.folder, ".", W_OK | X_OK, AT_EACCESS) < 0)
		r = -errno;
	close(place.folder);
	return r;
}

int file_window_init(struct file_window *window)
{
	char pattern[FILE_NAMES_GLOB_BYTES];
	glob_t found = {0};
	bool has_one_folder = file_names_glob(window->pattern, pattern);
	int r;

	STAILQ_INIT(&window->kept);
	TAILQ_INIT(&window->open);
	window->number = 1;
	if (!window->numbered)
		return 0;
	errno = 0;
	r = glob(pattern, GLOB_NOSORT | (has_one_folder ? GLOB_ERR : 0), NULL, &found);
	if (r == 0)
		r = collect_left_files(window, &found);
	else if (r == GLOB_NOSPACE)
		r = -ENOMEM;
	else
		r = r == GLOB_ABORTED ? -(errno ? errno : EIO) : 0;
	globfree(&found);
	return r;
}

void file_window_deinit(struct file_window *window)
{
	struct kept_file *kept;

	while ((kept = STAILQ_FIRST(&window->kept))) {
		STAILQ_REMOVE_HEAD(&window->kept, entry);
		free(kept);
	}
}
