// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the nodes from sysfs, and sets the memory policy of a thread, which counts for all pages that it is the first
 * to touch and for those that the kernel allocates in its system calls, such as rings of packet and AF_XDP sockets.
 * "Preferred": without a free page on the node, one of another node serves.
 */
#include "daemon/base/numa.h"

#include "lib/base/files.h"

#include <linux/mempolicy.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMA_NODES_MAX 1024
#define NUMA_WORD_BITS (8 * sizeof(unsigned long))
#define NUMA_MASK_BITS (NUMA_NODES_MAX + 1) /* set_mempolicy(2) uses one bit less than its argument says */

int32_t numa_node_of_interface(const char *sysfs, const char *interface)
{
	char line[16];
	cpu_set_t nodes;
	int node;

	if (!files_read_cpus(&nodes, "%s/devices/system/node/online", sysfs) || CPU_COUNT(&nodes) < 2 ||
	    !files_read_line(line, sizeof(line), "%s/class/net/%s/device/numa_node", sysfs, interface))
		return NUMA_ANY;
	node = atoi(line);
	return node >= 0 && node < NUMA_NODES_MAX ? node : NUMA_ANY;
}

bool numa_cpus(const char *sysfs, int32_t node, const cpu_set_t *allowed, cpu_set_t *cpus)
{
	if (node == NUMA_ANY || !files_read_cpus(cpus, "%s/devices/system/node/node%d/cpulist", sysfs, node))
		return false;
	CPU_AND(cpus, cpus, allowed);
	return CPU_COUNT(cpus) > 0;
}

bool numa_begin(int32_t node)
{
	unsigned long mask[NUMA_NODES_MAX / NUMA_WORD_BITS + 1] = {0};
	int mode = MPOL_DEFAULT;

	if (node == NUMA_ANY || syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) < 0 || mode != MPOL_DEFAULT)
		return false;
	mask[(uint32_t)node / NUMA_WORD_BITS] = 1UL << (uint32_t)node % NUMA_WORD_BITS;
	return syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, NUMA_MASK_BITS) == 0;
}

void numa_end(bool has_begun)
{
	if (has_begun)
		syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}

int32_t numa_node_of_page(const void *address)
{
	int node;

	return syscall(SYS_get_mempolicy, &node, NULL, 0, address, MPOL_F_NODE | MPOL_F_ADDR) == 0 ? node : NUMA_ANY;
}
