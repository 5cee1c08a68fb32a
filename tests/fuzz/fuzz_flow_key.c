// SPDX-License-Identifier: Apache-2.0
/*
 * What is on the wire, read by the header that the BPF programs share, as a key and as a condition, and by the classic
 * filter of the packet backend, which libpcap runs: all take the same frames. The first byte or two choose the rule,
 * whose addresses and ports are those of the frame if it has any.
 */
#include "daemon/backend/bpf/flow_table.h"
#include "daemon/backend/packet/af_packet.h"

#include <netinet/in.h>
#include <pcap/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_BYTES_MAX 256
#define MAC_BYTES       12 /* both addresses */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_outer_tag(const uint8_t *frame, size_t n)
{
	return n >= 18 && ((frame[12] == 0x81 && frame[13] == 0) || (frame[12] == 0x88 && frame[13] == 0xa8));
}

enum choice {
	CHOICE_IPV6 = 1 << 0,
	CHOICE_SOURCE = 1 << 1,
	CHOICE_SOURCE_PORT = 1 << 2,
	CHOICE_WRONG = 1 << 3,  /* the destination */
	CHOICE_BEYOND = 1 << 4, /* the next byte has more choices */
	CHOICE_TAGS = 6,        /* how many there are, from this bit on */
};
enum choice_beyond {
	BEYOND_ANY_PORT = 1 << 0,
	BEYOND_PREFIX = 1 << 1,
	BEYOND_PROTOCOL = 1 << 2, /* that of the frame, or else any */
	BEYOND_ANY_PROTOCOL = 1 << 3,
	BEYOND_DSCP = 1 << 4,
	BEYOND_SOURCE_MAC = 1 << 5,
	BEYOND_ANY_FAMILY = 1 << 6,
	BEYOND_ETHER_TYPE = 1 << 7, /* and nothing else */
};

static void mask_value(void *value, void *mask, const void *bytes, size_t n)
{
	memcpy(value, bytes, n);
	memset(mask, 0xff, n);
}

static void rule_go_beyond(struct flow_rule *rule, uint8_t beyond, const uint8_t *bytes, const uint8_t *ip)
{
	bool ipv6 = rule->family == AF_INET6;

	if (beyond & BEYOND_ETHER_TYPE) {
		*rule = (struct flow_rule){.match = CONFIG_MATCH_RULE};
		mask_value(&rule->value.ether_type_be, &rule->mask.ether_type_be, ip - 2, 2);
		return;
	}
	if (beyond & BEYOND_ANY_PORT)
		rule->value.destination_port_be = rule->mask.destination_port_be = 0;
	if (beyond & (BEYOND_PREFIX | BEYOND_ANY_FAMILY)) {
		size_t n_whole = beyond & BEYOND_ANY_FAMILY ? 0 : 2;

		memset(rule->value.destination + n_whole, 0, 16 - n_whole);
		memset(rule->mask.destination + n_whole, 0, 16 - n_whole);
	}
	if (beyond & BEYOND_ANY_FAMILY)
		rule->family = AF_UNSPEC;
	if (beyond & BEYOND_PROTOCOL)
		mask_value(&rule->value.protocol, &rule->mask.protocol, ip + (ipv6 ? 6 : 9), 1);
	if (beyond & BEYOND_ANY_PROTOCOL)
		rule->value.protocol = rule->mask.protocol = 0;
	if (beyond & BEYOND_DSCP) {
		rule->mask.traffic_class = 0xfc;
		rule->value.traffic_class = (ipv6 ? (uint8_t)(ip[0] << 4 | ip[1] >> 4) : ip[1]) & 0xfc;
	}
	if (beyond & BEYOND_SOURCE_MAC)
		mask_value(rule->value.source_mac, rule->mask.source_mac, bytes + 6, 6);
}

/* By where the fields are if the headers are as they should be. A field behind the end of the frame is 0. */
static struct flow_rule rule_of(uint8_t choice, uint8_t beyond, const uint8_t *frame, size_t n)
{
	struct flow_rule rule = {.match = CONFIG_MATCH_RULE, .family = choice & CHOICE_IPV6 ? AF_INET6 : AF_INET};
	bool ipv6 = rule.family == AF_INET6;
	uint8_t bytes[FRAME_BYTES_MAX + 128] = {0}, udp_number = IPPROTO_UDP;
	const uint8_t *ip = bytes + 14 + 4 * (choice >> CHOICE_TAGS), *udp;

	memcpy(bytes, frame, n);
	udp = ip + (ipv6 ? 40 : (ip[0] & 15) * 4);
	mask_value(rule.value.destination_mac, rule.mask.destination_mac, bytes, 6);
	mask_value(rule.value.destination, rule.mask.destination, ip + (ipv6 ? 24 : 16), ipv6 ? 16 : 4);
	mask_value(&rule.value.destination_port_be, &rule.mask.destination_port_be, udp + 2, 2);
	mask_value(&rule.value.protocol, &rule.mask.protocol, &udp_number, 1);
	if (choice & CHOICE_SOURCE)
		mask_value(rule.value.source, rule.mask.source, ip + (ipv6 ? 8 : 12), ipv6 ? 16 : 4);
	if (choice & CHOICE_SOURCE_PORT)
		mask_value(&rule.value.source_port_be, &rule.mask.source_port_be, udp, 2);
	if (choice & CHOICE_WRONG)
		rule.value.destination[0] ^= 1;
	if (choice & CHOICE_BEYOND)
		rule_go_beyond(&rule, beyond, bytes, ip);
	if (rule.family == AF_UNSPEC) {
		memset(rule.value.source, 0, 16);
		memset(rule.mask.source, 0, 16);
	}
	/* A rule for port 0 is one for any port. */
	rule.mask.destination_port_be = rule.value.destination_port_be ? 0xffff : 0;
	rule.mask.source_port_be = rule.value.source_port_be ? 0xffff : 0;
	return rule;
}

static bool key_takes(const struct flow_rule *rule, const uint8_t *frame, size_t n)
{
	struct flow_key wanted = flow_table_key(rule, true);
	struct flow_headers headers = {0};

	if (!flow_key_read_frame(frame, frame + n, 0, &headers, false) || wanted.fields & ~headers.key.fields)
		return false;
	flow_key_keep(&headers.key, wanted.fields);
	return memcmp(&headers.key, &wanted, sizeof(wanted)) == 0;
}

static bool condition_takes(const struct flow_rule *rule, const uint8_t *frame, size_t n)
{
	const struct flow_condition condition = flow_table_condition(rule, true);
	struct flow_headers headers = {0};

	return flow_key_read_frame(frame, frame + n, 0, &headers, true) && flow_condition_holds(&condition, &headers);
}

/* The kernel takes the outer tag out of the frame before the filter runs. */
static bool filter_takes(const struct flow_rule *rule, const uint8_t *frame, size_t n)
{
	static struct sock_filter code[AF_PACKET_FILTER_MAX];
	const struct af_packet_claim claim = {flow_table_condition(rule, true), .takes = AF_PACKET_WHOLE_FRAME};
	uint8_t bytes[FRAME_BYTES_MAX];
	size_t gone = has_outer_tag(frame, n) ? 4 : 0;

	if (n < 14 || af_packet_filter_build(&claim, 1, true, 0, code) < 0)
		return false;
	memcpy(bytes, frame, MAC_BYTES);
	memcpy(bytes + MAC_BYTES, frame + MAC_BYTES + gone, n - MAC_BYTES - gone);
	return bpf_filter((const struct bpf_insn *)code, bytes, (u_int)(n - gone), (u_int)(n - gone)) != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t choices = size > 0 && data[0] & CHOICE_BEYOND ? 2 : 1, n;
	bool by_key, by_condition, by_filter;
	struct flow_rule rule;
	uint8_t *frame;

	if (size < choices || size > FRAME_BYTES_MAX)
		return 0;
	n = size - choices;
	/* Of that size exactly, so that a read behind it is found. */
	frame = malloc(n ? n : 1);
	if (!frame)
		abort();
	memcpy(frame, data + choices, n);
	rule = rule_of(data[0], data[choices - 1], frame, n);
	by_condition = condition_takes(&rule, frame, n);
	by_key = flow_table_is_exact(&rule) ? key_takes(&rule, frame, n) : by_condition;
	by_filter = filter_takes(&rule, frame, n);
	free(frame);
	if (by_key == by_filter && by_condition == by_filter)
		return 0;
	fprintf(stderr, "broken: the key says %d, the condition %d, the classic filter %d\n", by_key, by_condition,
	        by_filter);
	abort();
}
