// SPDX-License-Identifier: Apache-2.0
/* stat() and its family, access(), readlink(). On x86-64 stat and stat64 are the same layout. */
#define _LARGEFILE64_SOURCE
#include "../uverbs/dmabuf.h"
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static_assert(sizeof(struct stat) == sizeof(struct stat64), "one stat layout");

/* The path is declared non-null, but kernels since 6.11 take a null path as an empty one. */
static bool hook_path_is_empty(const char *path)
{
	return !path || !*path;
}

static bool hook_stat_above(const char *path, bool follow, void *st, int *result)
{
	struct node node;

	if (!vfs_leads_out(path, &node))
		return false;
	*result = (int)syscall(SYS_newfstatat, AT_FDCWD, node.path, st, follow ? 0 : AT_SYMLINK_NOFOLLOW);
	return true;
}

static bool hook_stat_ours(int dirfd, const char *path, bool follow, void *st, int *result)
{
	struct node node;

	if (!vfs_find(dirfd, path, &node))
		return hook_stat_above(path, follow, st, result);
	if (node.kind == NODE_MISSING) {
		errno = ENOENT;
		*result = -1;
	} else {
		sysfs_stat(&node, follow, st);
		*result = 0;
	}
	return true;
}

static bool hook_fstat_ours(int fd, void *st)
{
	struct root *root = root_peek();
	struct fd_object *o = fdtab_find(&root->fdtab, fd, FD_ANY);
	struct node node = {.kind = NODE_CDEV};
	bool ours = o && o->kind != FD_CHANNEL && o->kind != FD_NETLINK && o->kind != FD_DMABUF;

	if (ours && o->kind == FD_UVERBS)
		node.device = ((struct uverbs_file *)o)->device;
	else if (ours && o->kind != FD_CM)
		node = ((struct sysfs_fd *)o)->node;
	fd_object_put(o);
	if (ours)
		sysfs_stat(&node, true, st);
	return ours;
}

#define STAT_HOOK(name, type, follow)                                                             \
	HOOK int name(const char *path, struct type *st)                                          \
	{                                                                                         \
		int r;                                                                            \
		return hook_stat_ours(AT_FDCWD, path, follow, st, &r) ? r : REAL(name)(path, st); \
	}
STAT_HOOK(stat, stat, true)
STAT_HOOK(stat64, stat64, true)
STAT_HOOK(lstat, stat, false)
STAT_HOOK(lstat64, stat64, false)

#define FSTAT_HOOK(name, type)                                           \
	HOOK int name(int fd, struct type *st)                           \
	{                                                                \
		return hook_fstat_ours(fd, st) ? 0 : REAL(name)(fd, st); \
	}
FSTAT_HOOK(fstat, stat)
FSTAT_HOOK(fstat64, stat64)

#define FSTATAT_HOOK(name, type)                                                                       \
	HOOK int name(int dirfd, const char *path, struct type *st, int flags)                         \
	{                                                                                              \
		int r;                                                                                 \
		if ((flags & AT_EMPTY_PATH) && hook_path_is_empty(path) && hook_fstat_ours(dirfd, st)) \
			return 0;                                                                      \
		return hook_stat_ours(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), st, &r)             \
		               ? r                                                                     \
		               : REAL(name)(dirfd, path, st, flags);                                   \
	}
FSTATAT_HOOK(fstatat, stat)
FSTATAT_HOOK(fstatat64, stat64)

/* Programs built against a C library before 2.33 call these. */
#define XSTAT_HOOK(name, type, follow)                                                                     \
	int name(int version, const char *path, struct type *st);                                          \
	HOOK int name(int version, const char *path, struct type *st)                                      \
	{                                                                                                  \
		int r;                                                                                     \
		return hook_stat_ours(AT_FDCWD, path, follow, st, &r) ? r : REAL(name)(version, path, st); \
	}
XSTAT_HOOK(__xstat, stat, true)
XSTAT_HOOK(__xstat64, stat64, true)
XSTAT_HOOK(__lxstat, stat, false)
XSTAT_HOOK(__lxstat64, stat64, false)

#define FXSTAT_HOOK(name, type)                                                   \
	int name(int version, int fd, struct type *st);                           \
	HOOK int name(int version, int fd, struct type *st)                       \
	{                                                                         \
		return hook_fstat_ours(fd, st) ? 0 : REAL(name)(version, fd, st); \
	}
FXSTAT_HOOK(__fxstat, stat)
FXSTAT_HOOK(__fxstat64, stat64)

static void hook_to_statx(const struct stat *st, struct statx *stx)
{
	memset(stx, 0, sizeof(*stx));
	stx->stx_mask = STATX_BASIC_STATS;
	stx->stx_mode = (uint16_t)st->st_mode;
	stx->stx_nlink = 1;
	stx->stx_blksize = 4096;
	stx->stx_size = (uint64_t)st->st_size;
	stx->stx_ino = st->st_ino;
	stx->stx_dev_major = major(st->st_dev);
	stx->stx_dev_minor = minor(st->st_dev);
	stx->stx_rdev_major = major(st->st_rdev);
	stx->stx_rdev_minor = minor(st->st_rdev);
}

HOOK int statx(int dirfd, const char *path, int flags, unsigned int mask, struct statx *stx)
{
	struct stat st;
	int r = 0;

	if (((flags & AT_EMPTY_PATH) && hook_path_is_empty(path) && hook_fstat_ours(dirfd, &st)) ||
	    hook_stat_ours(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), &st, &r)) {
		if (!r)
			hook_to_statx(&st, stx);
		return r;
	}
	return REAL(statx)(dirfd, path, flags, mask, stx);
}

static bool hook_is_dmabuf(int fd)
{
	struct root *root = root_peek();
	struct fd_object *o = fdtab_find(&root->fdtab, fd, FD_DMABUF);

	fd_object_put(o);
	return o || (root->n_devices && dmabuf_is_named_memfd(fd));
}

#define FSTATFS_HOOK(name, type)                    \
	HOOK int name(int fd, struct type *fs)      \
	{                                           \
		int r = REAL(name)(fd, fs);         \
		if (!r && hook_is_dmabuf(fd))       \
			fs->f_type = DMA_BUF_MAGIC; \
		return r;                           \
	}
FSTATFS_HOOK(fstatfs, statfs)
FSTATFS_HOOK(fstatfs64, statfs64)

static bool hook_access_ours(int dirfd, const char *path, int mode, int *result)
{
	struct node node;

	if (!vfs_find(dirfd, path, &node))
		return false;
	*result = -1;
	if (node.kind == NODE_MISSING)
		errno = ENOENT;
	else if ((node.kind == NODE_FILE && (mode & (W_OK | X_OK))) || (node.kind >= NODE_CDEV && (mode & X_OK)))
		errno = EACCES;
	else
		*result = 0;
	return true;
}

HOOK int access(const char *path, int mode)
{
	int r;

	return hook_access_ours(AT_FDCWD, path, mode, &r) ? r : REAL(access)(path, mode);
}

HOOK int euidaccess(const char *path, int mode)
{
	int r;

	return hook_access_ours(AT_FDCWD, path, mode, &r) ? r : REAL(euidaccess)(path, mode);
}

HOOK int eaccess(const char *path, int mode)
{
	int r;

	return hook_access_ours(AT_FDCWD, path, mode, &r) ? r : REAL(eaccess)(path, mode);
}

HOOK int faccessat(int dirfd, const char *path, int mode, int flags)
{
	int r;

	return hook_access_ours(dirfd, path, mode, &r) ? r : REAL(faccessat)(dirfd, path, mode, flags);
}

static bool hook_readlink_ours(int dirfd, const char *path, char *buf, size_t size, ssize_t *result)
{
	char target[256];
	struct node node;
	int n;

	if (!vfs_find(dirfd, path, &node))
		return false;
	n = node.kind == NODE_MISSING ? -ENOENT : sysfs_link_target(&node, target, sizeof(target));
	if (n > 0) {
		n = (size_t)n < size ? n : (int)size;
		memcpy(buf, target, (size_t)n);
	}
	*result = ERRNO_RETURN(n);
	return true;
}

HOOK ssize_t readlink(const char *path, char *buf, size_t size)
{
	ssize_t r;

	return hook_readlink_ours(AT_FDCWD, path, buf, size, &r) ? r : REAL(readlink)(path, buf, size);
}

HOOK ssize_t readlinkat(int dirfd, const char *path, char *buf, size_t size)
{
	ssize_t r;

	return hook_readlink_ours(dirfd, path, buf, size, &r) ? r : REAL(readlinkat)(dirfd, path, buf, size);
}

ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t buf_size);
HOOK ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t buf_size)
{
	ssize_t r;

	return hook_readlink_ours(AT_FDCWD, path, buf, size < buf_size ? size : buf_size, &r)
	               ? r
	               : REAL(__readlink_chk)(path, buf, size, buf_size);
}
