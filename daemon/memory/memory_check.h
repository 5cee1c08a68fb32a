// SPDX-License-Identifier: Apache-2.0
/* Does the machine have the memory that streams and channels take, and may the process lock it? */
#ifndef DAEMON_MEMORY_MEMORY_CHECK_H
#define DAEMON_MEMORY_MEMORY_CHECK_H

#include "daemon/config/config.h"
#include "lib/base/failure.h"

#include <stdbool.h>
#include <stdint.h>

#define MEMORY_HUGE_SIZES 2

/* Bytes of a hugepage, as page_size has them. */
extern const uint32_t memory_huge_bytes[MEMORY_HUGE_SIZES];

/* Memory that a service locks. */
struct service_memory {
	uint64_t ring_bytes;                     /* the ring of a stream */
	uint64_t small_ring_bytes;               /* of that, in 4 kB pages */
	uint64_t n_hugepages[MEMORY_HUGE_SIZES]; /* of that, in hugepages of each size */
	uint64_t kernel_bytes;                   /* that the kernel takes for the queue of a stream, besides */
	uint64_t locked_ring_bytes;              /* the part of ring_bytes that the backend locks */
	uint64_t locked_channel_bytes;           /* for a channel and all senders that it may have, likewise */
	uint64_t locked_device_bytes;            /* of open devices, besides: of no service */
};

/**
 * Do the rings of all streams fit into the machine, whatever else is in its memory? Failure: EX_CONFIG with file:line
 * of the largest one.
 */
int memory_check_rings(const struct config *config, struct failure *failure);

/**
 * Is there memory for the rings of added, and may it be locked beside that of running? Rings in 4 kB pages are checked
 * against the memory that is available: if they took more, the kernel would kill a process.
 */
int memory_check_free(const struct service_memory *added, const struct service_memory *running,
                      struct failure *failure);

/** Adds the ring of a stream. is_locked: by its backend. */
void memory_add_ring(struct service_memory *memory, const struct config_stream *stream, uint64_t bytes, bool is_locked);

/**
 * Are there hugepages of memory_huge_bytes[size] for all of these rings? held: those that have theirs already.
 * -ENOMEM: the machine, or the control group, has too few; -EAGAIN: it has enough, and others use them. Failure:
 * EX_TEMPFAIL.
 */
int memory_check_hugepages(const struct service_memory *all, const struct service_memory *held, unsigned size,
                           struct failure *failure);

/**
 * Memory of senders is locked when they come, and that of an interface that was away is locked again when it is back.
 * True: all of it together is more than RLIMIT_MEMLOCK allows; the log says so, and what follows.
 */
bool memory_needs_ipc_lock(const struct service_memory *memory);

#endif
