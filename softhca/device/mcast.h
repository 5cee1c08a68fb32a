// SPDX-License-Identifier: Apache-2.0
/*
 * Which multicast groups the netdev takes. The kernel programs exactly these into a real device (verbs-rules.md
 * "Flow rules": multicast needs a join by an ordinary socket).
 */
#ifndef SOFTHCA_DEVICE_MCAST_H
#define SOFTHCA_DEVICE_MCAST_H

#include <stdbool.h>
#include <stdint.h>

struct mcast_filter;

struct mcast_filter *mcast_new(const char *netdev);
void mcast_free(struct mcast_filter *f);

/* IFF_PROMISC or IFF_ALLMULTI, as last read. */
bool mcast_promiscuous(const struct mcast_filter *f);
/* Is the group joined, for a frame that came at `arrival_ns` (clock_raw_ns)? Reads the groups again if they were
 * read before that. */
bool mcast_joined(struct mcast_filter *f, const uint8_t mac[6], uint64_t arrival_ns);
/* Reads groups and flags again if the last reading is old. */
void mcast_refresh(struct mcast_filter *f, uint64_t now_ns);
/* The netdev's MAC address, as last read. */
const uint8_t *mcast_own_mac(const struct mcast_filter *f);

#endif
