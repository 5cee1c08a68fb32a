// SPDX-License-Identifier: Apache-2.0
/* Memory, CPUs and kernel version of the machine. */
#ifndef DAEMON_BASE_MACHINE_H
#define DAEMON_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Part of the machine's memory that rings and arenas may take: the kernel and programs need the rest. */
#define MACHINE_SHARE_MAX_PERCENT 70

/** Bytes of memory of the machine, used and free. */
static inline uint64_t machine_memory_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/** Is this the release of Linux major.minor or a later one? "6.1.0-30-amd64"; another text is older than any. Pure. */
static inline bool machine_release_is_from(const char *release, unsigned major, unsigned minor)
{
	unsigned is_major = 0, is_minor = 0;

	sscanf(release, "%u.%u", &is_major, &is_minor);
	return is_major > major || (is_major == major && is_minor >= minor);
}

static inline bool machine_kernel_is_from(unsigned major, unsigned minor)
{
	struct utsname system;

	return uname(&system) == 0 && machine_release_is_from(system.release, major, minor);
}

#endif
