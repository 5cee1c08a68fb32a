// SPDX-License-Identifier: Apache-2.0
/*
 * Shared memory in memfds: the daemon creates, populates and seals it, and clients map it. The seals let a client
 * neither resize memory nor write to what it may only read. shm_self_test() checks that this kernel enforces them.
 */
#include "lib/ibvcap/shm.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL_PAGE 4096u

/* Newer than the kernel headers of Debian 12. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

static int create_memfd(const char *name, uint32_t page_bytes)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd;

	/* The bits from MFD_HUGE_SHIFT on hold the log2 of the page size. */
	if (page_bytes != SMALL_PAGE)
		flags |= MFD_HUGETLB | (unsigned int)__builtin_ctz(page_bytes) << MFD_HUGE_SHIFT;
	/* With vm.memfd_noexec = 2 the flag is required; before Linux 6.3 it is EINVAL. */
	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	return fd < 0 ? -errno : fd;
}

/*
 * Allocate every page now, since a hugepage that is missing later is a SIGBUS. MAP_POPULATE would hide the failure.
 * hugetlbfs reports an empty pool as EFAULT or ENOSPC.
 */
static int shm_populate(void *address, size_t bytes, uint32_t page_bytes)
{
	/* Linux 5.14; before, EINVAL. */
	if (madvise(address, bytes, MADV_POPULATE_WRITE) < 0)
		return errno == EFAULT || errno == ENOSPC ? -ENOMEM : -errno;
	/* Reading a page back from swap would stall the worker. If RLIMIT_MEMLOCK forbids the lock, that may happen. */
	if (page_bytes == SMALL_PAGE)
		(void)mlock(address, bytes);
	return 0;
}

/* A core dump with GiB of other people's packets helps nobody. If the kernel refuses, the dump is just larger. */
static void shm_exclude_from_dump(void *address, size_t bytes)
{
	(void)madvise(address, bytes, MADV_DONTDUMP);
}

/* shm_create(); *call names the call that failed. */
static int shm_make(struct shm *shm, const char *name, size_t bytes, uint32_t page_bytes, const char **call)
{
	/* The kernel maps whole pages, and its ordinary pages are larger than 4096 bytes on some machines. */
	size_t ordinary = (size_t)sysconf(_SC_PAGESIZE), page = page_bytes > ordinary ? page_bytes : ordinary;
	struct shm new = SHM_INIT;
	void *address;
	int r;

	new.page_bytes = page_bytes;
	new.bytes = (bytes + page - 1) & ~(page - 1);
	*call = "memfd_create";
	new.fd = create_memfd(name, page_bytes);
	if (new.fd < 0)
		return new.fd;
	*call = "ftruncate";
	if (ftruncate(new.fd, (off_t) new.bytes) < 0) {
		r = -errno;
		goto fail;
	}
	*call = "mmap";
	address = mmap(NULL, new.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, new.fd, 0);
	if (address == MAP_FAILED) {
		r = -errno;
		goto fail;
	}
	new.address = address;
	shm_exclude_from_dump(new.address, new.bytes);
	*call = "madvise(MADV_POPULATE_WRITE)";
	r = shm_populate(new.address, new.bytes, page_bytes);
	if (r < 0)
		goto fail;
	*shm = new;
	return 0;

fail:
	shm_deinit(&new);
	return r;
}

int shm_create(struct shm *shm, const char *name, size_t bytes, uint32_t page_bytes)
{
	const char *call;

	if (bytes == 0 || page_bytes < SMALL_PAGE || (page_bytes & (page_bytes - 1)) || bytes > SIZE_MAX / 2)
		return -EINVAL;
	return shm_make(shm, name, bytes, page_bytes, &call);
}

int shm_reserve(struct shm *shm, size_t bytes)
{
	struct shm new = {.bytes = bytes, .fd = -1, .page_bytes = SMALL_PAGE};

	new.address = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (new.address == MAP_FAILED)
		return -errno;
	*shm = new;
	return 0;
}

int shm_seal_readonly(struct shm *shm)
{
	/* Another user may open the memfd again through /proc: then only the inode's mode protects it. */
	if (fchmod(shm->fd, 0400) < 0)
		return -errno;
	if (fcntl(shm->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	return 0;
}

int shm_seal_size(struct shm *shm)
{
	return fcntl(shm->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ? -errno : 0;
}

int shm_fix_size(struct shm *shm)
{
	return fcntl(shm->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0 ? -errno : 0;
}

int shm_seal_mapped(struct shm *shm)
{
	if (fcntl(shm->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	return shm_populate(shm->address, shm->bytes, shm->page_bytes);
}

/* Opens a new file description, since a dup() would keep O_RDWR. */
static int shm_reopen(int fd, int flags)
{
	char path[32];
	int new_fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	new_fd = open(path, flags | O_CLOEXEC);
	return new_fd < 0 ? -errno : new_fd;
}

int shm_reopen_readonly(const struct shm *shm)
{
	return shm_reopen(shm->fd, O_RDONLY);
}

/* ---- self-test ----------------------------------------------------------------------------------- */

static bool can_map_writable(int fd, size_t bytes)
{
	void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (address == MAP_FAILED)
		return false;
	munmap(address, bytes);
	return true;
}

static bool can_upgrade_mapping(int fd, size_t bytes)
{
	void *address = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	bool upgraded;

	if (address == MAP_FAILED)
		return false;
	upgraded = mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
	munmap(address, bytes);
	return upgraded;
}

static bool can_change_file(int fd, size_t bytes)
{
	const char byte = 1;

	return pwrite(fd, &byte, 1, 0) >= 0 || ftruncate(fd, 0) == 0 || ftruncate(fd, (off_t)(2 * bytes)) == 0 ||
	       fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) == 0;
}

static bool can_write_through(int fd, size_t bytes)
{
	return can_map_writable(fd, bytes) || can_upgrade_mapping(fd, bytes) || can_change_file(fd, bytes);
}

/* Tries what a consumer could try with its descriptor. Root can open it for writing; then only the seal protects it. */
static int try_to_write(const struct shm *shm, int readonly_fd)
{
	int writable_fd = shm_reopen(readonly_fd, O_RDWR);
	bool written = can_write_through(readonly_fd, shm->bytes);

	if (writable_fd >= 0) {
		written = written || can_write_through(writable_fd, shm->bytes);
		close(writable_fd);
	}
	return written ? -ENOTSUP : 0;
}

/* The daemon's mapping must stay writable, and the consumer's must see what it writes. */
static int try_to_share(const struct shm *shm, int readonly_fd)
{
	unsigned char *mine = shm->address;
	unsigned char *theirs = mmap(NULL, shm->bytes, PROT_READ, MAP_SHARED, readonly_fd, 0);
	bool seen;

	if (theirs == MAP_FAILED)
		return -errno;
	mine[0] = 0x5a;
	seen = theirs[0] == 0x5a;
	munmap(theirs, shm->bytes);
	return seen ? 0 : -ENOTSUP;
}

int shm_self_test(uint32_t page_bytes, const char **call)
{
	struct shm shm = SHM_INIT;
	int readonly_fd = -1;
	int r;

	r = shm_make(&shm, "ibvcap-self-test", page_bytes, page_bytes, call);
	if (r < 0)
		return r;
	*call = "fcntl(F_SEAL_FUTURE_WRITE)";
	r = shm_seal_readonly(&shm);
	if (r < 0)
		goto out;
	*call = "open(O_RDONLY) of a memfd in /proc/self/fd";
	r = readonly_fd = shm_reopen_readonly(&shm);
	if (r < 0)
		goto out;
	*call = "mmap of sealed memory";
	r = try_to_write(&shm, readonly_fd);
	if (r == 0)
		r = try_to_share(&shm, readonly_fd);

out:
	fd_close(&readonly_fd);
	shm_deinit(&shm);
	return r;
}

/* ---- the client's side --------------------------------------------------------------------------- */

/* If the peer could shrink the segment, a read here would be a SIGBUS: its size must be sealed. */
static int check_segment(int fd, struct stat *status)
{
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, status) < 0)
		return -EPROTO;
	return status->st_size > 0 ? 0 : -EPROTO;
}

int shm_map(struct shm *shm, int fd, bool writable)
{
	struct shm new = {.fd = fd};
	struct stat status;
	void *address;
	int r;

	r = check_segment(fd, &status);
	if (r < 0)
		goto fail;
	address = mmap(NULL, (size_t)status.st_size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	if (address == MAP_FAILED) {
		r = -errno;
		goto fail;
	}
	new.address = address;
	new.bytes = (size_t)status.st_size;
	shm_exclude_from_dump(new.address, new.bytes);
	new.page_bytes = (uint32_t)status.st_blksize;
	*shm = new;
	return 0;

fail:
	shm_deinit(&new);
	return r;
}

void shm_deinit(struct shm *shm)
{
	if (shm->address)
		munmap(shm->address, shm->bytes);
	fd_close(&shm->fd);
	*shm = (struct shm)SHM_INIT;
}
