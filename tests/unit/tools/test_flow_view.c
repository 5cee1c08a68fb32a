// SPDX-License-Identifier: Apache-2.0
/* Flows of a status, and which of their groups the kernel has joined: here, for this process in the daemon's place. */
#include "tools/status/status_view.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { ALL_HOSTS, OTHER_INTERFACE, NOT_JOINED, UNICAST, IPV6, N_FLOWS };

static struct ibvcap_status_stream streams[2] = {{.name = "a", .interface = "lo"}, {.name = "b", .interface = "eth7"}};
static struct ibvcap_status_flow flows[N_FLOWS] = {
	/* The kernel joins this group on every interface that is up, and on lo even if it is down. */
	[ALL_HOSTS] = {.stream = "a", .destination = "224.0.0.1", .destination_port = 1, .vlan = -1},
	[OTHER_INTERFACE] = {.stream = "b", .destination = "224.0.0.1", .destination_port = 1, .vlan = -1},
	[NOT_JOINED] = {.stream = "a", .destination = "239.77.6.5", .destination_port = 1, .vlan = -1},
	[UNICAST] = {.stream = "a", .destination = "127.0.0.1", .destination_port = 1, .vlan = -1},
	[IPV6] = {.stream = "a", .destination = "ff15::77:5", .destination_port = 1, .vlan = -1},
};
static enum flow_group groups[N_FLOWS];
static struct status_view view = {
	.streams = streams, .n_streams = 2, .flows = flows, .n_flows = N_FLOWS, .groups = groups};

/* This process has the daemon's number, and this name. */
static void find_groups_of(const char *name)
{
	view.daemon.pid = getpid();
	prctl(PR_SET_NAME, name);
	flow_view_find_groups(&view);
}

Test(flow_view, groups_are_joined_as_the_kernel_says_on_the_interface_of_their_stream)
{
	find_groups_of("ibvcapd");
	cr_expect_eq(groups[ALL_HOSTS], FLOW_GROUP_JOINED);
	cr_expect_eq(groups[OTHER_INTERFACE], FLOW_GROUP_NOT_JOINED);
	cr_expect_eq(groups[NOT_JOINED], FLOW_GROUP_NOT_JOINED);
	cr_expect_eq(groups[UNICAST], FLOW_GROUP_NONE);
	cr_expect_eq(groups[IPV6], FLOW_GROUP_NOT_JOINED);
	cr_expect(flow_view_lacks_group(&view, &streams[0]) && flow_view_lacks_group(&view, &streams[1]));
	flows[OTHER_INTERFACE].vlan = 5;
	flow_view_find_groups(&view);
	cr_expect_eq(groups[OTHER_INTERFACE], FLOW_GROUP_JOINED, "on the VLAN's interface, whatever its name is");
	cr_expect_not(flow_view_lacks_group(&view, &streams[1]));
}

Test(flow_view, a_process_that_only_has_the_daemons_number_is_not_asked)
{
	find_groups_of("bash");
	cr_expect_eq(groups[ALL_HOSTS], FLOW_GROUP_UNKNOWN);
	cr_expect_eq(groups[UNICAST], FLOW_GROUP_NONE);
	cr_expect_not(flow_view_lacks_group(&view, &streams[0]));
}
