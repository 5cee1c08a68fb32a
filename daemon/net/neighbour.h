// SPDX-License-Identifier: Apache-2.0
/*
 * Finds out how packets reach an address: the MAC of the next hop from the kernel's routes and neighbour table, the
 * source address, and the MAC and MTU of the interface. Each destination is looked up once, again when the kernel
 * reports a change, and again every 30 s. This needs no privilege: an empty datagram to the discard port of a
 * neighbour makes the kernel resolve it. One is sent at once, every 5 s while the neighbour does not answer, and
 * every 30 s to notice that it has gone.
 *
 * A known MAC stays in use while the kernel resolves it again. It is dropped when the neighbour does not answer
 * (after 10 s at most), when the route changes, and when the link goes down. Routes are looked up by destination and
 * interface; policy rules (ip-rule(8)) that depend on more are not followed.
 *
 * Control thread only. Only neighbours_add() waits for the kernel; later lookups are made by a thread. The number of
 * lookups at a time is bounded, whatever events the kernel sends.
 */
#ifndef DAEMON_NET_NEIGHBOUR_H
#define DAEMON_NET_NEIGHBOUR_H

#include "daemon/config/config.h"
#include "daemon/net/next_hop.h"
#include "lib/base/failure.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct neighbour_wanted {
	unsigned interface_index;
	struct config_address destination;
	struct config_address source; /* AF_UNSPEC: the kernel chooses it */
	bool has_mac;                 /* the MAC of a unicast destination is configured: no neighbour is resolved */
	uint8_t mac[6];
	/** The next hop changed. Called from the event loop; must not add or remove neighbours. */
	void (*changed)(void *context, const struct next_hop *next_hop);
	void *context;
};

struct neighbours;
struct neighbour;

int neighbours_new(struct neighbours **neighbours, sd_event *event, struct failure *failure);
/** All neighbours have been removed before. NULL is fine. */
void neighbours_free(struct neighbours *neighbours);

/** Look up a next hop, which may wait for rtnl, and keep it current. 0 or -ENOMEM. */
int neighbours_add(struct neighbours *neighbours, const struct neighbour_wanted *wanted, struct neighbour **neighbour);
/** NULL is fine. */
void neighbours_remove(struct neighbour *neighbour);

/** The current one; the neighbour keeps owning it. */
const struct next_hop *neighbour_next_hop(const struct neighbour *neighbour);

#endif
