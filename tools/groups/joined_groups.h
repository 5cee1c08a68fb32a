// SPDX-License-Identifier: Apache-2.0
/* The multicast groups that the kernel has joined: only these does a switch with IGMP snooping send to this machine. */
#ifndef TOOLS_GROUPS_JOINED_GROUPS_H
#define TOOLS_GROUPS_JOINED_GROUPS_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct joined_group {
	char interface[IFNAMSIZ];
	sa_family_t family;
	uint8_t address[16];       /* IPv4 in the first 4, network order */
	unsigned int igmp_version; /* that the kernel speaks on the interface now; 0 for IPv6 */
};

typedef void (*joined_group_fn)(const struct joined_group *group, void *context);

/**
 * Visit each group that any process has joined in the network namespace of process pid; 0: this process. root stands
 * before /proc. False: the kernel does not say.
 */
bool joined_groups_for_each(const char *root, pid_t pid, joined_group_fn visit, void *context);

#endif
