// SPDX-License-Identifier: Apache-2.0
/* Which backend "auto" takes, by every fact that decides; and the facts of interfaces that every kernel has. */
#include "daemon/backend/backend.h"
#include "daemon/backend/choice/choice.h"
#include "tests/unit/net/namespace.h"

#include <criterion/new/assert.h>
#include <string.h>

static const struct backend_choice_facts card = {
	.driver = "ice",
	.is_card = true,
	.native_xdp = BACKEND_CHOICE_XDP_NATIVE,
	.builds_xdp = true,
	.has_af_xdp = true,
	.has_bpf = true,
	.has_net_admin = true,
};

static void expect_choice(const struct backend_choice_facts *facts, const char *backend, const char *why,
                          const char *better)
{
	struct backend_choice choice;

	backend_choice_make(facts, &choice);
	cr_expect(strcmp(choice.backend, backend) == 0, "%s", choice.backend);
	cr_expect(strstr(choice.why, why) != NULL, "why: %s", choice.why);
	cr_expect(better ? strstr(choice.better, better) || strstr(choice.command, better) : !*choice.better,
	          "better: %s: %s", choice.better, choice.command);
	/* A command that the text cuts off is none. */
	cr_expect(strcmp(choice.command, "") == 0 || strstr(choice.command, "systemctl restart ibvcapd"), "%s",
	          choice.command);
}

#define CASE(test, backend, why, better, ...)                      \
	Test(choice, test)                                         \
	{                                                          \
		struct backend_choice_facts facts = card;          \
		__VA_ARGS__;                                       \
		expect_choice(&facts, (backend), (why), (better)); \
	}

CASE(a_card_with_native_xdp_has_xdp, "xdp", "its driver ice has native XDP", NULL, (void)0)
CASE(an_rdma_device_comes_first, "verbs", "an RDMA device is behind it", NULL, facts.has_rdma_device = true)
CASE(an_old_kernel_is_told_by_the_driver, "xdp", "ice should have native XDP", NULL,
     facts.native_xdp = BACKEND_CHOICE_XDP_LIKELY)
CASE(without_native_xdp_it_is_packet, "packet", "its driver ice has no native XDP", NULL,
     facts.native_xdp = BACKEND_CHOICE_XDP_NONE)
CASE(an_interface_without_a_driver_has_packet, "packet", "it has no driver with native XDP", NULL,
     facts.driver[0] = '\0')
CASE(a_flow_with_copy_has_packet, "packet", "flows with copy", NULL, facts.leaves_packets = true)
CASE(a_stream_that_wants_the_cards_time_has_packet, "packet", "timestamps = \"hardware\"", NULL,
     facts.wants_card_time = true)
CASE(an_rdma_device_has_a_time_of_its_own, "verbs", "an RDMA device", NULL,
     facts.has_rdma_device = facts.wants_card_time = true)
CASE(an_rdma_device_copies_by_itself, "verbs", "an RDMA device", NULL,
     facts.has_rdma_device = facts.leaves_packets = true)
CASE(veth_has_packet_although_it_has_native_xdp, "packet", "at least as fast as XDP on veth", NULL,
     facts.is_card = false;
     strcpy(facts.driver, "veth"))
CASE(a_missing_capability_is_named_with_its_cure, "packet", "the daemon lacks CAP_BPF", "xdp.conf",
     facts.has_bpf = false)
CASE(so_is_the_other, "packet", "the daemon lacks CAP_NET_ADMIN", "xdp.conf", facts.has_net_admin = false)
CASE(and_both, "packet", "lacks CAP_BPF and CAP_NET_ADMIN", "xdp.conf", facts.has_bpf = facts.has_net_admin = false)
CASE(rights_that_were_given_up_come_back_with_a_restart, "packet", "has given up since its start CAP_BPF",
     "systemctl restart ibvcapd", facts.has_bpf = false;
     facts.gave_up_rights = true)
CASE(without_af_xdp_the_cure_is_another_kernel, "packet", "no AF_XDP sockets", "CONFIG_XDP_SOCKETS",
     facts.has_af_xdp = false)
CASE(another_program_is_in_the_way, "packet", "an XDP program (ID 7) is attached to it already", "bpftool net",
     facts.xdp_program = 7)
CASE(packet_sockets_name_what_makes_a_packet_cheaper, "packet", "has no native XDP",
     "drops it behind the packet socket, which takes CAP_BPF", facts.native_xdp = BACKEND_CHOICE_XDP_NONE;
     facts.has_bpf = false; facts.has_tcx = true)
CASE(the_longest_advice_has_its_commands_in_full, "packet", "has no native XDP", "install -D",
     facts.native_xdp = BACKEND_CHOICE_XDP_NONE;
     facts.has_bpf = facts.has_net_admin = false; facts.has_tcx = true)
CASE(a_build_without_xdp_says_so, "packet", "this build has no backend xdp", NULL, facts.builds_xdp = false)

/* The kernel says that veth has native XDP since 6.3; before, the table does. */
TestSuite(choice_facts, .init = enter_namespace, .timeout = 30);

Test(choice_facts, of_a_veth_and_the_loopback_interface)
{
	struct backend_choice_facts facts;

	backend_choice_read("test0", &facts);
	cr_expect(strcmp(facts.driver, "veth") == 0, "%s", facts.driver);
	cr_expect(not(facts.is_card));
	cr_expect(facts.native_xdp != BACKEND_CHOICE_XDP_NONE);
	cr_expect(not(facts.has_rdma_device));
	cr_expect(eq(u32, facts.xdp_program, 0));
	facts.has_bpf = facts.has_net_admin = true;
	expect_choice(&facts, "packet", "veth", NULL);

	backend_choice_read("lo", &facts);
	cr_expect(strcmp(facts.driver, "") == 0, "%s", facts.driver);
	cr_expect(facts.native_xdp == BACKEND_CHOICE_XDP_NONE);
	facts.has_bpf = facts.has_net_admin = true;
	expect_choice(&facts, "packet", "no driver with native XDP", NULL);
}
