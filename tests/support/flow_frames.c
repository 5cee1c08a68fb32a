// SPDX-License-Identifier: Apache-2.0
/* The frames: tags, options, fragments, sources, and headers that are wrong. */
#include "tests/support/flow_frames.h"
#include "tests/support/flows.h"

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
};
const unsigned int n_flow_frames = sizeof(flow_frames) / sizeof(flow_frames[0]);

struct flow_rule flow_frame_rule(const struct flow_frame *frame, const uint8_t mac[6])
{
	struct flow_rule rule = {
		.family = frame->ipv6 ? AF_INET6 : AF_INET,
		.value = {.protocol = IPPROTO_UDP, .destination_port_be = htons(7502)},
		.mask = FLOW_MASK_UDP_IPV4,
	};

	if (frame->ipv6)
		rule.mask = (struct flow_fields)FLOW_MASK_UDP_IPV6;
	memcpy(rule.value.destination_mac, mac, 6);
	memcpy(rule.value.destination, frame->ipv6 ? (uint8_t[16]){0xfd, [15] = 1} : (uint8_t[16]){10, 0, 0, 1}, 16);
	if (frame->from) {
		rule_set_source(&rule, frame->ipv6 ? (uint8_t[16]){0xfd, [15] = 9} : (uint8_t[16]){10, 0, 0, 9});
		rule_set_source_port(&rule, 4000);
	}
	if (frame->vlan)
		rule_set_vlan(&rule, frame->vlan);
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
	struct flow_frame with_source = *frame;
	struct flow_rule rule;

	with_source.from = true;
	rule = flow_frame_rule(&with_source, (uint8_t[6]){0});
	if (frame->ipv6) {
		ip[0] = 0x60;
		write_be16(ip + 4, 16);
		ip[6] = IPPROTO_UDP;
		memcpy(ip + 8, rule.value.source, 16);
		memcpy(ip + 24, rule.value.destination, 16);
		return ip + 40;
	}
	ip[0] = (uint8_t)(0x45 + frame->option_words);
	write_be16(ip + 2, 36U + 4U * frame->option_words);
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, rule.value.source, 4);
	memcpy(ip + 16, rule.value.destination, 4);
	memset(ip + 20, 1, 4U * frame->option_words);
	return ip + 20 + 4 * frame->option_words;
}

size_t flow_frame_write(const struct flow_frame *frame, const uint8_t mac[6], uint8_t bytes[FLOW_FRAME_BYTES_MAX],
                        size_t *ports_end)
{
	uint8_t *at = bytes + 12, *ip, *udp;

	memset(bytes, 0, FLOW_FRAME_BYTES_MAX);
	memcpy(bytes, mac, 6);
	bytes[6] = 0x02;
	for (int i = 0; i < 3 && frame->tags[i][0]; i++)
		at = write_be16(write_be16(at, frame->tags[i][0]), frame->tags[i][1]);
	ip = write_be16(at, frame->ipv6 ? 0x86dd : 0x0800);
	udp = write_ip(frame, ip);
	write_be16(udp, 4000);
	write_be16(udp + 2, 7502);
	write_be16(udp + 4, 16);
	if (frame->part)
		(frame->part == 'e' ? bytes : frame->part == 'i' ? ip : udp)[frame->at] = frame->value;
	*ports_end = (size_t)(udp + 4 - bytes);
	return (size_t)(udp + 16 - bytes);
}
