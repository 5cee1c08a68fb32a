// SPDX-License-Identifier: Apache-2.0
/*
 * The lock tells a file that another recorder writes from one that a killed recorder has left. No link is followed: in
 * a folder that others may write to, their links would have the recorder overwrite any file of its user.
 */
#include "tools/record/part_file.h"

#include "tools/record/file_window.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define OLD       ".old"
#define TRIES_MAX 10

/* 0: it is open, locked and empty; 1: the same, but it is not empty; -EAGAIN: it got its name meanwhile; -errno. */
static int open_locked(const char *part, int *fd)
{
	struct stat opened, named;
	int r = -EAGAIN;

	*fd = open(part, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (*fd < 0)
		return -errno;
	/* Not every file system has locks. */
	if (flock(*fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		r = -EBUSY;
	else if (fstat(*fd, &opened) == 0 && lstat(part, &named) == 0 && opened.st_dev == named.st_dev &&
	         opened.st_ino == named.st_ino)
		return opened.st_size != 0;
	close(*fd);
	*fd = -1;
	return r;
}

static void put_aside(const char *path)
{
	char from[PATH_MAX + 16], to[PATH_MAX + 32];

	for (const char *const *suffix = file_window_suffixes; *suffix; suffix++) {
		snprintf(from, sizeof(from), "%s%s", path, *suffix);
		snprintf(to, sizeof(to), "%s" RECORDING_PART OLD "%s", path, *suffix);
		rename(from, to);
	}
	snprintf(from, sizeof(from), "%s" RECORDING_PART, path);
	snprintf(to, sizeof(to), "%s" RECORDING_PART OLD, path);
	if (rename(from, to) == 0)
		fprintf(stderr, "ibvcap record: %s is what a recorder that was killed has left: now %s\n", from, to);
}

int part_file_open(const char *path, int *fd)
{
	char part[PATH_MAX + sizeof(RECORDING_PART)];
	int r = -EAGAIN;

	snprintf(part, sizeof(part), "%s" RECORDING_PART, path);
	for (int i = 0; i < TRIES_MAX && (r == -EAGAIN || r == 1); i++) {
		r = open_locked(part, fd);
		if (r == 1) {
			put_aside(path);
			close(*fd);
			*fd = -1;
		}
	}
	if (r == -EBUSY)
		fprintf(stderr, "ibvcap record: another recorder writes %s: give each its own --write\n", part);
	return r == 1 ? -EEXIST : r;
}

int part_file_open_direct(const char *path)
{
	char part[PATH_MAX + sizeof(RECORDING_PART)];

	snprintf(part, sizeof(part), "%s" RECORDING_PART, path);
	return open(part, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_CLOEXEC);
}

bool part_file_is_in_memory(int fd)
{
	struct statfs system;

	return fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

FILE *part_file_open_beside(const char *path, const char *suffix)
{
	char name[PATH_MAX + sizeof(RECORDING_HEADERS)];
	FILE *file;
	int fd;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return NULL;
	file = fdopen(fd, "w");
	if (!file)
		close(fd);
	return file;
}

int part_file_finish(const char *path, int fd)
{
	char part[PATH_MAX + sizeof(RECORDING_PART)];
	int r;

	/* Under the lock: without it, another recorder takes the file for one that was left. */
	snprintf(part, sizeof(part), "%s" RECORDING_PART, path);
	r = rename(part, path) < 0 ? -errno : 0;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}
