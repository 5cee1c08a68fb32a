// SPDX-License-Identifier: Apache-2.0
/*
 * Finds out if sysfs shows an interface of this network namespace. A mounted sysfs shows the interfaces of the network
 * namespace in which it was mounted. In a container that may be the host's, with another interface of the same name.
 */
#include "daemon/net/net.h"
#include "lib/base/files.h"

#include <stdio.h>
#include <string.h>

/* Only Ethernet has addresses of this length. No other interface has a device of which sysfs could say anything. */
static bool sysfs_has_mac(const char *directory, const uint8_t mac[6])
{
	char here[32], there[128] = "";

	snprintf(here, sizeof(here), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
	files_read_line(there, sizeof(there), "%s/address", directory);
	return strlen(here) != strlen(there) || strcmp(here, there) == 0;
}

bool net_is_in_sysfs(const char *interface)
{
	struct net_interface here;
	char directory[PATH_MAX];

	if (net_interface_read(interface, &here, NULL) < 0)
		return false;
	files_join(directory, "/sys/class/net/%s", interface);
	return files_read_number(directory, "ifindex") == here.index && sysfs_has_mac(directory, here.mac);
}
