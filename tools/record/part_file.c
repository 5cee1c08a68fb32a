// SPDX-License-Identifier: Apache-2.0
/*
 * A file that another recorder writes has a lock, and a file that a killed recorder has left has none. FILE.part and
 * the files beside it are always new: in a folder that others may write to, a link of theirs, symbolic or hard, could
 * make the recorder overwrite any file of its user. lib/base/safe_path.h says which links to FILE are followed.
 */
#include "tools/record/part_file.h"

#include "lib/base/safe_path.h"
#include "lib/recording/recording_words.h"
#include "tools/record/file_window.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TRIES_MAX       10
#define AHEAD_BYTES_MIN (1u << 20)
#define AHEAD_BYTES_MAX (16u << 20)
#define AHEAD_DISK_PART 64           /* of the free room of the disk, the part that is allocated ahead at most */
#define DIRECT_BYTES    (256u << 10) /* at least: each direct write waits for the disk */

/* ---- opening --------------------------------------------------------------------------------------- */

/* 0: it is open and locked, and is_new says whether it was made; -EAGAIN: it got its name meanwhile; -errno. */
static int open_locked(struct part_file *file, bool *is_new)
{
	struct stat opened, named;
	int r = -EAGAIN;

	*is_new = true;
	file->fd = openat(file->folder, file->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (file->fd < 0 && errno == EEXIST) {
		*is_new = false;
		file->fd = openat(file->folder, file->part, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	}
	if (file->fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	/* Not every file system has locks. */
	if (flock(file->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		r = -EBUSY;
	else if (fstat(file->fd, &opened) == 0 && !S_ISREG(opened.st_mode))
		r = -EEXIST;
	else if (fstatat(file->folder, file->part, &named, AT_SYMLINK_NOFOLLOW) == 0 && opened.st_dev == named.st_dev &&
	         opened.st_ino == named.st_ino)
		return 0;
	close(file->fd);
	file->fd = -1;
	return r;
}

static int open_part(struct part_file *file, const char *path)
{
	int r = -EAGAIN;
	bool is_new;

	for (int i = 0; i < TRIES_MAX && r == -EAGAIN; i++) {
		r = open_locked(file, &is_new);
		if (r < 0)
			continue;
		if (left_part_has_packets(file->folder, file->part))
			r = left_part_put_aside(file->folder, file->part, path);
		else if (is_new)
			return 0;
		else if (unlinkat(file->folder, file->part, 0) < 0)
			r = -errno;
		r = r < 0 ? r : -EAGAIN;
		close(file->fd);
		file->fd = -1;
	}
	if (r == -EBUSY)
		fprintf(stderr,
		        "ibvcap record: another recorder writes %s" RECORDING_PART ": give each its own --write\n",
		        path);
	return r;
}

static int set_names(struct part_file *file, const char *name, const char *suffix)
{
	if (snprintf(file->name, sizeof(file->name), "%s%s", name, suffix) >= (int)sizeof(file->name) ||
	    snprintf(file->part, sizeof(file->part), "%s" RECORDING_PART "%s", name, suffix) >= (int)sizeof(file->part))
		return -ENAMETOOLONG;
	return 0;
}

static bool is_in_memory(int fd)
{
	struct statfs system;

	return fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

bool part_file_is_special(const char *path)
{
	struct stat status;

	return !strcmp(path, "-") || (stat(path, &status) == 0 && !S_ISREG(status.st_mode));
}

int part_file_open(struct part_file *file, char path[PATH_MAX], bool is_new)
{
	struct failure failure;
	struct safe_path place;
	struct stat status;
	int r;

	*file = PART_FILE_CLOSED;
	if (!strcmp(path, "-")) {
		file->fd = STDOUT_FILENO;
		return 0;
	}
	r = safe_path_find(&place, path, &failure);
	if (r < 0) {
		if (failure.text[0])
			fprintf(stderr, "ibvcap record: %s\n", failure.text);
		return r;
	}
	if (safe_path_is_special(&place)) {
		file->fd = safe_path_open(&place);
		close(place.folder);
		return file->fd < 0 ? file->fd : 0;
	}
	strcpy(path, place.path);
	file->folder = place.folder;
	r = set_names(file, place.name, "");
	if (r == 0)
		r = open_part(file, path);
	if (r == 0)
		r = part_file_cut(file, 0);
	/* Under the lock, which another recorder has had until it gave its file the name. */
	if (r == 0 && is_new && fstatat(file->folder, file->name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(status.st_mode)) {
		part_file_discard(file);
		return -EALREADY;
	}
	if (r < 0)
		part_file_close(file);
	else
		file->is_in_memory = is_in_memory(file->fd);
	return r;
}

int part_file_open_beside(struct part_file *file, const struct part_file *main, const char *suffix)
{
	struct stat status;
	int r;

	*file = PART_FILE_CLOSED;
	r = set_names(file, main->name, suffix);
	if (r < 0)
		return r;
	/* What lies there has no packets: then part_file_open() has put it aside. */
	if (fstatat(main->folder, file->part, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
	    unlinkat(main->folder, file->part, 0) < 0)
		return -errno;
	file->fd = openat(main->folder, file->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (file->fd < 0)
		return -errno;
	file->folder = main->folder;
	file->is_beside = true;
	file->is_in_memory = main->is_in_memory;
	return 0;
}

void part_file_begin_direct(struct part_file *file)
{
	char path[32];

	/* By its name it could be another file. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	if (part_file_is_regular(file))
		file->direct = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
}

/* ---- room ------------------------------------------------------------------------------------------ */

static int reserve(const struct part_file *file, uint64_t at, uint64_t bytes)
{
	if (!bytes || fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes) == 0)
		return 0;
	/* Not every file system can do it. */
	return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? -errno : 0;
}

/* Many small files, or files on a small disk, must not take the room that other files need. */
static uint64_t bytes_ahead(const struct part_file *file)
{
	uint64_t ahead = file->bytes < AHEAD_BYTES_MIN ? AHEAD_BYTES_MIN : file->bytes, free_part;
	struct statvfs disk;

	if (fstatvfs(file->fd, &disk) < 0)
		return 0;
	ahead = ahead < AHEAD_BYTES_MAX ? ahead : AHEAD_BYTES_MAX;
	free_part = (uint64_t)disk.f_bavail * disk.f_frsize / AHEAD_DISK_PART;
	return ahead < free_part ? ahead : free_part;
}

/*
 * Allocate n bytes, the end of the file behind them, and more, so that the file does not become thousands of extents.
 * The size of the file stays. A file without end_bytes gets its room by its writes. On tmpfs an allocation does the
 * work for each page twice, so only the end is allocated there.
 */
static int allocate_ahead(struct part_file *file, size_t n)
{
	uint64_t needed = n + file->end_bytes, ahead;

	if (file->is_in_memory)
		return reserve(file, file->bytes + n, file->end_bytes);
	if (!file->end_bytes || file->bytes + needed <= file->allocated)
		return 0;
	ahead = bytes_ahead(file);
	/* A call that fails may have allocated a part: the write's failure cuts it off. */
	if (reserve(file, file->bytes, needed + ahead) == 0) {
		file->allocated = file->bytes + needed + ahead;
		return 0;
	}
	if (ftruncate(file->fd, (off_t)file->bytes) < 0)
		return -errno;
	file->allocated = file->bytes + needed;
	return reserve(file, file->bytes, needed);
}

int part_file_cut(struct part_file *file, uint64_t bytes)
{
	file->bytes = bytes;
	if (!part_file_is_regular(file))
		return 0;
	if (ftruncate(file->fd, (off_t)bytes) < 0)
		return -errno;
	file->allocated = bytes;
	reserve(file, bytes, file->end_bytes);
	return 0;
}

/* ---- writing --------------------------------------------------------------------------------------- */

/* fd: one of the two. place: in a regular file. */
static int write_at(const struct part_file *file, int fd, const uint8_t *at, size_t n, uint64_t place)
{
	size_t written = 0;

	while (written < n) {
		ssize_t r = part_file_is_regular(file) ? pwrite(fd, at + written, n - written, (off_t)(place + written))
		                                       : write(fd, at + written, n - written);

		if (r > 0)
			written += (size_t)r;
		else if (r == 0 || errno != EINTR)
			return r == 0 ? -EIO : -errno;
	}
	return 0;
}

static void close_direct(struct part_file *file)
{
	if (file->direct >= 0)
		close(file->direct);
	file->direct = -1;
}

static int write_pages(struct part_file *file, const uint8_t *at, size_t n, uint64_t place)
{
	int r = write_at(file, file->direct, at, n, place);

	if (r == 0)
		file->direct_bytes += n;
	if (r != -EINVAL && r != -EFAULT)
		return r;
	/* The file system takes no direct writes, or none of these addresses: memory of a device, for example. */
	close_direct(file);
	return write_at(file, file->fd, at, n, place);
}

/*
 * The whole pages go past the kernel's cache, which saves a copy and the cache's work for each page. The first and the
 * last part are parts of pages that other writes share: those stay in the cache.
 */
static int write_direct(struct part_file *file, const uint8_t *at, size_t n)
{
	size_t first = -file->bytes % DISK_PAGE_BYTES;
	size_t pages = (n - first) / DISK_PAGE_BYTES * DISK_PAGE_BYTES, last = n - first - pages;
	int r = write_at(file, file->fd, at, first, file->bytes);

	if (r == 0)
		r = write_pages(file, at + first, pages, file->bytes + first);
	if (r == 0)
		r = write_at(file, file->fd, at + first + pages, last, file->bytes + first + pages);
	return r;
}

int part_file_write(struct part_file *file, const void *at, size_t n, enum part_file_way way)
{
	bool is_direct = way == PART_FILE_TO_DISK && file->direct >= 0 && n >= DIRECT_BYTES &&
	                 ((uintptr_t)at - file->bytes) % DISK_PAGE_BYTES == 0;
	int r = part_file_is_regular(file) ? allocate_ahead(file, n) : 0, cut;

	if (r == 0)
		r = is_direct ? write_direct(file, at, n) : write_at(file, file->fd, at, n, file->bytes);
	if (r < 0) {
		cut = part_file_cut(file, file->bytes);
		return cut < 0 ? cut : r;
	}
	/* Begin to write to the disk now. Otherwise the kernel collects data and then stops the writer for long. The
	 * call itself waits while the disk is busy. */
	if (way == PART_FILE_TO_DISK && !is_direct && part_file_is_regular(file))
		sync_file_range(file->fd, (off_t)file->bytes, (off_t)n, SYNC_FILE_RANGE_WRITE);
	file->bytes += n;
	return 0;
}

/* With room for all of it, a write does not fail for want of room. */
int part_file_replace(struct part_file *file, const void *at, size_t n)
{
	int r = reserve(file, 0, n + file->end_bytes);

	if (r == 0)
		r = write_at(file, file->fd, at, n, 0);
	if (r == 0 && n < file->bytes && ftruncate(file->fd, (off_t)n) < 0)
		r = -errno;
	if (r == 0)
		file->bytes = n;
	return r;
}

/* ---- the end --------------------------------------------------------------------------------------- */

/* Data in the kernel's cache may fail to reach the disk. Only fdatasync() reports that. */
int part_file_finish(struct part_file *file, bool to_disk)
{
	if (!part_file_is_regular(file))
		return 0;
	close_direct(file);
	if (ftruncate(file->fd, (off_t)file->bytes) < 0 || (to_disk && fdatasync(file->fd) < 0))
		return -errno;
	return 0;
}

/* The name is still that of the file that is open. */
static int rename_part(const struct part_file *file)
{
	struct stat opened, named;

	if (fstat(file->fd, &opened) < 0 || fstatat(file->folder, file->part, &named, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (opened.st_dev != named.st_dev || opened.st_ino != named.st_ino)
		return -ESTALE;
	return renameat(file->folder, file->part, file->folder, file->name) < 0 ? -errno : 0;
}

/* Not every file system can do it. */
static int sync_folder(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (fd < 0)
		return 0;
	r = fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
	close(fd);
	return r;
}

int part_file_name_all(struct part_file files[], unsigned n, bool sync)
{
	unsigned done = 0;
	int r = 0;

	if (!part_file_is_regular(&files[0]))
		return 0;
	own_file_remove_beside(files[0].folder, files[0].name);
	/* Under the lock: without it, another recorder takes the file for one that was left. */
	for (; done < n && r == 0; done++)
		if (files[done].fd >= 0)
			r = rename_part(&files[done]);
	/* All of them or none. */
	for (unsigned i = 0; r < 0 && i + 1 < done; i++)
		if (files[i].fd >= 0)
			renameat(files[i].folder, files[i].name, files[i].folder, files[i].part);
	return r == 0 && sync ? sync_folder(files[0].folder) : r;
}

void part_file_close(struct part_file *file)
{
	close_direct(file);
	if (file->fd >= 0 && file->fd != STDOUT_FILENO)
		close(file->fd);
	if (file->folder >= 0 && !file->is_beside)
		close(file->folder);
	file->fd = file->folder = -1;
}

void part_file_discard(struct part_file *file)
{
	if (file->fd >= 0 && part_file_is_regular(file))
		unlinkat(file->folder, file->part, 0);
	part_file_close(file);
}
