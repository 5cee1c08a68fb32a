// SPDX-License-Identifier: Apache-2.0
/* What an engine has to know of the netdev that is the port. */
#ifndef SOFTHCA_WIRE_LINK_H
#define SOFTHCA_WIRE_LINK_H

#include "wire.h"

struct link_facts {
	uint8_t mac[6];
	uint32_t mtu;
	unsigned int flags; /* IFF_* */
	bool up;            /* up and with carrier */
};

/* 0 or negative errno. */
int link_read(const char *netdev, struct link_facts *facts);

/* How this netdev would classify a frame to that address. */
enum wire_addressed link_addressed(const struct link_facts *facts, const uint8_t destination[6]);

#endif
