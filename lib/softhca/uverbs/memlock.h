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
/*
 * The same for what the device works in: queues start at multiples of 64 bytes (mlx5_ib:
 * mlx5_umem_find_best_quantized_pgoff), doorbell records of 8 (PRM, dbr_addr), else -EINVAL.
 * Adds to `*pages`, also where it fails.
 */
int memlock_pin_queue(struct memlock *m, uint64_t addr, uint64_t bytes, uint64_t *pages);
int memlock_pin_doorbell(struct memlock *m, uint64_t addr, uint64_t *pages);
void memlock_unpin(struct memlock *m, uint64_t pages);

/* Does the calling thread have this capability in effect, and in the first user namespace, as the
 * kernel's capable() wants it (CAP_IPC_LOCK, CAP_SYS_RAWIO)? */
bool program_has_capability(unsigned int cap);

/* CAP_NET_RAW in the user namespace that owns the network's (ib_uverbs: rdma_uattrs_has_raw_cap). */
bool program_has_net_raw(void);

#endif
