// SPDX-License-Identifier: Apache-2.0
/* Resolves configured flows to the rules that a device is asked for. */
#include "daemon/flow/flow.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <string.h>

#define VLAN_BYTES   4
#define IPV4_BYTES   20
#define IPV6_BYTES   40
#define UDP_BYTES    8
#define VLAN_ID_MASK 0x0fff
#define DSCP_SHIFT   2
#define DSCP_MASK    0xfc
#define GROUP_BIT    0x01 /* in the first byte of a MAC */

/* ---- the keys of a flow, taken together ------------------------------------------------------------ */

static sa_family_t flow_family(const struct config_flow *flow)
{
	if (flow->destination.family != AF_UNSPEC)
		return flow->destination.family;
	if (flow->source.family != AF_UNSPEC)
		return flow->source.family;
	return flow->ether_type == ETH_P_IP ? AF_INET : flow->ether_type == ETH_P_IPV6 ? AF_INET6 : AF_UNSPEC;
}

static bool flow_is_ip(const struct config_flow *flow)
{
	return flow->ether_type == CONFIG_ANY || flow_family(flow) != AF_UNSPEC;
}

bool flow_has_whole_destination(const struct config_flow *flow)
{
	return flow->destination_bits == (flow->destination.family == AF_INET6 ? 128 : 32);
}

uint32_t flow_header_bytes(const struct config_flow *flow)
{
	sa_family_t family = flow_family(flow);

	if (flow->match != CONFIG_MATCH_RULE || family == AF_UNSPEC || flow->protocol != IPPROTO_UDP ||
	    flow->vlan == CONFIG_VLAN_ANY)
		return 0;
	return ETH_HLEN + (flow->vlan != CONFIG_VLAN_UNTAGGED ? VLAN_BYTES : 0) +
	       (family == AF_INET6 ? IPV6_BYTES : IPV4_BYTES) + UDP_BYTES;
}

bool flow_is_same(const struct config_flow *a, const struct config_flow *b)
{
	return a->match == b->match && config_is_same_address(&a->destination, &b->destination) &&
	       a->destination_bits == b->destination_bits && config_is_same_address(&a->source, &b->source) &&
	       a->source_bits == b->source_bits && a->destination_port == b->destination_port &&
	       a->source_port == b->source_port && a->protocol == b->protocol && a->dscp == b->dscp &&
	       a->vlan == b->vlan && a->ether_type == b->ether_type && a->priority == b->priority &&
	       a->copy == b->copy && a->has_destination_mac == b->has_destination_mac &&
	       a->has_source_mac == b->has_source_mac && memcmp(a->destination_mac, b->destination_mac, 6) == 0 &&
	       memcmp(a->source_mac, b->source_mac, 6) == 0;
}

/* ---- Ethernet addresses -------------------------------------------------------------------------- */

void flow_group_mac(const struct config_address *group, uint8_t mac[6])
{
	if (group->family == AF_INET) {
		const uint8_t bytes[6] = {
			0x01, 0x00, 0x5e, group->address[1] & 0x7f, group->address[2], group->address[3]};

		memcpy(mac, bytes, sizeof(bytes));
		return;
	}
	mac[0] = 0x33;
	mac[1] = 0x33;
	memcpy(mac + 2, group->address + 12, 4);
}

/* Bits of the prefix of all groups: 224.0.0.0/4, ff00::/8. */
static unsigned flow_group_bits(const struct config_flow *flow)
{
	return flow->destination.family == AF_INET6 ? 8 : 4;
}

bool flow_reaches_groups(const struct config_flow *flow)
{
	static const struct config_address all_ipv4 = {AF_INET, {0xe0}}, all_ipv6 = {AF_INET6, {0xff}};
	const struct config_address *all = flow->destination.family == AF_INET6 ? &all_ipv6 : &all_ipv4;
	unsigned bits = flow->destination_bits;

	if (flow->destination.family == AF_UNSPEC)
		return true;
	if (bits > flow_group_bits(flow))
		bits = flow_group_bits(flow);
	return bits == 0 || (flow->destination.address[0] ^ all->address[0]) >> (8 - bits) == 0;
}

static void flow_set_bits(uint8_t *mask, unsigned n_bits)
{
	for (unsigned i = 0; i < n_bits; i++)
		mask[i / 8] |= (uint8_t)(0x80 >> i % 8);
}

/* The low 23 bits of an IPv4 group are in its MAC, of IPv6 the low 32: so is the part of the prefix in them. */
static unsigned flow_group_mac_bits(const struct config_flow *flow)
{
	unsigned above = flow->destination.family == AF_INET6 ? 96 : 9;
	unsigned fixed = flow->destination.family == AF_INET6 ? 16 : 25;

	return fixed + (flow->destination_bits > above ? flow->destination_bits - above : 0);
}

bool flow_is_to_all(const struct config_flow *flow)
{
	static const uint8_t all[4] = {0xff, 0xff, 0xff, 0xff};

	return flow->destination.family == AF_INET && flow_has_whole_destination(flow) &&
	       memcmp(flow->destination.address, all, sizeof(all)) == 0;
}

static void flow_resolve_destination_mac(const struct config_flow *flow, const uint8_t interface_mac[6],
                                         struct flow_rule *rule)
{
	uint8_t *value = rule->value.destination_mac, *mask = rule->mask.destination_mac;

	if (flow->has_destination_mac) {
		memcpy(value, flow->destination_mac, 6);
		flow_set_bits(mask, 48);
	} else if (flow->destination.family == AF_UNSPEC) {
		return;
	} else if (flow_is_to_all(flow)) {
		flow_set_bits(value, 48);
		flow_set_bits(mask, 48);
	} else if (!flow_reaches_groups(flow)) {
		if (interface_mac) {
			memcpy(value, interface_mac, 6);
			flow_set_bits(mask, 48);
		} else {
			mask[0] = GROUP_BIT; /* it is not set in the MAC of an interface */
		}
	} else if (flow->destination_bits >= flow_group_bits(flow)) {
		flow_group_mac(&flow->destination, value);
		flow_set_bits(mask, flow_group_mac_bits(flow));
	}
}

/* ---- rules --------------------------------------------------------------------------------------- */

static void flow_resolve_port(uint16_t port, uint16_t *value_be, uint16_t *mask_be)
{
	*value_be = htons(port);
	*mask_be = port ? UINT16_MAX : 0;
}

void flow_resolve(const struct config_flow *flow, const uint8_t interface_mac[6], struct flow_rule *rule)
{
	*rule = (struct flow_rule){.match = flow->match, .priority = flow->priority, .copy = flow->copy};
	if (flow->match == CONFIG_MATCH_MULTICAST)
		rule->value.destination_mac[0] = rule->mask.destination_mac[0] = GROUP_BIT;
	if (flow->match != CONFIG_MATCH_RULE)
		return;
	if (flow->has_source_mac) {
		memcpy(rule->value.source_mac, flow->source_mac, 6);
		flow_set_bits(rule->mask.source_mac, 48);
	}
	if (flow->vlan > 0) {
		rule->value.vlan_be = htons((uint16_t)flow->vlan);
		rule->mask.vlan_be = htons(VLAN_ID_MASK);
	}
	if (!flow_is_ip(flow)) {
		rule->value.ether_type_be = htons((uint16_t)flow->ether_type);
		rule->mask.ether_type_be = UINT16_MAX;
	}
	flow_resolve_destination_mac(flow, interface_mac, rule);
	if (flow_is_ip(flow)) {
		rule->family = flow_family(flow);
		rule->multicast = config_is_multicast(&flow->destination) && flow_has_whole_destination(flow);
		memcpy(rule->value.destination, flow->destination.address, sizeof(rule->value.destination));
		flow_set_bits(rule->mask.destination, flow->destination_bits);
		memcpy(rule->value.source, flow->source.address, sizeof(rule->value.source));
		flow_set_bits(rule->mask.source, flow->source_bits);
		flow_resolve_port(flow->destination_port, &rule->value.destination_port_be,
		                  &rule->mask.destination_port_be);
		flow_resolve_port(flow->source_port, &rule->value.source_port_be, &rule->mask.source_port_be);
		if (flow->protocol != CONFIG_ANY) {
			rule->value.protocol = (uint8_t)flow->protocol;
			rule->mask.protocol = UINT8_MAX;
		}
		if (flow->dscp != CONFIG_ANY) {
			rule->value.traffic_class = (uint8_t)(flow->dscp << DSCP_SHIFT);
			rule->mask.traffic_class = DSCP_MASK;
		}
	}
}

bool flow_fragments_rule(const struct flow_rule *rule, struct flow_rule *fragments)
{
	bool has_ports = rule->mask.destination_port_be || rule->mask.source_port_be;

	if (rule->match != CONFIG_MATCH_RULE || !has_ports || rule->value.protocol != IPPROTO_UDP)
		return false;
	*fragments = *rule;
	fragments->fragments = true;
	fragments->value.destination_port_be = fragments->mask.destination_port_be = 0;
	fragments->value.source_port_be = fragments->mask.source_port_be = 0;
	return true;
}

int flow_rule_vlan(const struct flow_rule *rule)
{
	return rule->mask.vlan_be ? ntohs(rule->value.vlan_be) : -1;
}

static bool is_whole_address(const struct flow_rule *rule, const uint8_t mask[16])
{
	return rule->family != AF_UNSPEC && mask[rule->family == AF_INET6 ? 15 : 3] == UINT8_MAX;
}

bool flow_rule_has_source(const struct flow_rule *rule)
{
	return is_whole_address(rule, rule->mask.source);
}

const char *flow_rule_key_beyond_udp(const struct flow_rule *rule)
{
	static const struct flow_fields none;

	if (rule->match != CONFIG_MATCH_RULE)
		return "match";
	if (rule->copy)
		return "copy";
	if (rule->priority)
		return "priority";
	if (rule->mask.ether_type_be)
		return "ether_type";
	if (memcmp(rule->mask.source_mac, none.source_mac, 6) != 0)
		return "source_mac";
	if (rule->mask.traffic_class)
		return "dscp";
	if (!rule->mask.protocol || rule->value.protocol != IPPROTO_UDP)
		return "protocol";
	if (!is_whole_address(rule, rule->mask.destination))
		return "destination";
	if (memcmp(rule->mask.source, none.source, 16) != 0 && !flow_rule_has_source(rule))
		return "source";
	return rule->mask.destination_port_be ? NULL : "port";
}
