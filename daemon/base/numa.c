// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the nodes from sysfs, and sets the memory policy of a thread, which counts for all pages that it is the first
 * to touch and for those that the kernel allocates in its system calls, such as rings of packet and AF_XDP sockets.
 * "Preferred": without a free page on the node, one of another node serves.
 */
#include "daemon/base/numa.h"

#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMA_NODES_MAX 1024
#define NUMA_WORD_BITS (8 * sizeof(unsigned long))
#define NUMA_MASK_BITS (NUMA_NODES_MAX + 1) /* set_mempolicy(2) uses one bit less than its argument says */

/* The numbers of a list such as "0-3,8" as a set. False: there is no such file. */
static bool numa_read_list(const char *path, cpu_set_t *numbers)
{
	FILE *file = fopen(path, "re");
	unsigned int first, last;
	int separator = ',';

	CPU_ZERO(numbers);
	if (!file)
		return false;
	while (separator == ',' && fscanf(file, "%u", &first) == 1) {
		last = first;
		separator = fgetc(file);
		if (separator == '-') {
			if (fscanf(file, "%u", &last) != 1)
				break;
			separator = fgetc(file);
		}
		for (; first <= last && first < CPU_SETSIZE; first++)
			CPU_SET(first, numbers);
	}
	fclose(file);
	return true;
}

int32_t numa_node_of_interface(const char *sysfs, const char *interface)
{
	int32_t node = NUMA_ANY;
	cpu_set_t nodes;
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/devices/system/node/online", sysfs);
	if (!numa_read_list(path, &nodes) || CPU_COUNT(&nodes) < 2)
		return NUMA_ANY;
	snprintf(path, sizeof(path), "%s/class/net/%s/device/numa_node", sysfs, interface);
	file = fopen(path, "re");
	if (!file)
		return NUMA_ANY;
	if (fscanf(file, "%d", &node) != 1 || node < 0 || node >= NUMA_NODES_MAX)
		node = NUMA_ANY;
	fclose(file);
	return node;
}

bool numa_cpus(const char *sysfs, int32_t node, const cpu_set_t *allowed, cpu_set_t *cpus)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist", sysfs, node);
	if (node == NUMA_ANY || !numa_read_list(path, cpus))
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
