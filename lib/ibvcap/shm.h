// SPDX-License-Identifier: Apache-2.0
/* Anonymous shared memory: create, map, seal, hand out read-only. Daemon and library link this. */
#ifndef IBVCAP_SHM_H
#define IBVCAP_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** One memfd and its mapping in this process. Zero-initialise fd with -1 through SHM_INIT. */
struct shm {
	void *address;       /* NULL = not mapped */
	size_t bytes;        /* a multiple of page_bytes */
	int fd;              /* -1 = closed */
	uint32_t page_bytes; /* 4096, 2 MiB or 1 GiB */
};

#define SHM_INIT         \
	{                \
		.fd = -1 \
	}

/**
 * Create, map read-write and populate a segment of at least bytes. page_bytes other than 4096 asks for
 * hugetlb pages of that size. Blocks while pages are zeroed. -ENOMEM: no (huge)pages left; -EINVAL.
 */
int shm_create(struct shm *shm, const char *name, size_t bytes, uint32_t page_bytes);

/**
 * Seal for consumers who may only read: no size change, no new writable mapping, fchmod 0400; the
 * mapping made before goes on writing. Call after everything that needs a writable map (registration).
 */
int shm_seal_readonly(struct shm *shm);

/** Seal the size only (a consumer's own page). */
int shm_seal_size(struct shm *shm);

/**
 * For what a client maps writable, in two steps. shm_fix_size() before it gets the descriptor: the size stays. Once it
 * has mapped it, shm_seal_mapped(): no other writable mapping and no hole in it any more, and every page is there: what
 * was punched out before is zeroes again. A mapping that a device has to know is registered after that. -EPERM: the
 * client has sealed the seals; -ENOMEM: no page for a hole.
 */
int shm_fix_size(struct shm *shm);
int shm_seal_mapped(struct shm *shm);

/** A new O_RDONLY descriptor of a sealed segment, to be sent and then closed. Returns fd or -errno. */
int shm_reopen_readonly(const struct shm *shm);

/**
 * Does this kernel keep what shm_seal_readonly() promises, for that page size? 0 yes; -ENOTSUP a
 * writable mapping was possible; other -errno: could not be tried.
 */
int shm_self_test(uint32_t page_bytes);

/** Map what came as a descriptor: its size is read from it and checked against expected (0 = any). Takes fd over. */
int shm_map(struct shm *shm, int fd, bool writable, size_t expected_bytes);

/** Unmap and close; any state, twice is fine. */
void shm_deinit(struct shm *shm);

#endif
