// SPDX-License-Identifier: Apache-2.0
/* What the machine has. */
#ifndef DAEMON_BASE_MACHINE_H
#define DAEMON_BASE_MACHINE_H

#include <stdint.h>
#include <unistd.h>

/** Bytes of memory, whoever uses it. */
static inline uint64_t machine_memory_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

#endif
