// SPDX-License-Identifier: Apache-2.0
/* The bytes of a flow rule: order, sizes and masks are what the hardware's steering depends on. */
#include "daemon/backend/verbs/verbs.h"
#include "tests/support/flows.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

static struct flow_rule multicast_rule(void)
{
	struct flow_rule rule = {
		.family = AF_INET,
		.multicast = true,
		.value = {.destination_mac = {0x01, 0x00, 0x5e, 0x01, 0x02, 0x03},
	                  .destination = {239, 1, 2, 3},
	                  .protocol = IPPROTO_UDP,
	                  .destination_port_be = htons(7502)},
		.mask = FLOW_MASK_UDP_IPV4,
	};
	return rule;
}

/* The n-th spec; checks on the way that sizes lead from one to the next and end at attr.size. */
static const void *spec(const struct verbs_flow_attr *flow, int n)
{
	const uint8_t *at = flow->specs, *end = (const uint8_t *)flow + flow->attr.size;

	for (int i = 0; i < flow->attr.num_of_specs; i++) {
		struct ibv_flow_spec_eth header;

		memcpy(&header, at, 8);
		if (i == n)
			return at;
		at += header.size;
		cr_assert(at < end);
	}
	cr_assert(false, "no spec %d", n);
	return NULL;
}

static void check_end(const struct verbs_flow_attr *flow)
{
	struct ibv_flow_spec_eth header;
	const uint8_t *last = spec(flow, flow->attr.num_of_specs - 1);

	memcpy(&header, last, 8);
	cr_assert_eq((void *)(last + header.size), (void *)((const uint8_t *)flow + flow->attr.size));
}

static const uint8_t all_ones[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

Test(flow, ethernet_comes_first_with_the_whole_destination_mac)
{
	struct flow_rule rule = multicast_rule();
	struct verbs_flow_attr flow;
	struct ibv_flow_spec_eth eth;

	verbs_flow_attr_build(&flow, &rule, 1, NULL);
	check_end(&flow);
	memcpy(&eth, spec(&flow, 0), sizeof(eth));
	cr_assert_eq(eth.type, IBV_FLOW_SPEC_ETH);
	cr_assert_eq(memcmp(eth.val.dst_mac, rule.value.destination_mac, 6), 0);
	cr_assert_eq(memcmp(eth.mask.dst_mac, all_ones, 6), 0);
	cr_assert_eq(eth.mask.vlan_tag, 0);
	cr_assert_eq(eth.mask.ether_type, 0);
	cr_assert_eq(flow.attr.num_of_specs, 3);
	cr_assert_eq(flow.attr.type, IBV_FLOW_ATTR_NORMAL);
	cr_assert_eq(flow.attr.port, 1);
}

Test(flow, vlan_matches_the_id_and_not_the_priority)
{
	struct flow_rule rule = multicast_rule();
	struct verbs_flow_attr flow;
	struct ibv_flow_spec_eth eth;

	rule_set_vlan(&rule, 5);
	verbs_flow_attr_build(&flow, &rule, 1, NULL);
	memcpy(&eth, spec(&flow, 0), sizeof(eth));
	cr_assert_eq(eth.val.vlan_tag, htons(5));
	cr_assert_eq(eth.mask.vlan_tag, htons(0x0fff));
}

Test(flow, ipv4_matches_destination_and_port_alone_unless_a_source_is_given)
{
	struct flow_rule rule = multicast_rule();
	struct verbs_flow_attr flow;
	struct ibv_flow_spec_ipv4_ext ip;
	struct ibv_flow_spec_tcp_udp udp;

	verbs_flow_attr_build(&flow, &rule, 1, NULL);
	memcpy(&ip, spec(&flow, 1), sizeof(ip));
	memcpy(&udp, spec(&flow, 2), sizeof(udp));
	cr_assert_eq(ip.type, IBV_FLOW_SPEC_IPV4_EXT);
	cr_assert_eq(ip.val.dst_ip, inet_addr("239.1.2.3"));
	cr_assert_eq(ip.mask.dst_ip, UINT32_MAX);
	cr_assert_eq(ip.mask.src_ip, 0);
	cr_assert_eq(ip.val.proto, IPPROTO_UDP);
	cr_assert_eq(ip.mask.proto, 0xff);
	cr_assert_eq(ip.mask.tos | ip.mask.ttl | ip.mask.flags, 0);
	cr_assert_eq(udp.type, IBV_FLOW_SPEC_UDP);
	cr_assert_eq(udp.val.dst_port, htons(7502));
	cr_assert_eq(udp.mask.dst_port, 0xffff);
	cr_assert_eq(udp.mask.src_port, 0);
}

Test(flow, source_address_and_port_are_exact)
{
	struct flow_rule rule = multicast_rule();
	struct verbs_flow_attr flow;
	struct ibv_flow_spec_ipv4_ext ip;
	struct ibv_flow_spec_tcp_udp udp;

	rule_set_source(&rule, (uint8_t[]){10, 0, 0, 1});
	rule_set_source_port(&rule, 4000);
	verbs_flow_attr_build(&flow, &rule, 1, NULL);
	memcpy(&ip, spec(&flow, 1), sizeof(ip));
	memcpy(&udp, spec(&flow, 2), sizeof(udp));
	cr_assert_eq(ip.val.src_ip, inet_addr("10.0.0.1"));
	cr_assert_eq(ip.mask.src_ip, UINT32_MAX);
	cr_assert_eq(udp.val.src_port, htons(4000));
	cr_assert_eq(udp.mask.src_port, 0xffff);
}

Test(flow, ipv6_has_its_own_spec)
{
	struct flow_rule rule = multicast_rule();
	struct verbs_flow_attr flow;
	struct ibv_flow_spec_ipv6 ip;

	rule.family = AF_INET6;
	rule.mask = (struct flow_fields)FLOW_MASK_UDP_IPV6;
	inet_pton(AF_INET6, "ff15::1:2", rule.value.destination);
	verbs_flow_attr_build(&flow, &rule, 1, NULL);
	check_end(&flow);
	memcpy(&ip, spec(&flow, 1), sizeof(ip));
	cr_assert_eq(ip.type, IBV_FLOW_SPEC_IPV6);
	cr_assert_eq(memcmp(ip.val.dst_ip, rule.value.destination, 16), 0);
	cr_assert_eq(memcmp(ip.mask.dst_ip, all_ones, 16), 0);
	cr_assert_eq(ip.val.next_hdr, IPPROTO_UDP);
	cr_assert_eq(ip.mask.next_hdr, 0xff);
	cr_assert_eq(ip.mask.hop_limit, 0);
}

Test(flow, counters_come_last)
{
	struct flow_rule rule = multicast_rule();
	struct ibv_counters counters;
	struct verbs_flow_attr flow;
	struct ibv_flow_spec_counter_action count;

	verbs_flow_attr_build(&flow, &rule, 1, &counters);
	check_end(&flow);
	memcpy(&count, spec(&flow, 3), sizeof(count));
	cr_assert_eq(count.type, IBV_FLOW_SPEC_ACTION_COUNT);
	cr_assert_eq(count.counters, &counters);
	cr_assert_leq(flow.attr.size, sizeof(flow));
}

/* mlx5_ib puts a rule with the MAC of groups behind all others, whatever its priority. */
Test(flow, a_group_with_a_priority_is_told_by_its_address_alone)
{
	struct flow_rule rule = multicast_rule();
	struct verbs_flow_attr flow;
	struct ibv_flow_spec_eth eth;
	static const uint8_t open[6];

	verbs_flow_attr_build(&flow, &rule, 1, NULL);
	cr_assert_eq(flow.attr.priority, FLOW_PRIORITY_MAX);
	rule.priority = 2;
	verbs_flow_attr_build(&flow, &rule, 1, NULL);
	memcpy(&eth, spec(&flow, 0), sizeof(eth));
	cr_assert_eq(flow.attr.priority, FLOW_PRIORITY_MAX - 2);
	cr_assert_eq(memcmp(eth.val.dst_mac, open, 6), 0);
	cr_assert_eq(memcmp(eth.mask.dst_mac, open, 6), 0);
}

Test(flow, a_copy_does_not_trap_and_a_later_flow_has_its_tag)
{
	struct flow_rule rule = multicast_rule();
	struct ibv_flow_spec_action_tag tag;
	struct verbs_flow_attr flow;

	verbs_flow_attr_build(&flow, &rule, 1, NULL);
	cr_assert_eq(flow.attr.flags, 0);
	rule.copy = true;
	rule.tag = 5;
	verbs_flow_attr_build(&flow, &rule, 1, NULL);
	check_end(&flow);
	cr_assert_eq(flow.attr.flags, IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
	memcpy(&tag, spec(&flow, 3), sizeof(tag));
	cr_assert_eq(tag.type, IBV_FLOW_SPEC_ACTION_TAG);
	cr_assert_eq(tag.tag_id, 5);
}

Test(flow, guards_of_two_queues_differ_and_have_the_masks_of_plain_rules)
{
	struct flow_rule plain = multicast_rule(), first, second;
	struct verbs_flow_attr flow, guard;
	struct ibv_flow_spec_ipv4_ext ip, guard_ip;

	verbs_guard_rule(&first, 0x000102);
	verbs_guard_rule(&second, 0x000103);
	cr_assert_neq(memcmp(&first, &second, sizeof(first)), 0);
	cr_assert_eq(first.value.destination[0], 0);
	verbs_flow_attr_build(&flow, &plain, 1, NULL);
	verbs_flow_attr_build(&guard, &first, 1, NULL);
	cr_assert_eq(guard.attr.size, flow.attr.size);
	memcpy(&ip, spec(&flow, 1), sizeof(ip));
	memcpy(&guard_ip, spec(&guard, 1), sizeof(guard_ip));
	cr_assert_eq(memcmp(&ip.mask, &guard_ip.mask, sizeof(ip.mask)), 0);
}
