// SPDX-License-Identifier: Apache-2.0
/*
 * A member of a group asks the daemon for one queue after the other, and gives back the queues that the group recalls.
 * Each request is a handle that is away, and attaches to a queue as any handle attaches to the next daemon.
 */
#ifndef IBVCAP_RX_SET_GROUP_H
#define IBVCAP_RX_SET_GROUP_H

#include "lib/ibvcap/rx_set_parts.h"

/** Become a member. A queue may come later. 0; -errno. */
int rx_set_join(struct rx_set *set, const struct ibvcap_rx_options *options);

/**
 * Look whether the next queue has come. 1: it has; 0: not yet; -errno: the search has ended, and the set has no queue.
 * While the set has a queue, the search goes on without a time limit, because the daemon runs.
 */
int rx_set_ask(struct rx_set *set, uint64_t now_ns);

/** Does the group want the part's queue for another member? */
bool rx_set_is_recalled(const struct ibvcap_rx *part);

/** For a part that is recalled: read the daemon's message, and drop the part if the caller holds no batch of it. */
void rx_set_give_back(struct rx_set *set, uint32_t index);

#endif
