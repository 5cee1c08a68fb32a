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
