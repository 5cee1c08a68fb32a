// SPDX-License-Identifier: Apache-2.0
/* Rules that flows resolve to, flows that overlap, and how a rule is written. */
#include "daemon/flow/flow.h"
#include "tests/support/flows.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const uint8_t interface_mac[6] = {2, 0, 0, 0, 0, 9};

static struct config_flow flow_to(const char *destination, uint16_t port)
{
	struct config_flow flow = {.destination_port = port, FLOW_DEFAULTS, .file = "test.conf", .line = port};

	flow_set_destination(&flow, destination);
	return flow;
}

static void expect_mac(const struct config_flow *flow, const char *expected)
{
	struct flow_rule rule;
	char mac[18];

	flow_resolve(flow, interface_mac, &rule);
	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", rule.value.destination_mac[0],
	         rule.value.destination_mac[1], rule.value.destination_mac[2], rule.value.destination_mac[3],
	         rule.value.destination_mac[4], rule.value.destination_mac[5]);
	cr_expect(eq(int, strcmp(mac, expected), 0), "%s, expected %s", mac, expected);
}

Test(flow, groups_have_the_mac_of_their_rfc_and_hosts_the_interfaces)
{
	struct config_flow flow = flow_to("239.129.2.3", 1);

	expect_mac(&flow, "01:00:5e:01:02:03"); /* only 23 bits: RFC 1112, 6.4 */
	flow = flow_to("ff05::1:203", 1);
	expect_mac(&flow, "33:33:00:01:02:03"); /* RFC 2464, 7 */
	flow = flow_to("10.0.0.1", 1);
	expect_mac(&flow, "02:00:00:00:00:09");
	flow = flow_to("fd00::1", 1);
	expect_mac(&flow, "02:00:00:00:00:09");
}

Test(flow, each_layout_has_its_header_bytes)
{
	struct config_flow v4 = flow_to("10.0.0.1", 1), v6 = flow_to("fd00::1", 1);

	cr_expect(eq(u32, flow_header_bytes(&v4), 42));
	cr_expect(eq(u32, flow_header_bytes(&v6), 62));
	v4.vlan = v6.vlan = 5;
	cr_expect(eq(u32, flow_header_bytes(&v4), 46));
	cr_expect(eq(u32, flow_header_bytes(&v6), 66));
}

Test(flow, a_rule_says_what_it_matches)
{
	struct config_flow flow = flow_to("239.1.2.3", 7502);
	struct flow_rule rule;
	char text[FLOW_TEXT_MAX];

	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(rule.multicast);
	cr_expect(eq(u16, rule.value.destination_port_be, htons(7502)));
	cr_expect(eq(int, strcmp(flow_format(&rule, text, sizeof(text)), "239.1.2.3:7502"), 0));
	flow_set_source(&flow, "10.0.0.7");
	flow.source_port = 9;
	flow.vlan = 5;
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(flow_rule_has_source(&rule));
	cr_expect(eq(int, strcmp(flow_format(&rule, text, sizeof(text)), "239.1.2.3:7502 from 10.0.0.7 port 9 vlan 5"),
	             0));
	flow = flow_to("fd00::1", 1);
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(not(rule.multicast));
	cr_expect(eq(int, strcmp(flow_format(&rule, text, sizeof(text)), "[fd00::1]:1"), 0));
	flow_format(&rule, text, 5);
	cr_expect(eq(sz, strlen(text), 4), "cut, and terminated");
}

/* ---- flows against each other -------------------------------------------------------------------- */

static int check(const struct config_flow *flows, uint32_t n_first, uint32_t n_second, const char *second_interface,
                 struct failure *failure)
{
	struct config_stream streams[2] = {
		{.name = "first", .interface = "eth0", .flows = flows, .n_flows = n_first},
		{.name = "second", .flows = flows + n_first, .n_flows = n_second},
	};
	const struct config config = {.streams = streams, .n_streams = n_second ? 2 : 1};

	strcpy(streams[1].interface, second_interface);
	return flow_check(&config, failure);
}

Test(flow, one_stream_has_one_header_layout)
{
	struct config_flow flows[2] = {flow_to("10.0.0.1", 1), flow_to("fd00::1", 2)};
	struct failure failure = {0};

	cr_expect(eq(int, check(flows, 2, 0, "", &failure), -EINVAL));
	cr_expect(eq(int, strncmp(failure.text, "test.conf:2: ", 13), 0), "%s", failure.text);
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), 0));
	flows[1] = flow_to("10.0.0.1", 2);
	flows[1].vlan = 7;
	cr_expect(eq(int, check(flows, 2, 0, "", &failure), -EINVAL));
}

Test(flow, the_same_flow_twice_on_one_interface_is_refused)
{
	struct config_flow flows[2] = {flow_to("10.0.0.1", 7), flow_to("10.0.0.1", 7)};
	struct failure failure = {0};

	cr_expect(eq(int, check(flows, 2, 0, "", &failure), -EINVAL));
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), -EINVAL));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "'first'") != NULL, "%s", failure.text);
	cr_expect(eq(int, check(flows, 1, 1, "eth1", &failure), 0));
}

Test(flow, flows_that_one_packet_could_both_match_are_refused)
{
	struct config_flow flows[2] = {flow_to("239.0.0.1", 7), flow_to("239.0.0.1", 7)};
	struct failure failure = {0};

	flows[1].source_port = 5;
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), -EINVAL));
	flows[0].source_port = 6;
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), 0));
	flows[0].source_port = flows[1].source_port = 0;
	flow_set_source(&flows[1], "10.0.0.2");
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), -EINVAL));
	flow_set_source(&flows[0], "10.0.0.1");
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), 0));
	flow_set_source(&flows[0], "10.0.0.2");
	flows[0].vlan = 5;
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), -EINVAL));
	flows[1].vlan = 6;
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), 0));
	flows[1].vlan = 5;
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), -EINVAL));
}

Test(flow, two_flows_are_the_same_only_if_each_part_is)
{
	const struct config_flow flow = flow_to("239.1.2.3", 7502);
	struct config_flow others[] = {flow, flow, flow, flow, flow}, same = flow;

	same.line++;
	cr_expect(flow_is_same(&flow, &same), "wherever it is configured");
	others[0].destination.address[3]++;
	others[1].source = flow_to("10.0.0.1", 1).destination;
	others[2].destination_port++;
	others[3].source_port++;
	others[4].vlan = 5;
	for (int i = 0; i < 5; i++)
		cr_expect(not(flow_is_same(&flow, &others[i])), "part %d", i);
}

/* ---- what a flow may name beside UDP to one address ------------------------------------------------ */

static void expect_text(const struct config_flow *flow, const char *expected)
{
	char text[FLOW_TEXT_MAX];

	cr_expect_str_eq(flow_describe(flow, text, sizeof(text)), expected);
}

Test(flow, a_prefix_is_in_the_mask_and_in_the_groups_mac)
{
	struct config_flow flow = flow_to("239.129.0.0", 0);
	static const uint8_t group[6] = {0xff, 0xff, 0xff, 0xff, 0, 0}, whole[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	static const uint8_t open[6];
	struct flow_rule rule;

	flow.destination_bits = 16;
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(eq(u32, memcmp(rule.mask.destination, (uint8_t[16]){0xff, 0xff}, 16) == 0, 1));
	cr_expect(eq(int, memcmp(rule.mask.destination_mac, group, 6), 0), "25 bits and 7 of the address");
	cr_expect(not(rule.multicast), "a prefix cannot be joined");
	cr_expect(eq(u16, rule.mask.destination_port_be, 0));
	expect_text(&flow, "239.129.0.0/16");
	flow = flow_to("ff05::", 9);
	flow.destination_bits = 16;
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(eq(int, memcmp(rule.mask.destination_mac, (uint8_t[6]){0xff, 0xff}, 6), 0));
	expect_text(&flow, "[ff05::/16]:9");
	flow = flow_to("10.0.0.0", 9);
	flow.destination_bits = 8;
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(eq(int, memcmp(rule.mask.destination_mac, whole, 6), 0), "to hosts, so to this one");
	flow = flow_to("0.0.0.0", 9);
	flow.destination_bits = 0;
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(eq(int, memcmp(rule.mask.destination_mac, open, 6), 0), "to hosts and groups");
	cr_expect(eq(int, rule.family, AF_INET));
}

Test(flow, all_and_multicast_are_rules_with_open_masks)
{
	static const struct flow_fields none;
	struct config_flow flow = {FLOW_DEFAULTS, .match = CONFIG_MATCH_ALL, .copy = true, .priority = 2};
	struct flow_rule rule;

	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(eq(int, memcmp(&rule.mask, &none, sizeof(none)), 0));
	expect_text(&flow, "all packets priority 2 copy");
	flow.match = CONFIG_MATCH_MULTICAST;
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(eq(u8, rule.mask.destination_mac[0], 1));
	cr_expect(eq(u8, rule.value.destination_mac[0], 1));
}

Test(flow, each_key_beyond_udp_is_named)
{
	struct config_flow flow = {FLOW_DEFAULTS, .has_source_mac = true, .source_mac = {2}};
	struct flow_rule rule;

	flow.ether_type = 0x88f7;
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(eq(u16, rule.value.ether_type_be, htons(0x88f7)));
	cr_expect(eq(u8, rule.mask.protocol, 0), "no IP header");
	cr_expect_str_eq(flow_rule_key_beyond_udp(&rule), "ether_type");
	expect_text(&flow, "ether_type 0x88f7 source_mac 02:00:00:00:00:00");
	flow = flow_to("10.0.0.1", 7);
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(eq(ptr, (void *)flow_rule_key_beyond_udp(&rule), NULL));
	flow.dscp = 46;
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect(eq(u8, rule.mask.traffic_class, 0xfc), "without the two bits of congestion");
	cr_expect(eq(u8, rule.value.traffic_class, 46 << 2));
	cr_expect_str_eq(flow_rule_key_beyond_udp(&rule), "dscp");
	flow.dscp = CONFIG_ANY;
	flow.protocol = IPPROTO_TCP;
	flow_resolve(&flow, interface_mac, &rule);
	cr_expect_str_eq(flow_rule_key_beyond_udp(&rule), "protocol");
	expect_text(&flow, "10.0.0.1:7 protocol 6");
}

static void expect_conflict(const struct config_flow *a, const struct config_flow *b, bool expected)
{
	char text_a[FLOW_TEXT_MAX], text_b[FLOW_TEXT_MAX];

	flow_describe(a, text_a, sizeof(text_a));
	flow_describe(b, text_b, sizeof(text_b));
	cr_expect(eq(int, flow_conflicts(a, b), expected), "%s and %s", text_a, text_b);
	cr_expect(eq(int, flow_conflicts(b, a), expected), "%s and %s", text_b, text_a);
}

Test(flow, a_prefix_and_what_is_in_it_need_priorities_or_a_copy)
{
	struct config_flow wide = flow_to("10.1.0.0", 0), narrow = flow_to("10.1.2.3", 7),
			   other = flow_to("10.2.0.1", 7);

	wide.destination_bits = 16;
	expect_conflict(&wide, &narrow, true);
	expect_conflict(&wide, &other, false);
	narrow.priority = 1;
	expect_conflict(&wide, &narrow, false);
	wide.priority = 1;
	expect_conflict(&wide, &narrow, true);
	wide.copy = true;
	expect_conflict(&wide, &narrow, false);
	narrow.copy = true;
	expect_conflict(&wide, &narrow, true);
	narrow = flow_to("fd00::1", 7);
	wide = flow_to("::", 7);
	wide.destination_bits = 0;
	expect_conflict(&wide, &narrow, true);
	expect_conflict(&wide, &other, false);
}

Test(flow, kinds_of_match_overlap_with_what_they_take)
{
	struct config_flow all = {FLOW_DEFAULTS, .match = CONFIG_MATCH_ALL}, multicast = all, rest = all;
	struct config_flow group = flow_to("239.1.2.3", 7), host = flow_to("10.0.0.1", 7);
	struct config_flow ptp = {FLOW_DEFAULTS}, udp = {FLOW_DEFAULTS, .destination_port = 7};

	ptp.ether_type = 0x88f7;
	multicast.match = CONFIG_MATCH_MULTICAST;
	rest.match = CONFIG_MATCH_DEFAULT;
	expect_conflict(&all, &host, true);
	expect_conflict(&all, &ptp, true);
	expect_conflict(&all, &rest, false);
	expect_conflict(&rest, &rest, true);
	expect_conflict(&multicast, &group, true);
	expect_conflict(&multicast, &rest, false);
	expect_conflict(&multicast, &host, false);
	host.destination_bits = 1;
	expect_conflict(&multicast, &host, false);
	host.destination.address[0] = 0;
	host.destination_bits = 0;
	expect_conflict(&multicast, &host, true);
	host = flow_to("10.0.0.1", 7);
	expect_conflict(&ptp, &udp, false);
	expect_conflict(&ptp, &ptp, true);
	expect_conflict(&udp, &host, true);
	expect_conflict(&udp, &group, true);
}

Test(flow, a_conflict_names_both_flows)
{
	struct config_flow flows[2] = {flow_to("10.0.0.0", 7), flow_to("10.0.0.1", 7)};
	struct failure failure = {0};

	flows[0].destination_bits = 8;
	flows[1].line = 9;
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), -EINVAL));
	cr_expect(strncmp(failure.text, "test.conf:9: stream 'second': this flow (10.0.0.1:7)", 52) == 0, "%s",
	          failure.text);
	cr_expect(strstr(failure.text, "stream 'first' at test.conf:7 (10.0.0.0/8:7)") != NULL, "%s", failure.text);
}

/* Of the first stream's flow, which takes a part of what the second takes. */
static void expect_side_by_side(enum config_backend first, enum config_backend second, uint32_t priority, bool copy,
                                bool expected)
{
	struct config_flow flows[2] = {flow_to("10.0.0.1", 7), {FLOW_DEFAULTS, .match = CONFIG_MATCH_ALL}};
	struct config_stream streams[2] = {
		{.name = "first", .interface = "eth0", .backend = first, .flows = flows, .n_flows = 1},
		{.name = "second",
	         .interface = "eth0",
	         .backend = second,
	         .flows = flows + 1,
	         .n_flows = 1,
	         .layout = CONFIG_LAYOUT_FRAME},
	};
	const struct config config = {.streams = streams, .n_streams = 2};
	struct failure failure = {0};

	flows[0].priority = priority;
	flows[0].copy = copy;
	flows[1].file = "test.conf";
	cr_expect(eq(int, flow_check(&config, &failure), expected ? 0 : -EINVAL), "%s and %s, %u: %s",
	          config_backend_name(first), config_backend_name(second), priority, failure.text);
	if (!expected && first != second)
		cr_expect(strstr(failure.text, "verbs has a packet before xdp") != NULL, "%s", failure.text);
}

Test(flow, what_one_backend_of_an_interface_takes_no_other_can_have)
{
	expect_side_by_side(CONFIG_BACKEND_VERBS, CONFIG_BACKEND_PACKET, 0, false, false);
	expect_side_by_side(CONFIG_BACKEND_VERBS, CONFIG_BACKEND_PACKET, 1, false, true);
	expect_side_by_side(CONFIG_BACKEND_VERBS, CONFIG_BACKEND_PACKET, 0, true, true);
	expect_side_by_side(CONFIG_BACKEND_XDP, CONFIG_BACKEND_PACKET, 0, false, false);
	expect_side_by_side(CONFIG_BACKEND_XDP, CONFIG_BACKEND_PACKET, 1, false, true);
	/* The wide flow has the packet before the narrow one, whatever that one's priority. */
	expect_side_by_side(CONFIG_BACKEND_PACKET, CONFIG_BACKEND_XDP, 1, false, false);
	expect_side_by_side(CONFIG_BACKEND_XDP, CONFIG_BACKEND_VERBS, 1, false, false);
	/* What auto becomes is not known here. */
	expect_side_by_side(CONFIG_BACKEND_AUTO, CONFIG_BACKEND_PACKET, 1, false, true);
	expect_side_by_side(CONFIG_BACKEND_AUTO, CONFIG_BACKEND_PACKET, 0, false, false);
	expect_side_by_side(CONFIG_BACKEND_AUTO, CONFIG_BACKEND_VERBS, 1, false, false);
	expect_side_by_side(CONFIG_BACKEND_AUTO, CONFIG_BACKEND_AUTO, 1, false, true);
}

Test(flow, a_stream_does_not_copy_what_it_takes)
{
	struct config_flow flows[2] = {flow_to("10.0.0.1", 7), flow_to("10.0.0.1", 7)};
	struct failure failure = {0};

	flows[1].copy = true;
	cr_expect(eq(int, check(flows, 2, 0, "", &failure), -EINVAL));
	cr_expect(eq(int, check(flows, 1, 1, "eth0", &failure), 0), "%s", failure.text);
}

Test(flow, without_one_layout_the_key_is_named)
{
	struct config_flow flow = flow_to("10.0.0.1", 7);
	struct failure failure = {0};

	flow.vlan = CONFIG_VLAN_ANY;
	cr_expect(eq(int, check(&flow, 1, 0, "", &failure), -EINVAL));
	cr_expect(strstr(failure.text, "with vlan = ") != NULL, "%s", failure.text);
	flow.vlan = 5;
	cr_expect(eq(int, check(&flow, 1, 0, "", &failure), 0));
	flow = (struct config_flow){FLOW_DEFAULTS, .destination_port = 7, .file = "f"};
	cr_expect(eq(int, check(&flow, 1, 0, "", &failure), -EINVAL));
	cr_expect(strstr(failure.text, "takes IPv4 and IPv6") != NULL, "%s", failure.text);
	flow.ether_type = 0x86dd;
	cr_expect(eq(int, check(&flow, 1, 0, "", &failure), 0), "EtherType says the family: %s", failure.text);
}
