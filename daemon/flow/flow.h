// SPDX-License-Identifier: Apache-2.0
/*
 * Flow rules for a device, from the flows of the configuration: which bits of a packet's headers have which value.
 * Pure. Declares flow_check.c, flow_format.c.
 */
#ifndef DAEMON_FLOW_FLOW_H
#define DAEMON_FLOW_FLOW_H

#include "daemon/config/config.h"
#include "lib/base/failure.h"

#include <stdbool.h>
#include <stdint.h>

/* Fields of a packet that a rule can compare; all in network order, IPv4 addresses in the first 4 bytes. No padding. */
struct flow_fields {
	uint8_t destination_mac[6];
	uint8_t source_mac[6];
	uint16_t ether_type_be; /* behind the tags */
	uint16_t vlan_be;       /* the id in the outer tag */
	uint8_t destination[16];
	uint8_t source[16];
	uint8_t protocol;
	uint8_t traffic_class; /* of IPv4 the type of service; its upper 6 bits are the DSCP */
	uint16_t destination_port_be;
	uint16_t source_port_be;
};

/*
 * A packet matches if it is of the family and equals value in all bits of mask, with CONFIG_MATCH_ALL and _MULTICAST,
 * too. Only CONFIG_MATCH_DEFAULT, which has no mask, is something else: the packets that no rule of any queue and no
 * program of the machine takes.
 */
struct flow_rule {
	enum config_match match;
	sa_family_t family;       /* AF_UNSPEC: any; then protocol and ports, if any, are those of IPv4 and of IPv6 */
	bool multicast;           /* the destination is one group, which can be joined */
	bool copy;                /* the kernel, and rules of lower priority, get the packets, too */
	bool reassembles;         /* the queue reassembles fragments of its datagrams */
	bool fragments;           /* only IP fragments: those of all ports, because only the first one has ports */
	uint32_t priority;        /* the higher goes first; at most FLOW_PRIORITY_MAX */
	uint32_t tag;             /* the number of the flow in its stream */
	struct flow_fields value; /* no bit outside mask is set */
	struct flow_fields mask;
};

#define FLOW_PRIORITY_MAX 3
#define FLOW_TEXT_MAX     256 /* bytes of flow_format() */

/* The mask of IPv4 packets of UDP to one address and port; for initializers. */
#define FLOW_MASK_UDP_IPV4                                                                                        \
	{                                                                                                         \
		.destination_mac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, .destination = {0xff, 0xff, 0xff, 0xff}, \
		.protocol = 0xff, .destination_port_be = 0xffff,                                                  \
	}

/**
 * Bytes from the start of a frame that this flow matches to its UDP payload: 42, 46, 62 or 66. 0: its packets have no
 * payload of UDP, or not all at the same place.
 */
uint32_t flow_header_bytes(const struct config_flow *flow);

/** A group's MAC: 01:00:5e and its low 23 bits (RFC 1112, 6.4), or 33:33 and its low 32 (RFC 2464, 7). */
void flow_group_mac(const struct config_address *group, uint8_t mac[6]);

/** Is the destination one address, or group, and no prefix? */
bool flow_has_whole_destination(const struct config_flow *flow);

/** Is the destination 255.255.255.255, all stations of the network? */
bool flow_is_to_all(const struct config_flow *flow);

/** Can a packet to the destination be one to a group? */
bool flow_reaches_groups(const struct config_flow *flow);

/**
 * Resolve one configured flow. interface_mac is used for a unicast destination, and is ff:ff:ff:ff:ff:ff for the
 * broadcast address of the interface's subnet; NULL: the rule has any destination MAC there that is no group's. The
 * rule has tag 0.
 */
void flow_resolve(const struct config_flow *flow, const uint8_t interface_mac[6], struct flow_rule *rule);

/**
 * The rule for the fragments of the datagrams that a rule with ports takes: they come by address. False: the rule takes
 * them itself, or they are not of UDP.
 */
bool flow_fragments_rule(const struct flow_rule *rule, struct flow_rule *fragments);

/** The VLAN id that the rule compares; -1: none. */
int flow_rule_vlan(const struct flow_rule *rule);

/** Does the rule compare the whole source address? */
bool flow_rule_has_source(const struct flow_rule *rule);

/**
 * The configuration key by which the rule is none of one destination address and port of UDP, with or without one
 * source address, source port and VLAN. NULL: it is one.
 */
const char *flow_rule_key_beyond_udp(const struct flow_rule *rule);

/**
 * Check the flows of all streams against each other: the flows of a stream have one header layout, and no packet
 * matches two flows of one interface that it cannot choose between. Failure: EX_CONFIG with file:line.
 */
int flow_check(const struct config *config, struct failure *failure);

/** Do both match the same packets, and do the same with them? */
bool flow_is_same(const struct config_flow *a, const struct config_flow *b);

/** Can one packet match both, and neither their priorities nor copy say which one gets it? */
bool flow_conflicts(const struct config_flow *a, const struct config_flow *b);

/** "239.1.2.3:7502 from 10.0.0.1 vlan 5", for logs; returns buffer. */
const char *flow_format(const struct flow_rule *rule, char *buffer, size_t bytes);

/** Likewise, of a flow that is not resolved. */
const char *flow_describe(const struct config_flow *flow, char *buffer, size_t bytes);

#endif
