// SPDX-License-Identifier: Apache-2.0
/* What the machine has. */
#ifndef DAEMON_BASE_MACHINE_H
#define DAEMON_BASE_MACHINE_H

#include <stdint.h>
#include <unistd.h>

/* Rings and arenas may take so much of the machine's memory: the kernel and programs need the rest. */
#define MACHINE_SHARE_MAX_PERCENT 70

/** Bytes of memory of the machine, used and free. */
static inline uint64_t machine_memory_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

#endif
