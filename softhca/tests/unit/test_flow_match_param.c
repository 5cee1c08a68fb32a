// SPDX-License-Identifier: Apache-2.0
#include "softhca/device/flow_match_param.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

/* Places in fte_match_param. */
enum {
	SMAC,
	ETHERTYPE = 6,
	DMAC = 8,
	VLAN = 14,
	PROTOCOL = 16,
	TOS,
	FLAGS, /* cvlan_tag 0x80, ip_version 0x1e */
	TCP_FLAGS,
	TCP_DPORT = 22,
	TTL = 27,
	UDP_SPORT = 28,
	UDP_DPORT = 30,
	SRC_IP = 32,
	DST_IP = 48,
	FLOW_LABEL = 64 + 28,
	INNER = 128,
};

static struct flow_matcher matcher;
static uint8_t value[MATCH_PARAM_BYTES];
static struct flow_rule rule;

static void set(size_t at, const void *mask, const void *v, size_t bytes)
{
	memcpy(matcher.mask + at, mask, bytes);
	memcpy(value + at, v, bytes);
}

static void set8(size_t at, uint8_t mask, uint8_t v)
{
	set(at, &mask, &v, 1);
}

static void set16(size_t at, uint16_t mask, uint16_t v)
{
	set8(at, (uint8_t)(mask >> 8), (uint8_t)(v >> 8));
	set8(at + 1, (uint8_t)mask, (uint8_t)v);
}

static int parse(void)
{
	memset(&rule, 0, sizeof(rule));
	return flow_match_param(&rule, &matcher, value);
}

static void clear(void)
{
	matcher = (struct flow_matcher){.criteria = 1 << MATCH_OUTER | 1 << MATCH_MISC};
	memset(value, 0, sizeof(value));
}

TestSuite(flow_match_param, .init = clear);

Test(flow_match_param, ethernet)
{
	static const uint8_t all[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac[6] = {2, 1, 2, 3, 4, 5};

	set(DMAC, all, mac, 6);
	set(SMAC, all, mac, 6);
	set16(ETHERTYPE, 0xffff, 0x1234);
	set16(VLAN, 0xfff, 5);
	set8(FLAGS, 0x80, 0x80);
	cr_assert_eq(parse(), 0);
	cr_assert_arr_eq(rule.value.dst_mac, mac, 6);
	cr_assert_arr_eq(rule.mask.src_mac, all, 6);
	cr_assert_eq(rule.value.ether_type, htons(0x1234));
	cr_assert_eq(rule.mask.vlan_tci, htons(0xfff));
	cr_assert(rule.mask.cvlan && rule.value.cvlan);
}

Test(flow_match_param, frames_without_a_tag)
{
	set8(FLAGS, 0x80, 0);
	cr_assert_eq(parse(), 0);
	cr_assert(rule.mask.cvlan && !rule.value.cvlan);
}

Test(flow_match_param, ipv4_is_in_the_last_bytes)
{
	static const uint8_t ip[4] = {10, 0, 0, 1}, mask[4] = {255, 255, 255, 0}, net[4] = {10, 0, 0, 0};

	set8(FLAGS, 0xf << 1, 4 << 1);
	set(DST_IP + 12, ip, ip, 4);
	set(SRC_IP + 12, mask, net, 4);
	set8(TOS, 0xfc, 0xb8);
	cr_assert_eq(parse(), 0);
	cr_assert_arr_eq(rule.value.dst_ip, ip, 4);
	cr_assert_arr_eq(rule.mask.src_ip, mask, 4);
	cr_assert_eq(rule.value.ip_version, 4);
	cr_assert_eq(rule.mask.tos, 0xfc);
}

Test(flow_match_param, an_ethertype_says_the_ip_version)
{
	static const uint8_t ip[4] = {10, 0, 0, 1};

	set16(ETHERTYPE, 0xffff, 0x0800);
	set(DST_IP + 12, ip, ip, 4);
	cr_assert_eq(parse(), 0);
	cr_assert_arr_eq(rule.value.dst_ip, ip, 4);
	cr_assert(rule.mask.ip_version == 0xf && rule.value.ip_version == 4);
	set16(ETHERTYPE, 0xffff, 0x86dd);
	cr_assert_eq(parse(), 0);
	cr_assert_arr_eq(rule.value.dst_ip + 12, ip, 4);
	cr_assert_eq(rule.value.ip_version, 6);
	set16(ETHERTYPE, 0xffff, 0x1234);
	cr_assert_eq(parse(), -EOPNOTSUPP);
}

Test(flow_match_param, flow_label_of_ipv6)
{
	uint32_t label = htonl(0xfffff);

	set8(FLAGS, 0xf << 1, 6 << 1);
	set(FLOW_LABEL, &label, &label, 4);
	cr_assert_eq(parse(), 0);
	cr_assert_eq(rule.value.flow_label, label);
	matcher.criteria = 1 << MATCH_OUTER; /* then its section does not count */
	cr_assert_eq(parse(), 0);
	cr_assert_eq(rule.mask.flow_label, 0);
	cr_assert_eq(rule.value.flow_label, 0);
}

Test(flow_match_param, ports_imply_the_protocol)
{
	set16(UDP_DPORT, 0xffff, 4000);
	cr_assert_eq(parse(), 0);
	cr_assert(rule.mask.ip_proto == 0xff && rule.value.ip_proto == 17);
	cr_assert_eq(rule.value.dst_port, htons(4000));
	set8(PROTOCOL, 0xff, 6);
	cr_assert_eq(parse(), -EOPNOTSUPP);
	clear();
	set16(TCP_DPORT, 0xffff, 80);
	set8(PROTOCOL, 0xff, 6);
	cr_assert_eq(parse(), 0);
	cr_assert_eq(rule.value.dst_port, htons(80));
}

Test(flow_match_param, flags_of_tcp_imply_the_protocol)
{
	set16(FLAGS, 0x1ff, 0x102);
	cr_assert_eq(parse(), 0);
	cr_assert(rule.mask.ip_proto == 0xff && rule.value.ip_proto == 6);
	cr_assert_eq(rule.value.tcp_flags, htons(0x102));
	set16(UDP_DPORT, 0xffff, 1);
	cr_assert_eq(parse(), -EOPNOTSUPP);
}

Test(flow_match_param, ttl_and_fragments)
{
	set8(FLAGS, 0xf << 1 | 0x20, 4 << 1 | 0x20);
	set8(TTL, 0xf0, 0x40);
	cr_assert_eq(parse(), 0);
	cr_assert(rule.mask.fragment == 1 && rule.value.fragment == 1);
	cr_assert(rule.mask.ttl == 0xf0 && rule.value.ttl == 0x40);
	set8(FLAGS, 0xf << 1 | 0x20, 4 << 1);
	cr_assert_eq(parse(), 0);
	cr_assert(rule.mask.fragment == 1 && rule.value.fragment == 0);
}

Test(flow_match_param, value_has_no_bit_outside_of_the_mask)
{
	set16(UDP_SPORT, 0xff00, 1);
	cr_assert_eq(parse(), -EINVAL);
}

Test(flow_match_param, fields_that_the_device_does_not_read)
{
	set8(FLAGS, 0x40, 0x40); /* svlan_tag */
	cr_assert_eq(parse(), -EOPNOTSUPP);
	clear();
	set8(TTL, 0xff, 64); /* of any IP version */
	cr_assert_eq(parse(), -EOPNOTSUPP);
	clear();
	set8(INNER, 1, 1);
	cr_assert_eq(parse(), 0);
	matcher.criteria |= 1 << 2;
	cr_assert_eq(parse(), -EOPNOTSUPP);
}

/* mlx5_ib asks of the mask, too, whether it is a multicast address: 255.255.255.255 is none. */
Test(flow_match_param, multicast_has_a_table_of_its_own)
{
	static const uint8_t all[4] = {255, 255, 255, 255}, part[4] = {0xe0, 0, 0, 0}, group[4] = {239, 1, 2, 3};

	matcher.priority = 3;
	cr_assert_eq(parse(), 0);
	cr_assert_eq(rule.table, 3 * 2 + 1);
	set8(DMAC, 0xff, 0x01);
	cr_assert_eq(parse(), 0);
	cr_assert_eq(rule.table, FLOW_TABLE_MULTICAST);
	set8(DMAC, 0xff, 0x02);
	set8(FLAGS, 0xf << 1, 4 << 1);
	set(DST_IP + 12, part, part, 4);
	cr_assert_eq(parse(), 0);
	cr_assert_eq(rule.table, FLOW_TABLE_MULTICAST);
	set(DST_IP + 12, all, group, 4);
	cr_assert_eq(parse(), 0);
	cr_assert_eq(rule.table, 3 * 2 + 1);
}
