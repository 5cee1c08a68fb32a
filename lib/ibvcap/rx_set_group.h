// SPDX-License-Identifier: Apache-2.0
/*
 * A member of a group: it asks the daemon for one queue after the other, and gives back those that are recalled. It
 * asks by a handle that is away: it attaches to a queue as another handle attaches to the next daemon.
 */
#ifndef IBVCAP_RX_SET_GROUP_H
#define IBVCAP_RX_SET_GROUP_H

#include "lib/ibvcap/rx_set_parts.h"

/** Become a member. A queue may come later. 0; -errno. */
int rx_set_join(struct rx_set *set, const struct ibvcap_rx_options *options);

/**
 * Look whether the next queue has come. 1: it has; 0: no; -errno: none will, and there is no other. While the handle
 * has a queue, the daemon is there, and the search for it does not end.
 */
int rx_set_ask(struct rx_set *set, uint64_t now_ns);

/** Does the group want the part's queue for another member? */
bool rx_set_is_recalled(const struct ibvcap_rx *part);

/** The part is recalled: read the message that said so, and drop the part if it has no batches. */
void rx_set_give_back(struct rx_set *set, uint32_t index);

#endif
