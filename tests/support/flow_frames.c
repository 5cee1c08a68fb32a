// SPDX-License-Identifier: Apache-2.0
/* The frames: tags, options, fragments, sources, and headers that are wrong. */
#include "tests/support/flow_frames.h"

#include <arpa/inet.h>
#include <string.h>

const struct flow_frame flow_frames[] = {
	{"of the flow", .taken = true},
	{"to another MAC", .part = 'e', .at = 5, .value = 0x77},
	{"ARP", .part = 'e', .at = 13, .value = 0x06},
	{"a length in place of the type", .part = 'e', .at = 12, .value = 0},
	{"to another address", .part = 'i', .at = 19, .value = 2},
	{"to another port", .part = 'u', .at = 3, .value = 0},
	{"from another address, which does not count", .part = 'i', .at = 12, .value = 99, .taken = true},
	{"from another port, which does not count", .part = 'u', .at = 0, .value = 99, .taken = true},
	{"TCP", .part = 'i', .at = 9, .value = 6},
	{"from the source", .from = true, .taken = true},
	{"from another source", .from = true, .part = 'i', .at = 12, .value = 99},
	{"from another port of the source", .from = true, .part = 'u', .at = 1, .value = 99},

	{"in a VLAN", .tags = {{0x8100, 5}}, .taken = true},
	{"in a VLAN of a provider", .tags = {{0x88a8, 5}}, .taken = true},
	{"with a priority and no VLAN", .tags = {{0x8100, 0xe000}}, .taken = true},
	{"in a VLAN within a VLAN", .tags = {{0x8100, 5}, {0x8100, 6}}, .taken = true},
	{"in a VLAN within one of a provider", .tags = {{0x88a8, 5}, {0x8100, 6}}, .taken = true},
	{"with three tags", .tags = {{0x8100, 5}, {0x8100, 6}, {0x8100, 7}}},
	{"of the flow's VLAN", .vlan = 5, .tags = {{0x8100, 5}}, .taken = true},
	{"of the flow's VLAN and source", .vlan = 5, .from = true, .tags = {{0x8100, 5}}, .taken = true},
	{"of the flow's VLAN, from another source", .vlan = 5, .from = true, .tags = {{0x8100, 5}}, .part = 'i',
         .at = 15, .value = 99},
	{"of the flow's VLAN, with a priority", .vlan = 5, .tags = {{0x8100, 0xe005}}, .taken = true},
	{"of another VLAN", .vlan = 5, .tags = {{0x8100, 6}}},
	{"of no VLAN", .vlan = 5},
	{"of a provider's VLAN of the same number", .vlan = 5, .tags = {{0x88a8, 5}}},
	{"of the flow's VLAN, with a tag inside", .vlan = 5, .tags = {{0x8100, 5}, {0x8100, 6}}, .taken = true},
	{"of the flow's VLAN inside another one", .vlan = 5, .tags = {{0x8100, 6}, {0x8100, 5}}},
	{"of the flow's VLAN inside a provider's", .vlan = 5, .tags = {{0x88a8, 6}, {0x8100, 5}}},

	{"with an option", .option_words = 1, .taken = true},
	{"with all options there can be", .option_words = 10, .taken = true},
	{"with options, in a VLAN", .option_words = 10, .vlan = 5, .tags = {{0x8100, 5}}, .taken = true},
	{"with options, to another port", .option_words = 3, .part = 'u', .at = 3, .value = 0},
	{"with a header that is too short", .part = 'i', .at = 0, .value = 0x44},
	{"with a header of no length", .part = 'i', .at = 0, .value = 0x40},
	{"with a header that ends after the frame", .part = 'i', .at = 0, .value = 0x4f},
	{"of IP version 5", .part = 'i', .at = 0, .value = 0x55},
	{"of IP version 6 in a frame of IPv4", .part = 'i', .at = 0, .value = 0x65},

	{"not to be fragmented", .part = 'i', .at = 6, .value = 0x40, .taken = true},
	{"the first fragment", .part = 'i', .at = 6, .value = 0x20, .taken = true},
	{"a later fragment", .part = 'i', .at = 7, .value = 1},
	{"a later fragment far behind", .part = 'i', .at = 6, .value = 0x10},
	{"of another total length", .part = 'i', .at = 3, .value = 1, .taken = true},
	{"of another length of UDP", .part = 'u', .at = 5, .value = 1, .taken = true},

	{"of IPv6", .ipv6 = true, .taken = true},
	{"of IPv6 to another address", .ipv6 = true, .part = 'i', .at = 24, .value = 0xfe},
	{"of IPv6 to another host", .ipv6 = true, .part = 'i', .at = 39, .value = 2},
	{"of IPv6 to another port", .ipv6 = true, .part = 'u', .at = 2, .value = 0},
	{"of IPv6 to another MAC", .ipv6 = true, .part = 'e', .at = 0, .value = 0x06},
	{"of IPv6 from the source", .ipv6 = true, .from = true, .taken = true},
	{"of IPv6 from another source", .ipv6 = true, .from = true, .part = 'i', .at = 23, .value = 99},
	{"of IPv6 with a traffic class", .ipv6 = true, .part = 'i', .at = 0, .value = 0x6f, .taken = true},
	{"of IPv6 with a header before UDP", .ipv6 = true, .part = 'i', .at = 6, .value = 60},
	{"of IPv6 in fragments", .ipv6 = true, .part = 'i', .at = 6, .value = 44},
	{"of IP version 4 in a frame of IPv6", .ipv6 = true, .part = 'i', .at = 0, .value = 0x45},
	{"of IPv6 of the flow's VLAN", .ipv6 = true, .vlan = 5, .tags = {{0x8100, 5}}, .taken = true},
	{"of IPv6 of another VLAN", .ipv6 = true, .vlan = 5, .tags = {{0x8100, 6}}},
	{"of IPv6 with two tags", .ipv6 = true, .tags = {{0x88a8, 5}, {0x8100, 6}}, .taken = true},

	{"of a prefix", .wants = WANTS_PREFIX, .taken = true},
	{"to another address of a prefix", .wants = WANTS_PREFIX, .part = 'i', .at = 19, .value = 99, .taken = true},
	{"to another prefix", .wants = WANTS_PREFIX, .part = 'i', .at = 18, .value = 1},
	{"to another port of a prefix", .wants = WANTS_PREFIX, .part = 'u', .at = 3, .value = 0},
	{"of TCP to a prefix of UDP", .wants = WANTS_PREFIX, .protocol = 6},
	{"of a prefix, with options, with a tag inside", .wants = WANTS_PREFIX, .option_words = 3, .vlan = 5,
         .tags = {{0x8100, 5}, {0x8100, 6}}, .taken = true},
	{"of a prefix, in another VLAN", .wants = WANTS_PREFIX, .vlan = 5, .tags = {{0x8100, 6}}},
	{"of a prefix, from the source", .wants = WANTS_PREFIX, .from = true, .taken = true},
	{"of a prefix, from another source", .wants = WANTS_PREFIX, .from = true, .part = 'i', .at = 15, .value = 8},
	{"from a prefix", .wants = WANTS_SOURCE_PREFIX, .part = 'i', .at = 15, .value = 10, .taken = true},
	{"from another prefix", .wants = WANTS_SOURCE_PREFIX, .part = 'i', .at = 15, .value = 12},
	{"to a prefix of IPv6", .ipv6 = true, .wants = WANTS_PREFIX, .part = 'i', .at = 32, .value = 1, .taken = true},
	{"to another prefix of IPv6", .ipv6 = true, .wants = WANTS_PREFIX, .part = 'i', .at = 31, .value = 1},
	{"from a prefix of IPv6", .ipv6 = true, .wants = WANTS_SOURCE_PREFIX, .part = 'i', .at = 23, .value = 11,
         .taken = true},
	{"from another prefix of IPv6", .ipv6 = true, .wants = WANTS_SOURCE_PREFIX, .part = 'i', .at = 8, .value = 1},
	{"later fragment to a prefix", .wants = WANTS_PREFIX, .part = 'i', .at = 7, .value = 1},

	{"to any port", .wants = WANTS_ANY_PORT, .part = 'u', .at = 3, .value = 99, .taken = true},
	{"to any port, of another address", .wants = WANTS_ANY_PORT, .part = 'i', .at = 19, .value = 2},
	{"to any port, to another MAC", .wants = WANTS_ANY_PORT, .part = 'e', .at = 5, .value = 0x77},
	{"to any port, of TCP", .wants = WANTS_ANY_PORT, .protocol = 6},
	{"to any port, a later fragment", .wants = WANTS_ANY_PORT, .part = 'i', .at = 7, .value = 1, .taken = true},
	{"to any port, from the source and its port", .wants = WANTS_ANY_PORT, .from = true, .taken = true},
	{"to any port, from another port of the source", .wants = WANTS_ANY_PORT, .from = true, .part = 'u', .at = 1,
         .value = 99},
	{"to any port of IPv6", .ipv6 = true, .wants = WANTS_ANY_PORT, .part = 'u', .at = 3, .value = 99,
         .taken = true},
	{"to any address", .wants = WANTS_ANY_ADDRESS, .part = 'i', .at = 16, .value = 99, .taken = true},
	{"to any address and MAC", .wants = WANTS_ANY_ADDRESS, .part = 'e', .at = 5, .value = 0x77, .taken = true},
	{"to any address, of IPv6", .ipv6 = true, .wants = WANTS_ANY_ADDRESS, .part = 'i', .at = 24, .value = 99,
         .taken = true},
	{"to any address, by IPv4", .wants = WANTS_ANY_ADDRESS | WANTS_ANY_FAMILY, .taken = true},
	{"to any address, by IPv6", .ipv6 = true, .wants = WANTS_ANY_ADDRESS | WANTS_ANY_FAMILY, .taken = true},
	{"to any address, to another port by IPv6", .ipv6 = true, .wants = WANTS_ANY_ADDRESS | WANTS_ANY_FAMILY,
         .part = 'u', .at = 3, .value = 99},
	{"to any address and port, of ARP", .type = 0x0806,
         .wants = WANTS_ANY_ADDRESS | WANTS_ANY_FAMILY | WANTS_ANY_PORT},

	{"of TCP to a port", .wants = WANTS_TCP, .protocol = 6, .taken = true},
	{"of UDP to a port of TCP", .wants = WANTS_TCP},
	{"of TCP to another port", .wants = WANTS_TCP, .protocol = 6, .part = 'u', .at = 3, .value = 0},
	{"of TCP, a later fragment", .wants = WANTS_TCP, .protocol = 6, .part = 'i', .at = 7, .value = 1},
	{"of TCP, with options", .wants = WANTS_TCP, .protocol = 6, .option_words = 10, .taken = true},
	{"of TCP over IPv6", .ipv6 = true, .wants = WANTS_TCP, .protocol = 6, .taken = true},
	{"of ICMP", .wants = WANTS_ICMP | WANTS_ANY_PORT, .protocol = 1, .taken = true},
	{"of UDP to what wants ICMP", .wants = WANTS_ICMP | WANTS_ANY_PORT},
	{"of ICMPv6", .ipv6 = true, .wants = WANTS_ICMP | WANTS_ANY_PORT, .protocol = 58, .taken = true},
	{"of ICMPv6, to another address", .ipv6 = true, .wants = WANTS_ICMP | WANTS_ANY_PORT, .protocol = 58,
         .part = 'i', .at = 39, .value = 99},
	{"of SCTP to any protocol", .wants = WANTS_ANY_PROTOCOL | WANTS_ANY_PORT, .protocol = 132, .taken = true},
	{"of SCTP to any port of TCP", .wants = WANTS_TCP | WANTS_ANY_PORT, .protocol = 132},
	{"of SCTP with numbers as ports", .wants = WANTS_ANY_PROTOCOL, .protocol = 132},
	{"of UDP to any protocol", .wants = WANTS_ANY_PROTOCOL, .taken = true},
	{"of TCP to any protocol", .wants = WANTS_ANY_PROTOCOL, .protocol = 6, .taken = true},

	{"with a DSCP", .wants = WANTS_DSCP, .traffic_class = 46 << 2, .taken = true},
	{"with a DSCP and ECN", .wants = WANTS_DSCP, .traffic_class = 46 << 2 | 3, .taken = true},
	{"with another DSCP", .wants = WANTS_DSCP, .traffic_class = 47 << 2},
	{"with the DSCP 0", .wants = WANTS_DSCP_0, .traffic_class = 3, .taken = true},
	{"with a DSCP that is not 0", .wants = WANTS_DSCP_0, .traffic_class = 4},
	{"with a DSCP in IPv6", .ipv6 = true, .wants = WANTS_DSCP, .traffic_class = 46 << 2 | 1, .taken = true},
	{"with another DSCP in IPv6", .ipv6 = true, .wants = WANTS_DSCP, .traffic_class = 30 << 2},
	{"with the DSCP 0 in IPv6", .ipv6 = true, .wants = WANTS_DSCP_0, .traffic_class = 3, .taken = true},
	{"of ARP to the DSCP 0", .type = 0x0806,
         .wants = WANTS_DSCP_0 | WANTS_ANY_ADDRESS | WANTS_ANY_FAMILY | WANTS_ANY_PORT | WANTS_ANY_PROTOCOL},

	{"from a MAC", .wants = WANTS_SOURCE_MAC, .taken = true},
	{"from another MAC", .wants = WANTS_SOURCE_MAC, .part = 'e', .at = 11, .value = 1},
	{"from a MAC, in a VLAN", .wants = WANTS_SOURCE_MAC, .vlan = 5, .tags = {{0x8100, 5}}, .taken = true},
	{"of an EtherType", .type = 0x88f7, .wants = WANTS_ETHER_TYPE, .taken = true},
	{"of another EtherType", .type = 0x88f8, .wants = WANTS_ETHER_TYPE},
	{"of IP to what wants an EtherType", .wants = WANTS_ETHER_TYPE},
	{"of an EtherType, in a VLAN", .type = 0x88f7, .wants = WANTS_ETHER_TYPE, .tags = {{0x8100, 5}}, .taken = true},
	{"of an EtherType behind two tags", .type = 0x88f7, .wants = WANTS_ETHER_TYPE,
         .tags = {{0x88a8, 5}, {0x8100, 6}}, .taken = true},
	{"of an EtherType behind three tags", .type = 0x88f7, .wants = WANTS_ETHER_TYPE,
         .tags = {{0x88a8, 5}, {0x8100, 6}, {0x8100, 7}}},
	{"of an EtherType of a VLAN", .type = 0x88f7, .wants = WANTS_ETHER_TYPE, .vlan = 5, .tags = {{0x8100, 5}},
         .taken = true},
	{"of an EtherType of another VLAN", .type = 0x88f7, .wants = WANTS_ETHER_TYPE, .vlan = 5,
         .tags = {{0x8100, 6}}},

	{"of UDP, to all", .wants = WANTS_ALL, .taken = true},
	{"of TCP in a VLAN, to all", .wants = WANTS_ALL, .protocol = 6, .tags = {{0x8100, 5}}, .taken = true},
	{"of ARP, to all", .type = 0x0806, .wants = WANTS_ALL, .taken = true},
	{"of IPv6, to all", .ipv6 = true, .wants = WANTS_ALL, .taken = true},
	{"of a header that is too short, to all", .wants = WANTS_ALL, .part = 'i', .at = 0, .value = 0x44,
         .taken = true},
	{"of one station, to all groups", .wants = WANTS_MULTICAST},
	{"of a group, to all groups", .wants = WANTS_MULTICAST, .part = 'e', .at = 0, .value = 0x01, .taken = true},
	{"of a group of IPv6, to all groups", .ipv6 = true, .wants = WANTS_MULTICAST, .part = 'e', .at = 0,
         .value = 0x33, .taken = true},
	{"of a header that is too short, to any protocol", .wants = WANTS_ANY_PROTOCOL | WANTS_ANY_PORT, .part = 'i',
         .at = 0, .value = 0x44},
};
const unsigned int n_flow_frames = sizeof(flow_frames) / sizeof(flow_frames[0]);

static void rule_set_addresses(struct flow_rule *rule, const struct flow_frame *frame)
{
	size_t n = frame->ipv6 ? 16 : 4, last = n - 1;

	memcpy(rule->value.destination, frame->ipv6 ? (uint8_t[16]){0xfd, [15] = 1} : (uint8_t[16]){10, 0, 0, 1}, 16);
	memset(rule->mask.destination, 0xff, n);
	if (frame->wants & WANTS_PREFIX) {
		rule->value.destination[last] = 0;
		memset(rule->mask.destination + (frame->ipv6 ? 8 : 3), 0, frame->ipv6 ? 8 : 1);
	}
	if (frame->wants & WANTS_ANY_ADDRESS) {
		memset(rule->value.destination, 0, n);
		memset(rule->mask.destination, 0, n);
	}
	if (!frame->from && !(frame->wants & WANTS_SOURCE_PREFIX))
		return;
	memcpy(rule->value.source, frame->ipv6 ? (uint8_t[16]){0xfd, [15] = 9} : (uint8_t[16]){10, 0, 0, 9}, 16);
	memset(rule->mask.source, 0xff, n);
	if (frame->wants & WANTS_SOURCE_PREFIX)
		rule->value.source[last] &= rule->mask.source[last] = 0xfc;
}

static void rule_set_protocol(struct flow_rule *rule, const struct flow_frame *frame)
{
	rule->value.protocol = IPPROTO_UDP;
	rule->mask.protocol = 0xff;
	if (frame->wants & WANTS_TCP)
		rule->value.protocol = IPPROTO_TCP;
	if (frame->wants & WANTS_ICMP)
		rule->value.protocol = frame->ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	if (frame->wants & WANTS_ANY_PROTOCOL)
		rule->value.protocol = rule->mask.protocol = 0;
	if (!(frame->wants & WANTS_ANY_PORT)) {
		rule->value.destination_port_be = htons(7502);
		rule->mask.destination_port_be = 0xffff;
	}
	if (frame->from) {
		rule->value.source_port_be = htons(4000);
		rule->mask.source_port_be = 0xffff;
	}
	if (frame->wants & WANTS_DSCP)
		rule->value.traffic_class = 46 << 2;
	if (frame->wants & (WANTS_DSCP | WANTS_DSCP_0))
		rule->mask.traffic_class = 0xfc;
}

struct flow_rule flow_frame_rule(const struct flow_frame *frame, const uint8_t mac[6])
{
	struct flow_rule rule = {.match = frame->wants & WANTS_ALL ? CONFIG_MATCH_ALL : CONFIG_MATCH_RULE};

	if (frame->wants & WANTS_ALL)
		return rule;
	if (frame->wants & WANTS_MULTICAST) {
		rule.match = CONFIG_MATCH_MULTICAST;
		rule.value.destination_mac[0] = rule.mask.destination_mac[0] = 1;
		return rule;
	}
	if (frame->vlan) {
		rule.value.vlan_be = htons((uint16_t)frame->vlan);
		rule.mask.vlan_be = htons(0x0fff);
	}
	if (frame->wants & WANTS_ETHER_TYPE) {
		rule.value.ether_type_be = htons(0x88f7);
		rule.mask.ether_type_be = 0xffff;
		return rule;
	}
	rule.family = frame->wants & WANTS_ANY_FAMILY ? AF_UNSPEC : frame->ipv6 ? AF_INET6 : AF_INET;
	if (!(frame->wants & WANTS_ANY_ADDRESS)) {
		memcpy(rule.value.destination_mac, mac, 6);
		memset(rule.mask.destination_mac, 0xff, 6);
	}
	if (frame->wants & WANTS_SOURCE_MAC) {
		rule.value.source_mac[0] = 0x02;
		memset(rule.mask.source_mac, 0xff, 6);
	}
	rule_set_addresses(&rule, frame);
	rule_set_protocol(&rule, frame);
	return rule;
}

static uint8_t *write_be16(uint8_t *at, unsigned int value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
	return at + 2;
}

/* Returns where UDP begins. */
static uint8_t *write_ip(const struct flow_frame *frame, uint8_t *ip)
{
	const struct flow_frame exact = {.ipv6 = frame->ipv6, .from = true};
	const struct flow_rule rule = flow_frame_rule(&exact, (uint8_t[6]){0});
	uint8_t protocol = frame->protocol ? frame->protocol : IPPROTO_UDP;

	if (frame->ipv6) {
		ip[0] = (uint8_t)(0x60 | frame->traffic_class >> 4);
		ip[1] = (uint8_t)(frame->traffic_class << 4);
		write_be16(ip + 4, 16);
		ip[6] = protocol;
		memcpy(ip + 8, rule.value.source, 16);
		memcpy(ip + 24, rule.value.destination, 16);
		return ip + 40;
	}
	ip[0] = (uint8_t)(0x45 + frame->option_words);
	ip[1] = frame->traffic_class;
	write_be16(ip + 2, 36U + 4U * frame->option_words);
	ip[9] = protocol;
	memcpy(ip + 12, rule.value.source, 4);
	memcpy(ip + 16, rule.value.destination, 4);
	memset(ip + 20, 1, 4U * frame->option_words);
	return ip + 20 + 4 * frame->option_words;
}

size_t flow_frame_write(const struct flow_frame *frame, const uint8_t mac[6], uint8_t bytes[FLOW_FRAME_BYTES_MAX],
                        size_t *needed)
{
	uint16_t type = frame->type ? frame->type : frame->ipv6 ? 0x86dd : 0x0800;
	uint8_t *at = bytes + 12, *ip, *udp;

	memset(bytes, 0, FLOW_FRAME_BYTES_MAX);
	memcpy(bytes, mac, 6);
	bytes[6] = 0x02;
	for (int i = 0; i < 3 && frame->tags[i][0]; i++)
		at = write_be16(write_be16(at, frame->tags[i][0]), frame->tags[i][1]);
	ip = write_be16(at, type);
	udp = write_ip(frame, ip);
	write_be16(udp, 4000);
	write_be16(udp + 2, 7502);
	write_be16(udp + 4, 16);
	if (frame->part)
		(frame->part == 'e' ? bytes : frame->part == 'i' ? ip : udp)[frame->at] = frame->value;
	*needed = (size_t)(ip - bytes);
	if (!(frame->wants & WANTS_NO_IP))
		*needed += frame->ipv6 ? 40 : 20;
	if (!(frame->wants & WANTS_NO_IP) && (!(frame->wants & WANTS_ANY_PORT) || frame->from))
		*needed = (size_t)(udp + 4 - bytes);
	return (size_t)(udp + 16 - bytes);
}
