// SPDX-License-Identifier: Apache-2.0
/* Anonymous shared memory: create, map, seal, hand out read-only. Daemon and library link this. */
#ifndef IBVCAP_SHM_H
#define IBVCAP_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** One memfd and its mapping in this process. Initialise it with SHM_INIT. */
struct shm {
	void *address;       /* NULL = not mapped */
	size_t bytes;        /* a multiple of page_bytes and of the kernel's ordinary pages */
	int fd;              /* -1 = closed */
	uint32_t page_bytes; /* 4096, 2 MiB or 1 GiB */
};

#define SHM_INIT         \
	{                \
		.fd = -1 \
	}

/**
 * Create, map read-write and populate a segment of at least bytes. A page_bytes other than 4096 asks for hugetlb pages
 * of that size. Blocks while the kernel zeroes pages. -ENOMEM: no (huge)pages left; -EINVAL.
 */
int shm_create(struct shm *shm, const char *name, size_t bytes, uint32_t page_bytes);

/**
 * Addresses of so many bytes without memory, which fault at each access: they stand for memory that only a device
 * reaches. There is no descriptor. 0 or -errno.
 */
int shm_reserve(struct shm *shm, size_t bytes);

/**
 * Seal memory that clients may only read: no size change, no new writable mapping, mode 0400. The daemon's own mapping,
 * made before, stays writable. Call it after all that needs a new writable mapping, such as registration.
 */
int shm_seal_readonly(struct shm *shm);

/** Seal the size only, of memory that its client writes: a consumer's page. */
int shm_seal_size(struct shm *shm);

/**
 * Seal memory that a client maps writable and a device reads, in two steps. shm_fix_size() before the client gets the
 * descriptor: the size stays. shm_seal_mapped() once the client has mapped it: no further writable mapping can be made
 * and no hole punched, and pages that the client had punched out are populated again. Register the memory with a device
 * only after that. -EPERM: the client has set F_SEAL_SEAL itself; -ENOMEM: no page for a hole.
 */
int shm_fix_size(struct shm *shm);
int shm_seal_mapped(struct shm *shm);

/** A new O_RDONLY descriptor of a sealed segment, for the caller to send and close. Returns fd or -errno. */
int shm_reopen_readonly(const struct shm *shm);

/** The first kernel that has all calls of this header: MADV_POPULATE_WRITE is the newest. */
#define SHM_LINUX_MIN "Linux 5.14"

/**
 * Does this kernel enforce what shm_seal_readonly() promises, for that page size? 0 yes; -ENOTSUP: a writable mapping
 * was possible; -ENODEV: the machine has no pages of that size; -ENOMEM: no page is free; another -errno: *call failed,
 * so the test could not be made. *call is a constant text.
 */
int shm_self_test(uint32_t page_bytes, const char **call);

/** Map a received descriptor. Takes fd over, also on failure. -EPROTO: its size is 0 or not sealed. */
int shm_map(struct shm *shm, int fd, bool writable);

/** Unmap and close. Allowed in any state, also twice. */
void shm_deinit(struct shm *shm);

#endif
