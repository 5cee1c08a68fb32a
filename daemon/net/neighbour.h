// SPDX-License-Identifier: Apache-2.0
/*
 * Where packets to an address have to go: the next hop's MAC by the kernel's routes and neighbours, the address they
 * come from, the interface's own MAC and MTU. Looked up once, then kept current by what the kernel tells, and looked up
 * again every 30 s. No privilege is needed: the kernel is made to ask for a neighbour by an empty datagram to its
 * discard port, at once, every 5 s while nobody answers, and every 30 s to notice that it has gone.
 *
 * A MAC that was known stays in use while the kernel asks for it again; it is given up when nobody answers (after 10 s
 * at most), when the route leads elsewhere and when the link goes down. Routes are looked up by destination and
 * interface: rules that look at more (ip-rule(8)) are not followed.
 *
 * Control thread only. Nothing blocks; how often and how much is looked up at a time is bounded, whatever the kernel
 * tells.
 */
#ifndef DAEMON_NET_NEIGHBOUR_H
#define DAEMON_NET_NEIGHBOUR_H

#include "daemon/base/failure.h"
#include "daemon/config/config.h"
#include "daemon/net/next_hop.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct neighbour_wanted {
	unsigned interface_index;
	struct config_address destination;
	struct config_address source; /* AF_UNSPEC: the kernel's choice */
	bool has_mac;                 /* unicast: no neighbour is asked for */
	uint8_t mac[6];
	/** Something changed. From the event loop; must not add or remove. */
	void (*changed)(void *context, const struct next_hop *next_hop);
	void *context;
};

struct neighbours;
struct neighbour;

int neighbours_new(struct neighbours **neighbours, sd_event *event, struct failure *failure);
/** After the last was removed. NULL is fine. */
void neighbours_free(struct neighbours *neighbours);

/** Look one up, and keep it current. -ENOMEM. */
int neighbours_add(struct neighbours *neighbours, const struct neighbour_wanted *wanted, struct neighbour **neighbour);
/** NULL is fine. */
void neighbours_remove(struct neighbour *neighbour);

/** As it is now; stays the neighbour's. */
const struct next_hop *neighbour_next_hop(const struct neighbour *neighbour);

#endif
