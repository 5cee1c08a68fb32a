// SPDX-License-Identifier: Apache-2.0
/* From a GID to the MAC address of a frame for it, as ib_core does it (ib_resolve_eth_dmac). */
#ifndef SOFTHCA_ROCE_NEIGHBOR_H
#define SOFTHCA_ROCE_NEIGHBOR_H

#include "roce_packet.h"

/* Both ff00::/8 and mapped IPv4 groups (ib_core: rdma_is_multicast_addr). */
bool gid_is_multicast(const uint8_t gid[16]);

/* The netdev's own address. 0 or negative errno. */
int neighbor_own_mac(const char *netdev, uint8_t mac[6]);

/* Sets the destination MAC address of a path whose GIDs are set. It asks the kernel for the route and the neighbour,
 * and waits for it up to a second. 0, -ENETUNREACH or -ETIMEDOUT. */
int neighbor_find(const char *netdev, struct roce_path *path);

#endif
