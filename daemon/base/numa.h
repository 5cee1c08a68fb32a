// SPDX-License-Identifier: Apache-2.0
/*
 * The NUMA nodes of a machine with several: memory and CPUs near a device. On a machine with one node, and for a device
 * that does not say its node, everything here has no effect.
 */
#ifndef DAEMON_BASE_NUMA_H
#define DAEMON_BASE_NUMA_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#define NUMA_ANY (-1)

#define NUMA_SYSFS "/sys"

/** The node of the device behind a network interface, or NUMA_ANY. sysfs: NUMA_SYSFS. Reads files. */
int32_t numa_node_of_interface(const char *sysfs, const char *interface);

/** The CPUs of a node, of those in *allowed. False: there is none, or the node is NUMA_ANY. Reads a file. */
bool numa_cpus(const char *sysfs, int32_t node, const cpu_set_t *allowed, cpu_set_t *cpus);

/**
 * Until numa_end() the pages that this thread gets, and the kernel for it, come from the node as far as that has some.
 * False, and nothing has changed: NUMA_ANY, or the administrator has given the process a policy of its own (numactl).
 */
bool numa_begin(int32_t node);
/** has_begun: what numa_begin() returned. */
void numa_end(bool has_begun);

/** The node that a page of this process is on; NUMA_ANY: not known. */
int32_t numa_node_of_page(const void *address);

#endif
