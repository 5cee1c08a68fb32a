// SPDX-License-Identifier: Apache-2.0
/*
 * Counts pinned memory against RLIMIT_MEMLOCK as ib_umem_get() does: in whole pages, each registration for itself,
 * and without a limit if the program has CAP_IPC_LOCK.
 */
#ifndef SOFTHCA_UVERBS_MEMLOCK_H
#define SOFTHCA_UVERBS_MEMLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct memlock {
	_Atomic uint64_t pages;
};

/* Pins [addr, addr + bytes). 0; -ENOMEM over the limit; -EFAULT if memory is missing, or not writable but has to be;
 * -EINVAL if the range wraps. `*pages` is the number to give to memlock_unpin(). */
int memlock_pin(struct memlock *m, uint64_t addr, uint64_t bytes, bool writable, uint64_t *pages);
/* The same for queues and doorbell records. Queues must start at multiples of 64 bytes (mlx5_ib:
 * mlx5_umem_find_best_quantized_pgoff), doorbell records at multiples of 8 (PRM, dbr_addr), else -EINVAL. Adds to
 * `*pages`, even if it fails. */
int memlock_pin_queue(struct memlock *m, uint64_t addr, uint64_t bytes, uint64_t *pages);
int memlock_pin_doorbell(struct memlock *m, uint64_t addr, uint64_t *pages);
void memlock_unpin(struct memlock *m, uint64_t pages);

/* Does the calling thread have this capability, in effect and in the initial user namespace, as the kernel's
 * capable() checks it (CAP_IPC_LOCK, CAP_SYS_RAWIO)? */
bool program_has_capability(unsigned int cap);

/* CAP_NET_RAW in the user namespace that owns the network namespace (ib_uverbs: rdma_uattrs_has_raw_cap). */
bool program_has_net_raw(void);

#endif
