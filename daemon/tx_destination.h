// SPDX-License-Identifier: Apache-2.0
/* A channel's destinations: their next hops are kept current, and the worker is told. Control thread only. */
#ifndef DAEMON_TX_DESTINATION_H
#define DAEMON_TX_DESTINATION_H

#include "daemon/net/neighbour.h"
#include "daemon/tx_channel.h"

/** Look all destinations of a channel up, and keep the worker told. Fault: out of memory. */
int tx_destinations_watch(struct tx_channel *channel, struct neighbours *neighbours, struct failure *failure);

/** No more of that. Any state. */
void tx_destinations_forget(struct tx_channel *channel);

#endif
