// SPDX-License-Identifier: Apache-2.0
/* What the kernel says of links, routes and neighbours (rtnetlink(7)). Inside the net room only. */
#ifndef DAEMON_NET_RTNL_H
#define DAEMON_NET_RTNL_H

#include "daemon/config/config.h"

#include <libmnl/libmnl.h>

struct rtnl_link {
	bool up; /* administratively, and with a carrier */
	uint32_t mtu;
	uint8_t mac[6];
};

struct rtnl_route {
	uint8_t type;                  /* RTN_ */
	struct config_address gateway; /* AF_UNSPEC: on the link. Of another family, perhaps (RFC 5549) */
	struct config_address source;  /* what the kernel would send from; AF_UNSPEC: it has none */
};

struct rtnl_neighbour {
	unsigned interface_index;
	struct config_address address;
	uint16_t state; /* NUD_ */
	bool has_mac;
	uint8_t mac[6];
};

/** For requests; an answer is there at once, or -EAGAIN after a second. */
int rtnl_open(struct mnl_socket **socket);
/** For events of links, addresses, routes and neighbours; never blocks. */
int rtnl_open_events(struct mnl_socket **socket);

int rtnl_get_link(struct mnl_socket *socket, unsigned interface_index, struct rtnl_link *link);
/** The interface that has this VLAN (802.1Q) of that interface. -ENOENT: none in this network namespace has. */
int rtnl_find_vlan(unsigned interface_index, int vlan, unsigned *vlan_index);
/** By which way a packet to the address would leave this interface. */
int rtnl_get_route(struct mnl_socket *socket, unsigned interface_index, const struct config_address *address,
                   struct rtnl_route *route);
/** -ENOENT: the kernel knows nothing of it. */
int rtnl_get_neighbour(struct mnl_socket *socket, unsigned interface_index, const struct config_address *address,
                       struct rtnl_neighbour *neighbour);

/** Of RTM_NEWNEIGH and RTM_DELNEIGH. False: not of an IP address. */
bool rtnl_read_neighbour(const struct nlmsghdr *message, struct rtnl_neighbour *neighbour);

#endif
