// SPDX-License-Identifier: Apache-2.0
/*
 * Pins memory of the program as the kernel would for a device, counts it against RLIMIT_MEMLOCK, and tells which
 * capabilities the program has.
 */
#include "../device/refuse.h"
#include "memlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES        4096u
#define QUEUE_ALIGN_BYTES 64u
#define DBREC_BYTES       8u

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

static bool capability_in_effect(unsigned int cap)
{
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {};

	if (syscall(SYS_capget, &hdr, data))
		return false;
	return data[cap / 32].effective & 1u << (cap % 32);
}

bool program_has_capability(unsigned int cap)
{
	static const char first[] = "user:[4026531837]"; /* PROC_USER_INIT_INO, linux/proc_ns.h */
	char name[64];
	long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/user", name, sizeof(name));

	/* If /proc is missing, it cannot be told. */
	return capability_in_effect(cap) &&
	       (n < 0 || (n == sizeof(first) - 1 && !memcmp(name, first, sizeof(first) - 1)));
}

bool program_has_net_raw(void)
{
	long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/ns/net", O_RDONLY | O_CLOEXEC), owner;
	bool above = false;

	if (fd >= 0) {
		/* EPERM: the owner is a user namespace above ours. */
		owner = syscall(SYS_ioctl, fd, NS_GET_USERNS);
		above = owner < 0 && errno == EPERM;
		if (owner >= 0)
			syscall(SYS_close, owner);
		syscall(SYS_close, fd);
	}
	return !above && capability_in_effect(CAP_NET_RAW);
}

/* Faults everything in, as pin_user_pages does; for writing if that is asked. Kernels before 5.14 cannot do this,
 * which shows by EINVAL for a page of our own, too. */
static bool memlock_populate(uint64_t first, uint64_t bytes, int advice)
{
	static uint8_t probe[PAGE_BYTES] __attribute__((aligned(PAGE_BYTES)));

	return !madvise((void *)(uintptr_t)first, bytes, advice) ||
	       (errno == EINVAL && madvise(probe, sizeof(probe), advice));
}

int memlock_pin(struct memlock *m, uint64_t addr, uint64_t bytes, bool writable, uint64_t *pages)
{
	uint64_t first = addr & ~(uint64_t)(PAGE_BYTES - 1);
	uint64_t last = (addr + bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	uint64_t total;

	*pages = 0;
	/* ib_umem_get: the range must not wrap. */
	if (addr + bytes < addr || addr + bytes > UINT64_MAX - PAGE_BYTES)
		return refuse(EINVAL, "length", "it goes beyond the end of memory", "ib_core: ib_umem_get");
	if (first == last)
		return 0;
	total = atomic_fetch_add(&m->pages, (last - first) / PAGE_BYTES) + (last - first) / PAGE_BYTES;
	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur != RLIM_INFINITY && total > limit.rlim_cur / PAGE_BYTES &&
	    !program_has_capability(CAP_IPC_LOCK)) {
		memlock_unpin(m, (last - first) / PAGE_BYTES);
		return refuse(ENOMEM, "length", "over RLIMIT_MEMLOCK, without CAP_IPC_LOCK",
		              "ib_core: ib_umem_get; ibv_reg_mr(3)");
	}
	if (!memlock_populate(first, last - first, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)) {
		memlock_unpin(m, (last - first) / PAGE_BYTES);
		return refuse(EFAULT, "addr", "there is no such memory, or it cannot be written to",
		              "ib_core: ib_umem_get; ibv_reg_mr(3)");
	}
	*pages = (last - first) / PAGE_BYTES;
	return 0;
}

static int memlock_pin_aligned(struct memlock *m, uint64_t addr, uint64_t bytes, uint64_t align, uint64_t *pages)
{
	uint64_t more;
	int r = bytes && addr % align ? -EINVAL : memlock_pin(m, addr, bytes, true, &more);

	if (!r)
		*pages += more;
	return r;
}

int memlock_pin_queue(struct memlock *m, uint64_t addr, uint64_t bytes, uint64_t *pages)
{
	return memlock_pin_aligned(m, addr, bytes, QUEUE_ALIGN_BYTES, pages);
}

int memlock_pin_doorbell(struct memlock *m, uint64_t addr, uint64_t *pages)
{
	return memlock_pin_aligned(m, addr, DBREC_BYTES, DBREC_BYTES, pages);
}

void memlock_unpin(struct memlock *m, uint64_t pages)
{
	atomic_fetch_sub(&m->pages, pages);
}
