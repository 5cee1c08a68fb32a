// SPDX-License-Identifier: Apache-2.0
/*
 * Exact flow rules for a device, from the flows of the configuration. All rules of a queue have one header layout,
 * because the device splits packets at a fixed number of bytes. Pure.
 */
#ifndef DAEMON_FLOW_FLOW_H
#define DAEMON_FLOW_FLOW_H

#include "daemon/base/failure.h"
#include "daemon/config/config.h"

#include <stdbool.h>
#include <stdint.h>

/* A resolved rule. Addresses and ports in network order. */
struct flow_rule {
	sa_family_t family;
	bool multicast;
	bool has_source;
	uint8_t destination_mac[6]; /* of the group (RFC 1112, RFC 2464) or of the interface */
	uint8_t destination[16];
	uint8_t source[16];
	uint16_t destination_port_be;
	uint16_t source_port_be; /* 0 = any */
	int32_t vlan;            /* -1 = no VLAN spec */
};

/** Bytes from the start of a frame that this flow matches to its UDP payload: 42, 46, 62 or 66. */
uint32_t flow_header_bytes(const struct config_flow *flow);

/** A group's MAC: 01:00:5e and its low 23 bits (RFC 1112, 6.4), or 33:33 and its low 32 (RFC 2464, 7). */
void flow_group_mac(const struct config_address *group, uint8_t mac[6]);

/** Resolve one configured flow; interface_mac is used for a unicast destination. */
void flow_resolve(const struct config_flow *flow, const uint8_t interface_mac[6], struct flow_rule *rule);

/**
 * Check the flows of all streams against each other: the flows of a stream have one header layout, and no packet
 * matches two flows on one interface. Failure: EX_CONFIG with file:line.
 */
int flow_check(const struct config *config, struct failure *failure);

/** Do both match the same packets? */
bool flow_is_same(const struct config_flow *a, const struct config_flow *b);

/** Can one packet match both? */
bool flow_overlaps(const struct config_flow *a, const struct config_flow *b);

/** "239.1.2.3:7502 from 10.0.0.1 vlan 5", for logs; returns buffer. */
const char *flow_format(const struct flow_rule *rule, char *buffer, size_t bytes);

#endif
