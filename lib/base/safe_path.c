// SPDX-License-Identifier: Apache-2.0
/*
 * Walks a path by descriptors. Each link that is followed is replaced in the text by its target, and the walk begins
 * again, so that the links in the target are looked at, too.
 */
#include "lib/base/safe_path.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <linux/magic.h>
#include <pwd.h>
#include <string.h>
#include <sys/vfs.h>

#define LINKS_MAX 40 /* as the kernel's */

/* ---- what is trusted ------------------------------------------------------------------------------- */

static bool is_own_or_roots(const struct stat *status)
{
	return status->st_uid == 0 || status->st_uid == geteuid();
}

static bool is_place_trusted(const struct stat *folder)
{
	return is_own_or_roots(folder) && !(folder->st_mode & (S_IWGRP | S_IWOTH));
}

/* In a sticky folder nobody replaces another user's file, but a hard link to a link of root may be anybody's. */
static bool is_link_trusted(const struct stat *folder, const struct stat *link)
{
	bool is_kept = (folder->st_mode & S_ISVTX) && is_own_or_roots(folder) && link->st_nlink == 1;

	return is_own_or_roots(link) && (is_kept || is_place_trusted(folder));
}

static bool is_file_trusted(const struct stat *folder, const struct stat *file)
{
	return is_place_trusted(folder) ||
	       (file->st_nlink == 1 && (is_own_or_roots(file) || !(folder->st_mode & S_IWOTH)));
}

#define USER_BYTES 48

static const char *user_of(const struct stat *status, char text[USER_BYTES])
{
	const struct passwd *user = getpwuid(status->st_uid);

	if (user)
		snprintf(text, USER_BYTES, "%.32s", user->pw_name);
	else
		snprintf(text, USER_BYTES, "%u", (unsigned)status->st_uid);
	return text;
}

static int refuse_link(const char *path, const struct stat *folder, const struct stat *link, struct failure *failure)
{
	char user[USER_BYTES], owner[USER_BYTES];

	return failure_set(failure, EX_CANTCREAT, EPERM,
	                   "'%s' is a symbolic link of user %s, in a folder of user %s%s. It is not followed: it could "
	                   "name any file. Remove the link, or give the path of the file that is meant",
	                   path, user_of(link, user), user_of(folder, owner),
	                   folder->st_mode & (S_IWGRP | S_IWOTH) ? " that others may write to" : "");
}

static int refuse_existing(const char *path, const struct stat *file, struct failure *failure)
{
	char user[USER_BYTES];

	return failure_set(failure, EX_CANTCREAT, EPERM,
	                   "'%s' is a %s of user %s%s, in a folder that others may write to. It is not written. Remove "
	                   "it, or give another path",
	                   path, S_ISFIFO(file->st_mode) ? "pipe" : "file", user_of(file, user),
	                   file->st_nlink > 1 ? " with another hard link" : "");
}

/* ---- the walk -------------------------------------------------------------------------------------- */

struct component {
	size_t begin, end; /* in the path */
	char name[NAME_MAX + 1];
};

/* False: it is longer than a name can be. */
static bool take_component(struct component *component, const char *path)
{
	size_t bytes;

	component->begin = component->end + strspn(path + component->end, "/");
	bytes = strcspn(path + component->begin, "/");
	component->end = component->begin + bytes;
	snprintf(component->name, sizeof(component->name), "%.*s", (int)bytes, path + component->begin);
	return bytes < sizeof(component->name);
}

/* A pipe or a device that the process has open: the target of the link in /proc/self/fd is no path. */
static bool is_open_descriptor(const struct safe_path *place, int link, const char *name, struct stat *status)
{
	struct statfs system;

	return fstatfs(link, &system) == 0 && system.f_type == PROC_SUPER_MAGIC &&
	       fstatat(place->folder, name, status, 0) == 0 && !S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode);
}

static int put_target(struct safe_path *place, const struct component *component, int link)
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);
	size_t begin;

	if (n < 0)
		return -errno;
	target[n] = '\0';
	begin = target[0] == '/' ? 0 : component->begin;
	strcpy(rest, place->path + component->end);
	if (begin + (size_t)n + strlen(rest) >= sizeof(place->path))
		return -ENAMETOOLONG;
	strcpy(place->path + begin, target);
	strcat(place->path + begin, rest);
	return 1;
}

/* 1: the link's target is in place->path now. */
static int follow_link(struct safe_path *place, const struct component *component, int fd, const struct stat *link,
                       struct failure *failure)
{
	char path[PATH_MAX];
	struct stat folder;

	if (fstat(place->folder, &folder) < 0)
		return -errno;
	if (is_link_trusted(&folder, link))
		return put_target(place, component, fd);
	snprintf(path, sizeof(path), "%.*s", (int)component->end, place->path);
	return refuse_link(path, &folder, link, failure);
}

static int note_file(struct safe_path *place, const struct stat *status, struct failure *failure)
{
	struct stat folder;

	if (S_ISDIR(status->st_mode))
		return -EISDIR;
	if (fstat(place->folder, &folder) < 0)
		return -errno;
	if (S_ISFIFO(status->st_mode) && !is_file_trusted(&folder, status))
		return refuse_existing(place->path, status, failure);
	place->exists = true;
	place->status = *status;
	return 0;
}

/* 1: a link was followed. */
static int enter_last(struct safe_path *place, const struct component *last, bool *is_link, struct failure *failure)
{
	struct stat status;
	int fd, r;

	if (!last->name[0] || !strcmp(last->name, ".") || !strcmp(last->name, ".."))
		return -EISDIR;
	snprintf(place->name, sizeof(place->name), "%s", last->name);
	fd = openat(place->folder, last->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = fstat(fd, &status) < 0 ? -errno : 0;
	if (r == 0 && S_ISLNK(status.st_mode)) {
		*is_link = true;
		r = follow_link(place, last, fd, &status, failure);
		if (r > 0 && is_open_descriptor(place, fd, last->name, &place->status)) {
			place->exists = place->is_own_descriptor = true;
			*is_link = false; /* its target is no path */
			r = 0;
		}
	} else if (r == 0) {
		r = note_file(place, &status, failure);
	}
	close(fd);
	return r;
}

static int enter_folder(struct safe_path *place, const struct component *component, struct failure *failure)
{
	struct stat status;
	int fd, r;

	/* O_DIRECTORY: otherwise O_PATH opens a mount point of autofs without mounting. */
	fd = openat(place->folder, component->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) {
		close(place->folder);
		place->folder = fd;
		return 0;
	}
	if (errno != ENOTDIR && errno != ELOOP)
		return -errno;
	fd = openat(place->folder, component->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) < 0)
		r = -errno;
	else
		r = S_ISLNK(status.st_mode) ? follow_link(place, component, fd, &status, failure) : -ENOTDIR;
	close(fd);
	return r;
}

/* 1: a link was followed, and the walk has to begin again. */
static int walk(struct safe_path *place, bool *last_is_link, struct failure *failure)
{
	struct component component = {0};
	int r;

	place->folder = open(place->path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place->folder < 0)
		return -errno;
	do {
		if (!take_component(&component, place->path))
			r = -ENAMETOOLONG;
		else if (place->path[component.end])
			r = enter_folder(place, &component, failure);
		else
			return enter_last(place, &component, last_is_link, failure);
	} while (r == 0);
	return r;
}

int safe_path_find(struct safe_path *place, const char *path, struct failure *failure)
{
	bool last_is_link = false;
	int r = 1;

	*place = (struct safe_path){.folder = -1};
	failure->text[0] = '\0';
	if (!path[0])
		return -ENOENT;
	if (strlen(path) >= sizeof(place->path))
		return -ENAMETOOLONG;
	strcpy(place->path, path);
	for (unsigned i = 0; r > 0 && i <= LINKS_MAX; i++) {
		fd_close(&place->folder);
		r = walk(place, &last_is_link, failure);
	}
	if (r != 0)
		fd_close(&place->folder);
	if (!last_is_link)
		strcpy(place->path, path);
	return r > 0 ? -ELOOP : r;
}

/* ---- opening --------------------------------------------------------------------------------------- */

int safe_path_open(const struct safe_path *place)
{
	int fd = openat(place->folder, place->name, O_WRONLY | O_CLOEXEC | (place->is_own_descriptor ? 0 : O_NOFOLLOW));
	struct stat opened;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &opened) == 0 && opened.st_dev == place->status.st_dev && opened.st_ino == place->status.st_ino)
		return fd;
	close(fd);
	return -ESTALE;
}

static int open_regular(const struct safe_path *place, struct failure *failure)
{
	struct stat folder;
	int fd, r = 0;

	if (fstat(place->folder, &folder) < 0)
		return -errno;
	if (!is_file_trusted(&folder, &place->status))
		return refuse_existing(place->path, &place->status, failure);
	fd = safe_path_open(place);
	if (fd >= 0 && ftruncate(fd, 0) < 0) {
		r = -errno;
		close(fd);
	}
	return r < 0 ? r : fd;
}

static int open_file(const struct safe_path *place, struct failure *failure)
{
	int fd;

	if (place->exists)
		return safe_path_is_special(place) ? safe_path_open(place) : open_regular(place, failure);
	fd = openat(place->folder, place->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	return fd < 0 ? -errno : fd;
}

FILE *safe_path_fopen(const char *path, struct failure *failure)
{
	struct safe_path place;
	int r = safe_path_find(&place, path, failure);
	char text[PATH_MAX];
	FILE *file = NULL;

	if (r == 0) {
		r = open_file(&place, failure);
		close(place.folder);
	}
	if (r >= 0 && !(file = fdopen(r, "w"))) {
		close(r);
		r = -ENOMEM;
	}
	if (!file && !failure->text[0])
		failure_set(failure, EX_CANTCREAT, -r, "%s: %s", path, safe_path_explain(path, -r, text));
	return file;
}

const char *safe_path_explain(const char *path, int error, char text[PATH_MAX])
{
	static const char why[] = "there is no directory ";
	const size_t n = sizeof(why) - 1;
	const char *slash = strrchr(path, '/');
	struct stat status;

	if (error != ENOENT || !slash || slash == path || (size_t)(slash - path) >= PATH_MAX - n)
		return strerror(error);
	memcpy(text + n, path, (size_t)(slash - path));
	text[n + (size_t)(slash - path)] = '\0';
	if (stat(text + n, &status) == 0 || errno != ENOENT)
		return strerror(error);
	return memcpy(text, why, n);
}
