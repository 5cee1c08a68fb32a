// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/tools/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

off_t disk_allocated_at, disk_allocated_bytes;
uint64_t disk_free_bytes, disk_total_bytes;
long disk_type;

static struct {
	unsigned n_calls;
	unsigned from; /* the call that fails first */
	unsigned until;
	int error;
} calls[DISK_N];

void disk_fail(enum disk_call call, unsigned after, unsigned n, int error)
{
	calls[call].from = calls[call].n_calls + after;
	calls[call].until = calls[call].from + n;
	calls[call].error = error;
}

unsigned disk_count(enum disk_call call)
{
	return calls[call].n_calls;
}

static int disk_fails(enum disk_call call)
{
	unsigned number = calls[call].n_calls++;

	if (number < calls[call].from || number >= calls[call].until)
		return 0;
	errno = calls[call].error;
	return 1;
}

#define FAILING(call, result, name, parameters, arguments)              \
	result __real_##name parameters;                                \
	result __wrap_##name parameters;                                \
	result __wrap_##name parameters                                 \
	{                                                               \
		return disk_fails(call) ? -1 : __real_##name arguments; \
	}

FAILING(DISK_FTRUNCATE, int, ftruncate, (int fd, off_t bytes), (fd, bytes))
FAILING(DISK_FDATASYNC, int, fdatasync, (int fd), (fd))
FAILING(DISK_FSYNC, int, fsync, (int fd), (fd))
FAILING(DISK_RENAMEAT, int, renameat, (int from, const char *old, int to, const char *name), (from, old, to, name))
FAILING(DISK_RENAMEAT2, int, renameat2, (int from, const char *old, int to, const char *name, unsigned flags),
        (from, old, to, name, flags))
FAILING(DISK_SYNC_FILE_RANGE, int, sync_file_range, (int fd, off_t at, off_t bytes, unsigned flags),
        (fd, at, bytes, flags))

int __real_fallocate(int fd, int mode, off_t at, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes);
ssize_t __real_pwrite(int fd, const void *from, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t n, off_t at);
int __real_fstatvfs(int fd, struct statvfs *disk);
int __wrap_fstatvfs(int fd, struct statvfs *disk);
int __real_fstatfs(int fd, struct statfs *system);
int __wrap_fstatfs(int fd, struct statfs *system);

int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes)
{
	disk_allocated_at = at;
	disk_allocated_bytes = bytes;
	return disk_fails(DISK_FALLOCATE) ? -1 : __real_fallocate(fd, mode, at, bytes);
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t n, off_t at)
{
	if (!disk_fails(DISK_PWRITE))
		return __real_pwrite(fd, from, n, at);
	return calls[DISK_PWRITE].error ? -1 : __real_pwrite(fd, from, 1, at);
}

int __wrap_fstatvfs(int fd, struct statvfs *disk)
{
	int r = __real_fstatvfs(fd, disk);

	if (disk_free_bytes) {
		disk->f_frsize = 1;
		disk->f_bavail = disk_free_bytes;
		disk->f_bfree = disk_free_bytes + 100;
		disk->f_blocks = disk_total_bytes;
	}
	return r;
}

int __wrap_fstatfs(int fd, struct statfs *system)
{
	int r = __real_fstatfs(fd, system);

	if (disk_type)
		system->f_type = disk_type;
	return r;
}
