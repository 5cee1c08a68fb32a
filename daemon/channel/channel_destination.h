// SPDX-License-Identifier: Apache-2.0
/* A channel's destinations: their next hops are kept current, and the worker is told. Control thread only. */
#ifndef DAEMON_CHANNEL_CHANNEL_DESTINATION_H
#define DAEMON_CHANNEL_CHANNEL_DESTINATION_H

#include "daemon/net/neighbour.h"
#include "daemon/channel/channel.h"

/** Look all destinations of a channel up, and keep the worker told. Fault: out of memory. */
int channel_destinations_watch(struct channel *channel, struct neighbours *neighbours, struct failure *failure);

/** No more of that. Any state. */
void channel_destinations_forget(struct channel *channel);

#endif
