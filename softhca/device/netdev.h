// SPDX-License-Identifier: Apache-2.0
/* What the device knows of the netdev that is its port. Each function reads the current state. */
#ifndef SOFTHCA_DEVICE_NETDEV_H
#define SOFTHCA_DEVICE_NETDEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gid_type { GID_ROCE_V1 = 1, GID_ROCE_V2 = 2 }; /* enum ib_uverbs_gid_type */

struct gid {
	uint8_t raw[16];
	enum gid_type type;
};

bool netdev_link_up(const char *netdev); /* the link is up and has carrier */
int netdev_mtu(const char *netdev);      /* MTU, or negative errno */

/* The largest path MTU that fits, as enum ib_mtu: 1 is 256 bytes, 5 is 4096 (ib_core: iboe_get_mtu). */
uint8_t netdev_ib_mtu(int mtu);

uint64_t netdev_guid(const char *netdev); /* EUI-64 of the MAC, host order */

/* The port's GID table as the kernel's RoCE code builds it: first the link-local address made from the MAC, then
 * every address of the netdev (IPv4 ones mapped); each as RoCE v1 and v2. Returns the number of entries. */
size_t netdev_gids(const char *netdev, struct gid *gids, size_t max);

#endif
