// SPDX-License-Identifier: Apache-2.0
/* How packets reach an address, as far as it is known. neighbour.h finds it out. */
#ifndef DAEMON_NET_NEXT_HOP_H
#define DAEMON_NET_NEXT_HOP_H

#include "daemon/config/config.h"

#include <stddef.h>
#include <stdint.h>

enum next_hop_state {
	NEXT_HOP_READY,
	NEXT_HOP_LINK_DOWN, /* or the interface does not exist any more */
	NEXT_HOP_NO_ROUTE,
	NEXT_HOP_NOT_A_HOST, /* the address is this machine's own, a broadcast, or prohibited */
	NEXT_HOP_NO_SOURCE,  /* the interface has no address of that family */
	NEXT_HOP_ASKED_FOR,
	NEXT_HOP_NO_ANSWER,
};

/* Addresses in network order. The state tells which members are valid. */
struct next_hop {
	enum next_hop_state state;
	uint32_t mtu; /* the interface's, at present */
	uint8_t source_mac[6];
	uint8_t mac[6];
	struct config_address source;
	struct config_address address; /* the neighbour's; AF_UNSPEC: no neighbour has to be resolved */
};

/**
 * Write to buffer what the state means and what to do, for the log: "its next hop 10.0.0.1 does not answer on eth0 …".
 * Returns buffer.
 */
const char *next_hop_explain(const struct next_hop *next_hop, const char *interface, char *buffer, size_t bytes);

#endif
