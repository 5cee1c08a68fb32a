// SPDX-License-Identifier: Apache-2.0
/*
 * The packet backend's flows in the table of its program: the socket that they lead to, and when the kernel drops them.
 */
#include "tests/support/flows.h"
#include "tests/unit/backend/packet_kernel.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

static struct af_packet backend;
static struct backend_queue *queues[2], *tap; /* the tap is in no fanout group */
static struct failure failure;

static void set_up(void)
{
	struct backend_queue_options options = packet_queue_options();

	set_up_kernel();
	make_packet_backend(&backend);
	open_packet_fanout(&backend);
	options.flow_tags = true;
	make_packet_queues(&backend, &options, queues, 2);
	options.copies = true;
	cr_assert(eq(int, af_packet_create_queue(&backend.base, &options, &tap, &failure), 0));
	kernel_forget_calls();
	failure = (struct failure){0};
}

static void tear_down(void)
{
	clear_packet_backend(&backend);
	close_packet_fanout(&backend);
}

TestSuite(packet_table, .init = set_up, .fini = tear_down);

static struct backend_flow *must_add(struct backend_queue *queue, struct flow_rule rule)
{
	struct backend_flow *flow = NULL;

	cr_assert(eq(int, af_packet_add_flow(queue, &rule, &flow, &failure), 0), "%s", failure.text);
	return flow;
}

static int add(struct backend_queue *queue, struct flow_rule rule)
{
	struct backend_flow *flow;

	return af_packet_add_flow(queue, &rule, &flow, &failure);
}

static struct flow_rule copy_rule(uint8_t x, uint16_t port)
{
	struct flow_rule rule = packet_rule(x, port);

	rule.copy = true;
	return rule;
}

static const struct flow_rule leftover = {.match = CONFIG_MATCH_DEFAULT};

static int reader_of(const struct backend_flow *flow)
{
	return ((const struct af_packet_flow *)flow)->reader;
}

static uint32_t place_of(const struct backend_queue *queue)
{
	return af_packet_receive(queue)->fanout_index;
}

static void expect_in_table(struct flow_rule rule, uint32_t fanout_index, bool drops)
{
	const struct kernel_flow *flow = kernel_find_flow(&rule);

	cr_assert(ne(ptr, (void *)flow, NULL));
	cr_expect(eq(u32, flow->target.queue, fanout_index));
	cr_expect(eq(int, flow->target.drops, drops));
	cr_expect(not(flow->target.is_group));
}

/* ---- whose packets ---------------------------------------------------------------------------------- */

Test(packet_table, a_flow_leads_to_the_place_of_its_queue_and_no_filter_changes)
{
	struct backend_flow *flow = must_add(queues[0], packet_rule(1, 7502));

	must_add(queues[1], packet_rule(2, 7502));
	cr_expect(place_of(queues[0]) > 0 && place_of(queues[1]) > 0 && place_of(queues[0]) != place_of(queues[1]));
	expect_in_table(packet_rule(1, 7502), place_of(queues[0]), true);
	expect_in_table(packet_rule(2, 7502), place_of(queues[1]), true);
	af_packet_remove_flow(flow);
	cr_expect(eq(int, kernel.n_flows, 1));
	for (int i = 0; i < 2; i++)
		cr_expect(eq(int, kernel_count(af_packet_receive(queues[i])->queue.fd, SO_ATTACH_FILTER), 0));
}

Test(packet_table, what_a_flow_without_copy_of_a_tap_takes_leads_to_no_place)
{
	cr_assert(eq(u32, place_of(tap), 0));
	must_add(tap, packet_rule(1, 7502));
	must_add(tap, copy_rule(2, 7502));
	must_add(tap, leftover);
	expect_in_table(packet_rule(1, 7502), 0, true);
	cr_expect(eq(int, kernel.n_flows, 1), "all may have the packets of the others");
	cr_expect(eq(int, kernel_count(af_packet_receive(tap)->queue.fd, SO_ATTACH_FILTER), 3));
}

Test(packet_table, the_kernels_own_packets_come_before_the_leftover_ones_and_no_program_drops_either)
{
	struct flow_rule kernels = {.match = CONFIG_MATCH_DEFAULT};

	for (int i = 0; i < 2; i++) { /* the second flow finds the kernel's in the table */
		struct backend_flow *flow = must_add(queues[i], leftover);

		expect_in_table(leftover, place_of(queues[i]), false);
		cr_expect(eq(int, kernel.n_flows, 3));
		af_packet_remove_flow(flow);
	}
	memset(kernels.mask.destination_mac, 0xff, 6);
	memcpy(kernels.value.destination_mac, backend.mac, 6);
	expect_in_table(kernels, 0, false);
	memset(kernels.value.destination_mac, 0xff, 6);
	expect_in_table(kernels, 0, false);
}

/* The flow of a stream that is about to end. Its tag, copy and joins are the stream's own. */
Test(packet_table, of_two_equal_flows_the_newest_has_the_packets)
{
	for (int newest_goes_first = 0; newest_goes_first < 2; newest_goes_first++) {
		struct flow_rule rule = packet_rule(1, 7502), other = packet_rule(1, 7502);
		struct backend_flow *flows[2];

		other.tag = 4;
		other.reassembles = true;
		((uint8_t *)&other)[offsetof(struct flow_rule, fragments) + 1] ^= 1; /* no member */
		flows[0] = must_add(queues[0], rule);
		flows[1] = must_add(queues[1], other);
		cr_expect(eq(int, kernel.n_flows, 1));
		expect_in_table(other, place_of(queues[1]), true);
		af_packet_remove_flow(flows[newest_goes_first]);
		cr_expect(eq(int, kernel.n_flows, 1), "no frame finds none");
		expect_in_table(newest_goes_first ? rule : other, place_of(queues[!newest_goes_first]), true);
		af_packet_remove_flow(flows[!newest_goes_first]);
		cr_expect(eq(int, kernel.n_flows, 0));
	}
}

Test(packet_table, flows_of_other_priorities_are_not_equal)
{
	struct flow_rule higher = packet_rule(1, 7502);

	higher.priority = 1;
	must_add(queues[0], packet_rule(1, 7502));
	must_add(queues[1], higher);
	cr_expect(eq(int, kernel.n_flows, 2));
}

Test(packet_table, a_flow_without_room_in_the_table_fails_and_is_undone)
{
	struct flow_rule rule = packet_rule(1, 7502);

	rule.tag = 5;
	kernel.program_add_result = -E2BIG;
	cr_expect(eq(int, add(queues[0], rule), -E2BIG));
	cr_expect(eq(str, failure.text, (char *)"no room in the table"));
	cr_expect(eq(ptr, (void *)backend.flows, NULL));
	cr_expect(eq(int, add(queues[0], leftover), -E2BIG));
	cr_expect(eq(ptr, (void *)backend.flows, NULL));
	cr_expect(eq(str, (char *)kernel.log, (char *)""));
	kernel.program_add_result = 0;
	must_add(queues[1], rule);
	expect_in_table(rule, place_of(queues[1]), true);
}

/* ---- copies ----------------------------------------------------------------------------------------- */

/* The program gives a frame to one socket. */
Test(packet_table, a_copy_of_what_another_stream_has_needs_a_queue_that_was_made_for_copies)
{
	struct flow_rule wide = copy_rule(1, 7502);
	struct backend_flow *flow;

	wide.value.destination_port_be = wide.mask.destination_port_be = 0;
	flow = must_add(queues[0], packet_rule(1, 7502));
	cr_expect(eq(int, add(queues[1], wide), -EBUSY));
	cr_expect(strstr(failure.text, "began without copy = true") != NULL, "%s", failure.text);
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	must_add(queues[1], copy_rule(2, 7502)); /* others have nothing of it */
	expect_in_table(copy_rule(2, 7502), place_of(queues[1]), false);
	must_add(tap, wide);
	must_add(queues[0], wide); /* what it has in common is its own */
	cr_expect(eq(int, add(queues[1], packet_rule(1, 7504)), -EBUSY), "the other way round");
	af_packet_remove_flow(flow);
	cr_expect(eq(int, add(queues[1], wide), -EBUSY), "its copy has them, too");
}

/* ---- the drop --------------------------------------------------------------------------------------- */

Test(packet_table, a_flow_is_dropped_behind_the_socket_instead_of_a_reader)
{
	unsigned n_open = count_open_fds();

	cr_expect(lt(int, reader_of(must_add(queues[0], packet_rule(1, 7502))), 0));
	cr_expect(eq(uint, count_open_fds(), n_open));
	cr_expect(eq(str, (char *)kernel.log, (char *)""));
}

Test(packet_table, without_the_drop_a_flow_gets_a_reader)
{
	backend.drops = false;
	cr_expect(ge(int, reader_of(must_add(queues[0], packet_rule(1, 7502))), 0));
	expect_in_table(packet_rule(1, 7502), place_of(queues[0]), false);
}

Test(packet_table, a_program_that_reads_the_port_of_a_dropped_flow_is_told_of)
{
	kernel.bind_error = EACCES;
	must_add(queues[0], packet_rule(1, 80));
	cr_expect(eq(str, (char *)kernel.log, (char *)""));
	kernel.bind_error = EADDRINUSE;
	must_add(queues[0], packet_rule(1, 7502));
	cr_expect(strstr(kernel.log, "another program reads the port") != NULL, "%s", kernel.log);
	kernel.log[0] = 0;
	must_add(queues[0], (struct flow_rule){.match = CONFIG_MATCH_ALL, .priority = 1});
	cr_expect(eq(str, (char *)kernel.log, (char *)""), "it has no port");
}

Test(packet_table, a_tap_without_room_in_the_table_has_its_packets_and_a_reader)
{
	kernel.program_add_result = -E2BIG;
	cr_expect(ge(int, reader_of(must_add(tap, packet_rule(1, 7502))), 0));
	cr_expect(strstr(kernel.log, "no room in the table: the kernel handles its packets, too") != NULL, "%s",
	          kernel.log);
	af_packet_remove_flow(&backend.flows->base);
	cr_expect(eq(int, kernel.n_flows, 0));
}
