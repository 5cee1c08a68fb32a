// SPDX-License-Identifier: Apache-2.0
/* Which flow of several queues has a packet that more than one matches. */
#include "daemon/backend/packet/af_packet.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define N_FLOWS_MAX 8

static struct af_packet backend;
static struct af_packet_receive queues[2];
static struct af_packet_flow flows[N_FLOWS_MAX];
static size_t n_flows;

static void set_up(void)
{
	backend = (struct af_packet){.has_ethernet = true, .mac = {2}, .queues = &queues[0]};
	queues[0] = (struct af_packet_receive){.queue.backend = &backend, .next = &queues[1]};
	queues[1] = (struct af_packet_receive){.queue.backend = &backend};
	n_flows = 0;
}

TestSuite(af_packet_claims, .init = set_up);

/* Of UDP to 10.0.0.0 and so many bits, or of all packets. */
static void add(int queue, enum config_match match, int bits, uint32_t priority, bool copy)
{
	struct af_packet_flow *flow = &flows[n_flows++];

	*flow = (struct af_packet_flow){
		.base.queue = &queues[queue].queue.base,
		.next = backend.flows,
		.rule = {.match = match, .priority = priority, .copy = copy},
	};
	if (match == CONFIG_MATCH_RULE) {
		flow->rule.family = AF_INET;
		flow->rule.value.protocol = IPPROTO_UDP;
		flow->rule.mask.protocol = 0xff;
		flow->rule.value.destination[0] = 10;
		memset(flow->rule.mask.destination, 0xff, (size_t)bits / 8);
	}
	backend.flows = flow;
}

/* Does the queue take a packet of UDP from another station to 10.0.0.x, or to the interface's own MAC? */
static bool takes(int queue, uint8_t x, bool to_interface)
{
	struct flow_headers headers = {.key = {.destination = {10, 0, 0, x}, .ip_version = 4, .protocol = IPPROTO_UDP}};
	struct af_packet_claim *claims;
	int n = af_packet_claims_new(&queues[queue], &claims);
	bool taken = false;

	cr_assert(n >= 0);
	headers.key.destination_mac[0] = to_interface ? 2 : 6;
	for (int i = 0; i < n; i++) {
		if (!flow_condition_holds(&claims[i].condition, &headers))
			continue;
		taken = claims[i].takes == AF_PACKET_WHOLE_FRAME;
		break;
	}
	free(claims);
	return taken;
}

Test(af_packet_claims, a_flow_of_higher_priority_takes_packets_away)
{
	add(0, CONFIG_MATCH_ALL, 0, 0, false);
	cr_expect(takes(0, 0, true));
	add(1, CONFIG_MATCH_RULE, 32, 1, false);
	cr_expect(takes(1, 0, true));
	cr_expect_not(takes(0, 0, true));
	cr_expect(takes(0, 1, true));
	cr_expect(af_packet_claims_change_by(&queues[0], &flows[1].rule));
	cr_expect_not(af_packet_claims_change_by(&queues[1], &flows[0].rule));
}

Test(af_packet_claims, a_copy_takes_nothing_away)
{
	add(0, CONFIG_MATCH_RULE, 24, 0, false);
	add(1, CONFIG_MATCH_ALL, 0, 3, true);
	cr_expect(takes(0, 0, true));
	cr_expect(takes(1, 0, true));
	cr_expect_not(af_packet_claims_change_by(&queues[0], &flows[1].rule));
}

Test(af_packet_claims, a_copy_has_its_packets_before_a_flow_of_the_same_priority_only)
{
	add(0, CONFIG_MATCH_RULE, 24, 1, false);
	add(1, CONFIG_MATCH_ALL, 0, 1, true);
	cr_expect(takes(0, 0, true));
	cr_expect(takes(1, 0, true));
	flows[0].rule.priority = 2;
	cr_expect(takes(0, 0, true));
	cr_expect_not(takes(1, 0, true));
}

Test(af_packet_claims, of_its_own_flows_any_takes_a_packet)
{
	add(0, CONFIG_MATCH_RULE, 24, 0, false);
	add(0, CONFIG_MATCH_RULE, 32, 3, false);
	cr_expect(takes(0, 0, true));
	cr_expect(takes(0, 1, true));
	cr_expect_not(takes(1, 0, true));
}

Test(af_packet_claims, a_flow_of_a_group_is_of_all_its_queues)
{
	struct af_packet_group group = {.queue.backend = &backend, .members = {&queues[0], &queues[1]}, .n_members = 2};

	queues[0].group = queues[1].group = &group;
	add(0, CONFIG_MATCH_RULE, 32, 0, false);
	flows[0].base.queue = &group.queue.base;
	cr_expect(takes(0, 0, true));
	cr_expect(takes(1, 0, true));
	cr_expect_not(takes(1, 1, true));
}

Test(af_packet_claims, what_is_left_over_is_neither_a_flows_nor_the_interfaces)
{
	add(0, CONFIG_MATCH_DEFAULT, 0, 0, false);
	cr_expect(takes(0, 0, false));
	cr_expect_not(takes(0, 0, true));
	add(1, CONFIG_MATCH_RULE, 32, 0, false);
	cr_expect_not(takes(0, 0, false));
	cr_expect(takes(0, 1, false));
	flows[1].rule.copy = true;
	cr_expect(takes(0, 0, false));
}

Test(af_packet_claims, what_the_kernel_takes_for_itself_is_a_claim_once)
{
	struct af_packet_claim *claims;

	add(0, CONFIG_MATCH_DEFAULT, 0, 0, false);
	add(0, CONFIG_MATCH_DEFAULT, 0, 0, false);
	add(0, CONFIG_MATCH_RULE, 32, 0, false);
	cr_expect_eq(af_packet_claims_new(&queues[0], &claims), 5);
	cr_expect(claims[0].takes);
	cr_expect_not(claims[1].takes || claims[2].takes);
	cr_expect(claims[3].takes && claims[4].takes);
	free(claims);
}

Test(af_packet_claims, a_flow_takes_packets_of_the_lower_of_a_queues_flows_whatever_their_order)
{
	for (int order = 0; order < 2; order++) {
		set_up();
		add(0, CONFIG_MATCH_RULE, 24, order ? 3 : 0, false);
		add(0, CONFIG_MATCH_RULE, 24, order ? 0 : 3, false);
		flows[order].rule.mask.destination[0] = flows[order].rule.value.destination[0] = 0; /* the lower: any */
		flows[order].rule.mask.destination[1] = flows[order].rule.mask.destination[2] = 0;
		flows[!order].rule.value.destination[1] = 9; /* the higher: 10.9.0.0/24 */
		add(1, CONFIG_MATCH_RULE, 24, 1, false);
		cr_expect(takes(1, 0, true));
		cr_expect_not(takes(0, 0, true));
		cr_expect(af_packet_claims_change_by(&queues[0], &flows[2].rule));
	}
}

/* The other flow has its place among the claims because it is ahead of the queue's lower one. */
Test(af_packet_claims, of_two_flows_of_the_same_priority_each_queue_has_its_own)
{
	add(0, CONFIG_MATCH_RULE, 24, 0, false);
	add(0, CONFIG_MATCH_RULE, 32, 2, false);
	add(1, CONFIG_MATCH_RULE, 24, 2, false);
	cr_expect(takes(0, 0, true), "its own of the same priority");
	cr_expect_not(takes(0, 1, true), "only the lower one matches");
	cr_expect(takes(1, 0, true));
	cr_expect(takes(1, 1, true));
}

/* ---- of a group without a program ------------------------------------------------------------------- */

/* The index of the socket that gets a packet of UDP from another station to 10.0.0.x, or to the interface's own MAC. */
static uint32_t index_of(uint8_t x, bool to_interface)
{
	struct flow_headers headers = {.key = {.destination = {10, 0, 0, x}, .ip_version = 4, .protocol = IPPROTO_UDP}};
	struct af_packet_claim *claims;
	int n = af_packet_claims_of_group(&backend, &claims);
	uint32_t index = 0;

	cr_assert(n >= 0);
	headers.key.destination_mac[0] = to_interface ? 2 : 6;
	for (int i = n - 1; i >= 0; i--)
		if (flow_condition_holds(&claims[i].condition, &headers))
			index = claims[i].takes;
	free(claims);
	return index;
}

Test(af_packet_claims, of_a_group_each_flow_has_the_index_of_its_queue)
{
	queues[0].fanout_index = 5;
	queues[1].fanout_index = 3;
	cr_expect_eq(index_of(0, true), 0);
	add(0, CONFIG_MATCH_RULE, 24, 0, false);
	cr_expect_eq(index_of(0, true), 5);
	add(1, CONFIG_MATCH_RULE, 32, 1, false);
	cr_expect_eq(index_of(0, true), 3, "of higher priority");
	cr_expect_eq(index_of(1, true), 5);
	add(1, CONFIG_MATCH_DEFAULT, 0, 0, false);
	cr_expect_eq(index_of(1, false), 5);
	backend.flows = NULL;
	add(1, CONFIG_MATCH_DEFAULT, 0, 0, false);
	cr_expect_eq(index_of(0, false), 3);
	cr_expect_eq(index_of(0, true), 0, "the kernel's");
}

Test(af_packet_claims, of_a_group_a_flow_beside_it_is_none_and_others_of_that_queue_take_packets_away)
{
	queues[0].fanout_index = 5;
	add(0, CONFIG_MATCH_RULE, 24, 0, false);
	add(1, CONFIG_MATCH_RULE, 32, 3, true);
	add(1, CONFIG_MATCH_DEFAULT, 0, 0, false);
	cr_expect_eq(index_of(0, true), 5);
	flows[1].rule.copy = false;
	cr_expect_eq(index_of(0, true), 0);
	cr_expect_eq(index_of(1, true), 5);
}
