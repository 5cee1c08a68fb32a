// SPDX-License-Identifier: Apache-2.0
/* open() and its family. Fortified programs call the __open_2 names. */
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* True if the path is emulated; `*result` is then the result of the call. */
static bool hook_open_ours(int dirfd, const char *path, int flags, int *result)
{
	struct node node;

	if (!vfs_find(dirfd, path, &node))
		return false;
	*result = ERRNO_RETURN(vfs_open(&node, flags));
	return true;
}

static mode_t hook_open_mode(int flags, va_list ap)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

#define OPEN_BODY(dirfd, real_call)                  \
	va_list ap;                                  \
	mode_t mode;                                 \
	int fd;                                      \
	va_start(ap, flags);                         \
	mode = hook_open_mode(flags, ap);            \
	va_end(ap);                                  \
	if (hook_open_ours(dirfd, path, flags, &fd)) \
		return fd;                           \
	return real_call

HOOK int open(const char *path, int flags, ...)
{
	OPEN_BODY(AT_FDCWD, REAL(open)(path, flags, mode));
}

HOOK int open64(const char *path, int flags, ...)
{
	OPEN_BODY(AT_FDCWD, REAL(open64)(path, flags, mode));
}

HOOK int openat(int dirfd, const char *path, int flags, ...)
{
	OPEN_BODY(dirfd, REAL(openat)(dirfd, path, flags, mode));
}

HOOK int openat64(int dirfd, const char *path, int flags, ...)
{
	OPEN_BODY(dirfd, REAL(openat64)(dirfd, path, flags, mode));
}

int __open_2(const char *path, int flags);
HOOK int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

int __open64_2(const char *path, int flags);
HOOK int __open64_2(const char *path, int flags)
{
	return open64(path, flags);
}

int __openat_2(int dirfd, const char *path, int flags);
HOOK int __openat_2(int dirfd, const char *path, int flags)
{
	return openat(dirfd, path, flags);
}

int __openat64_2(int dirfd, const char *path, int flags);
HOOK int __openat64_2(int dirfd, const char *path, int flags)
{
	return openat64(dirfd, path, flags);
}

/* The C library's fopen() opens files inside itself, so open() cannot be interposed there. */
static bool hook_fopen_ours(const char *path, const char *mode, FILE **file)
{
	struct node node;
	int fd;

	if (!vfs_find(AT_FDCWD, path, &node))
		return false;
	fd = ERRNO_RETURN(vfs_open(&node, strpbrk(mode, "wa+") ? O_RDWR : O_RDONLY));
	*file = fd < 0 ? NULL : fdopen(fd, mode);
	/* fclose() closes the descriptor inside the C library, which we cannot see: so it must not stay in the
	 * table. */
	if (fd >= 0)
		fd_object_put(fdtab_take(&root_peek()->fdtab, fd));
	return true;
}

HOOK FILE *fopen(const char *path, const char *mode)
{
	FILE *f;

	return hook_fopen_ours(path, mode, &f) ? f : REAL(fopen)(path, mode);
}

HOOK FILE *fopen64(const char *path, const char *mode)
{
	FILE *f;

	return hook_fopen_ours(path, mode, &f) ? f : REAL(fopen64)(path, mode);
}
