// SPDX-License-Identifier: Apache-2.0
/*
 * Pinned memory against RLIMIT_MEMLOCK, as ib_umem_get() counts it: whole pages, every
 * registration on its own, no limit with CAP_IPC_LOCK.
 */
#ifndef SOFTHCA_UVERBS_MEMLOCK_H
#define SOFTHCA_UVERBS_MEMLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct memlock {
	_Atomic uint64_t pages;
};

/*
 * Pins [addr, addr + bytes): 0, -ENOMEM over the limit, -EFAULT where memory is missing or not
 * writable but must be, -EINVAL where the range wraps. `*pages` is what to give back.
 */
int memlock_pin(struct memlock *m, uint64_t addr, uint64_t bytes, bool writable, uint64_t *pages);
void memlock_unpin(struct memlock *m, uint64_t pages);

/* Does the calling thread have this capability in effect (CAP_NET_RAW, CAP_IPC_LOCK)? */
bool has_capability(unsigned int cap);

#endif
