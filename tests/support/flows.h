// SPDX-License-Identifier: Apache-2.0
/* Flows and rules of UDP, as the configuration makes them. */
#ifndef TESTS_SUPPORT_FLOWS_H
#define TESTS_SUPPORT_FLOWS_H

#include "daemon/flow/flow.h"

#include <arpa/inet.h>
#include <string.h>

/* What the key table stores if no key is given. */
#define FLOW_DEFAULTS \
	.protocol = IPPROTO_UDP, .dscp = CONFIG_ANY, .vlan = CONFIG_VLAN_UNTAGGED, .ether_type = CONFIG_ANY

/* The mask of IPv6 packets of UDP to one address and port. */
#define FLOW_MASK_UDP_IPV6                                                       \
	{                                                                        \
		.destination_mac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff},         \
		.destination = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,  \
		                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, \
		.protocol = 0xff, .destination_port_be = 0xffff,                 \
	}

static inline void flow_set_destination(struct config_flow *flow, const char *text)
{
	flow->destination = (struct config_address){.family = strchr(text, ':') ? AF_INET6 : AF_INET};
	flow->destination_bits = flow->destination.family == AF_INET6 ? 128 : 32;
	inet_pton(flow->destination.family, text, flow->destination.address);
}

static inline void flow_set_source(struct config_flow *flow, const char *text)
{
	flow->source = (struct config_address){.family = strchr(text, ':') ? AF_INET6 : AF_INET};
	flow->source_bits = flow->source.family == AF_INET6 ? 128 : 32;
	inet_pton(flow->source.family, text, flow->source.address);
}

static inline void rule_set_source(struct flow_rule *rule, const uint8_t *address)
{
	size_t bytes = rule->family == AF_INET6 ? 16 : 4;

	memcpy(rule->value.source, address, bytes);
	memset(rule->mask.source, 0xff, bytes);
}

static inline void rule_set_source_port(struct flow_rule *rule, uint16_t port)
{
	rule->value.source_port_be = htons(port);
	rule->mask.source_port_be = 0xffff;
}

static inline void rule_set_vlan(struct flow_rule *rule, int vlan)
{
	rule->value.vlan_be = htons((uint16_t)vlan);
	rule->mask.vlan_be = htons(0x0fff);
}

#endif
