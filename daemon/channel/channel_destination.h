// SPDX-License-Identifier: Apache-2.0
/*
 * The destinations of a channel: follows their next hops and keeps the worker's headers current. Control thread only.
 */
#ifndef DAEMON_CHANNEL_CHANNEL_DESTINATION_H
#define DAEMON_CHANNEL_CHANNEL_DESTINATION_H

#include "daemon/net/neighbour.h"
#include "daemon/channel/channel.h"

/** Look all destinations of a channel up, and follow them from now on. Failure: out of memory. */
int channel_destinations_watch(struct channel *channel, struct neighbours *neighbours, struct failure *failure);

/** Stop following them. Any state. */
void channel_destinations_forget(struct channel *channel);

#endif
