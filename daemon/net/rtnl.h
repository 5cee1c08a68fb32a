// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel by netlink, above all for links, routes and neighbours (rtnetlink(7)). Inside the net room only. */
#ifndef DAEMON_NET_RTNL_H
#define DAEMON_NET_RTNL_H

#include "daemon/config/config.h"
#include "daemon/net/link_watch.h"
#include "daemon/net/net.h"

#include <libmnl/libmnl.h>
#include <linux/if_link.h>

struct rtnl_link {
	bool up; /* administratively, and with a carrier */
	uint32_t carrier_changes;
	uint32_t mtu;
	bool has_mac; /* a tunnel without Ethernet headers has none, and its neighbours neither */
	uint8_t mac[6];
	char qdisc[NET_QUEUEING_BYTES]; /* kind of its queueing discipline */
	uint32_t xdp_program;           /* ID of an XDP program that is attached; 0: none */
	uint32_t other_index;           /* of the interface below, or of a veth's other end; its own or 0: none */
	bool is_other_away;             /* that one is in another network namespace */
	uint32_t other_namespace;       /* by the kernel's ID of it */
	struct rtnl_link_stats64 statistics;
};

struct rtnl_route {
	uint8_t type;                  /* RTN_ */
	struct config_address gateway; /* AF_UNSPEC: on the link; can be of another family (RFC 5549) */
	struct config_address source;  /* that the kernel would use; AF_UNSPEC: there is none */
};

struct rtnl_neighbour {
	unsigned interface_index;
	struct config_address address;
	uint16_t state; /* NUD_ */
	bool has_mac;
	uint8_t mac[6];
};

/**
 * A socket for requests to NETLINK_ROUTE or another bus. They block until the kernel has answered, at most a second
 * (-EAGAIN).
 */
int rtnl_open(struct mnl_socket **socket, int bus);
/** For each event; NULL: the socket dropped some, so anything may have changed. */
typedef void rtnl_on_event(void *context, const struct nlmsghdr *event);

/** A nonblocking socket that gets the events of these groups (RTNLGRP_). */
int rtnl_open_events(struct mnl_socket **socket, const int *groups, size_t n_groups);
/** Read a bounded number of events. 0, or -errno: there will be no more. */
int rtnl_take_events(const struct mnl_socket *socket, rtnl_on_event *on_event, void *context);

#define RTNL_REQUEST_BYTES 256

struct rtnl_request {
	union {
		struct nlmsghdr message;
		char bytes[RTNL_REQUEST_BYTES];
	};
};

/** Begin a request of a type. Returns the header of that type, all zero. */
void *rtnl_request_init(struct rtnl_request *request, uint16_t type, size_t header_bytes);

/**
 * Call cb for each message of the answer until the last one, or until cb returns MNL_CB_STOP. flags: NLM_F_DUMP,
 * NLM_F_ACK. 0 or the kernel's -errno.
 */
int rtnl_ask(struct mnl_socket *socket, struct rtnl_request *request, uint16_t flags, mnl_cb_t cb, void *into);

#define RTNL_TYPES 64 /* of attributes; no attribute that is read has a higher one */

struct rtnl_attributes {
	const struct nlattr *of[RTNL_TYPES]; /* by type; NULL: it is not there */
};

/** Read the attributes of a message, which follow the header of its type. */
struct rtnl_attributes rtnl_read_attributes(const struct nlmsghdr *message, unsigned header_bytes);
/** Read the attributes of a nested list. NULL: the message lacks it. */
struct rtnl_attributes rtnl_read_nested(const struct nlattr *list);
/** False, and value is as before: there is no such attribute, or it is shorter. */
bool rtnl_read_u32(const struct nlattr *attribute, uint32_t *value);

int rtnl_get_link(struct mnl_socket *socket, unsigned interface_index, struct rtnl_link *link);
/** The other interface of a link, wherever it is. In another namespace: takes CAP_NET_ADMIN there, or else -EACCES. */
int rtnl_get_other_link(struct mnl_socket *socket, const struct rtnl_link *link, struct rtnl_link *other);
/** Find the interface of a VLAN (802.1Q) on an interface. -ENOENT: this network namespace has none. */
int rtnl_find_vlan(unsigned interface_index, int vlan, unsigned *vlan_index);
/** The route that a packet to the address takes through this interface. */
int rtnl_get_route(struct mnl_socket *socket, unsigned interface_index, const struct config_address *address,
                   struct rtnl_route *route);
/** -ENOENT: the neighbour table has no such entry. */
int rtnl_get_neighbour(struct mnl_socket *socket, unsigned interface_index, const struct config_address *address,
                       struct rtnl_neighbour *neighbour);

/** Parse RTM_NEWLINK or RTM_DELLINK. False: it is not about an interface, but about a bridge's port. */
bool rtnl_read_link_change(const struct nlmsghdr *message, struct link_change *change);

/** Parse RTM_NEWNEIGH or RTM_DELNEIGH. False: it is not about an IP address. */
bool rtnl_read_neighbour(const struct nlmsghdr *message, struct rtnl_neighbour *neighbour);

#endif
