// SPDX-License-Identifier: Apache-2.0
/*
 * Which multicast groups the netdev takes: the kernel programs exactly these into a real device
 * (verbs-rules.md "Flow rules": multicast needs a join by an ordinary socket).
 */
#ifndef SOFTHCA_DEVICE_MCAST_H
#define SOFTHCA_DEVICE_MCAST_H

#include <stdbool.h>
#include <stdint.h>

struct mcast_filter;

struct mcast_filter *mcast_new(const char *netdev);
void mcast_free(struct mcast_filter *f);

/* IFF_PROMISC or IFF_ALLMULTI, as of the last refresh. */
bool mcast_promiscuous(const struct mcast_filter *f);
/* Is the group joined, for a frame that came at `arrival_ns` (clock_raw_ns)? Looks again where the last
 * look was before it. */
bool mcast_joined(struct mcast_filter *f, const uint8_t mac[6], uint64_t arrival_ns);
/* Take in joins, leaves and flags if the last look is old. */
void mcast_refresh(struct mcast_filter *f, uint64_t now_ns);
/* The netdev's MAC address, as of the last refresh. */
const uint8_t *mcast_own_mac(const struct mcast_filter *f);
bool mcast_all_multicast(const struct mcast_filter *f);

#endif
