// SPDX-License-Identifier: Apache-2.0
/* In a network namespace of its own, which ends with the test's process. */
#include "daemon/net/net.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void enter_namespace(void)
{
	if (unshare(CLONE_NEWNET) < 0)
		cr_skip_test("a network namespace cannot be made here: %s", strerror(errno));
	cr_assert(eq(int, system("ip link add net0 mtu 9000 address 02:00:00:00:00:0a type veth peer name net1 && "
				 "ip link set net0 up && ip link set net1 up && ip address add 10.0.0.1/24 dev net0"),
		     0));
}

static bool file_has(const char *path, const char *text)
{
	char line[512];
	bool found = false;
	FILE *file = fopen(path, "r");

	cr_assert(file != NULL);
	while (fgets(line, sizeof(line), file))
		found |= strstr(line, text) != NULL;
	fclose(file);
	return found;
}

static struct flow_rule rule_to(const char *destination, const char *source)
{
	struct config_flow flow = { .destination_port = 1, .vlan = -1 };
	struct flow_rule rule;

	flow.destination.family = strchr(destination, ':') ? AF_INET6 : AF_INET;
	inet_pton(flow.destination.family, destination, flow.destination.address);
	if (source) {
		flow.source.family = flow.destination.family;
		inet_pton(flow.source.family, source, flow.source.address);
	}
	flow_resolve(&flow, (const uint8_t[6]){ 0 }, &rule);
	return rule;
}

static int join(struct membership *membership, const char *destination, const char *source, struct fault *fault)
{
	struct flow_rule rule = rule_to(destination, source);

	return membership_join(membership, if_nametoindex("net0"), &rule, fault);
}

Test(net, an_interface_is_what_ip_says)
{
	const uint8_t mac[6] = { 2, 0, 0, 0, 0, 10 };
	struct net_interface interface;
	struct fault fault;

	enter_namespace();
	cr_assert(eq(int, net_interface_read("net0", &interface, &fault), 0));
	cr_expect(eq(u32, interface.mtu, 9000));
	cr_expect(eq(int, memcmp(interface.mac, mac, 6), 0));
	cr_expect(interface.up && interface.running);
	cr_assert(eq(int, system("ip link set net1 down"), 0));
	cr_assert(eq(int, net_interface_read("net0", &interface, &fault), 0));
	cr_expect(interface.up && !interface.running);
}

Test(net, a_missing_interface_is_told_which_there_are)
{
	struct net_interface interface;
	struct fault fault;

	enter_namespace();
	cr_expect(eq(int, net_interface_read("gone0", &interface, &fault), -ENODEV));
	cr_expect(eq(int, fault.exit_code, EX_UNAVAILABLE));
	cr_expect(strstr(fault.text, "gone0") && strstr(fault.text, "lo") && strstr(fault.text, "net0"), "%s", fault.text);
}

Test(net, groups_are_joined_and_left)
{
	struct membership *membership;

	enter_namespace();
	cr_assert(eq(int, membership_new(&membership), 0));
	cr_expect(eq(int, join(membership, "239.1.2.3", NULL, NULL), 0));
	cr_expect(eq(int, join(membership, "239.1.2.3", NULL, NULL), 0), "two flows to one group");
	cr_expect(eq(int, join(membership, "ff05::1:2", NULL, NULL), 0));
	cr_expect(eq(int, join(membership, "10.0.0.1", NULL, NULL), 0), "nothing to do for a host");
	cr_expect(file_has("/proc/net/igmp", "030201EF"));
	cr_expect(file_has("/proc/net/igmp6", "ff050000000000000000000000010002"));
	membership_free(membership);
	cr_expect(not(file_has("/proc/net/igmp", "030201EF")));
	cr_expect(not(file_has("/proc/net/igmp6", "ff050000000000000000000000010002")));
}

Test(net, a_source_makes_a_source_specific_join)
{
	struct membership *membership;

	enter_namespace();
	cr_assert(eq(int, membership_new(&membership), 0));
	cr_expect(eq(int, join(membership, "232.1.2.3", "10.0.0.7", NULL), 0));
	cr_expect(eq(int, join(membership, "232.1.2.3", "10.0.0.8", NULL), 0));
	cr_expect(eq(int, join(membership, "232.1.2.3", "10.0.0.8", NULL), 0));
	cr_expect(file_has("/proc/net/mcfilter", "0xe8010203 0x0a000007"));
	cr_expect(file_has("/proc/net/mcfilter", "0xe8010203 0x0a000008"));
	cr_expect(eq(int, join(membership, "232.1.2.3", NULL, NULL), 0), "any source beside it: on a socket of its own");
	membership_free(membership);
}

Test(net, more_groups_than_a_socket_takes)
{
	struct membership *membership;
	struct fault fault = { 0 };

	enter_namespace();
	cr_assert(eq(int, membership_new(&membership), 0));
	for (unsigned i = 0; i < 100; i++) {
		char group[16];

		snprintf(group, sizeof(group), "239.7.0.%u", i);
		cr_assert(eq(int, join(membership, group, NULL, &fault), 0), "%s", fault.text);
	}
	cr_expect(file_has("/proc/net/igmp", "630007EF"));
	membership_free(membership);
}

Test(net, a_group_that_cannot_be_joined_says_why)
{
	struct membership *membership;
	struct flow_rule rule = rule_to("239.1.2.3", NULL);
	struct fault fault = { 0 };

	enter_namespace();
	cr_assert(eq(int, membership_new(&membership), 0));
	cr_expect(eq(int, membership_join(membership, 4711, &rule, &fault), -ENODEV));
	cr_expect(strstr(fault.text, "239.1.2.3:1") != NULL, "%s", fault.text);
	membership_free(membership);
}

Test(net, a_driver_without_that_statistic_is_said_to_have_none)
{
	uint64_t discards;

	enter_namespace();
	cr_expect(eq(int, net_port_discards("net0", &discards), -ENOTSUP));
	cr_expect(lt(int, net_port_discards("gone0", &discards), 0));
}
