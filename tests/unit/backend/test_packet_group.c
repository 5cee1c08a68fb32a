// SPDX-License-Identifier: Apache-2.0
/* Queues among which packets are shared out: by the kernel, or by the program. */
#include "tests/unit/backend/packet_kernel.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>

#define N         3
#define ADDRESSES (BACKEND_HASH_SOURCE | BACKEND_HASH_DESTINATION)

static struct af_packet backend;
static struct backend_queue *queues[N], *alone, *group;
static struct failure failure;

static const struct backend_group_options of_group = {
	.queues = queues, .n_queues = N, .fields = ADDRESSES | BACKEND_HASH_PORTS};

static void set_up(void)
{
	const struct backend_queue_options options = packet_queue_options();

	set_up_kernel();
	make_packet_backend(&backend);
	make_packet_queues(&backend, &options, queues, N);
	make_packet_queues(&backend, &options, &alone, 1);
	cr_assert(eq(int, af_packet_create_group(&backend.base, &of_group, &group, &failure), 0));
	kernel_forget_calls();
	failure = (struct failure){0};
}

static void tear_down(void)
{
	end_test_of(&backend);
	while (backend.flows)
		af_packet_remove_flow(&backend.flows->base);
	if (group)
		group->ops->destroy_queue(group);
	while (backend.queues)
		af_packet_receive_free(&backend.queues->queue.base);
}

TestSuite(packet_group, .init = set_up, .fini = tear_down);

static int fd_of(const struct backend_queue *queue)
{
	return af_packet_receive(queue)->queue.fd;
}

static struct flow_rule copy_rule(uint16_t port)
{
	struct flow_rule rule = packet_rule(1, port);

	rule.copy = true;
	return rule;
}

static int add(struct backend_queue *to, uint16_t port, struct backend_flow **flow)
{
	const struct flow_rule rule = copy_rule(port);

	return af_packet_add_flow(to, &rule, flow, &failure);
}

Test(packet_group, the_first_flow_makes_the_sockets_a_group_in_the_order_of_the_queues)
{
	struct backend_flow *flow;

	cr_assert(eq(int, add(group, 7502, &flow), 0), "%s", failure.text);
	cr_expect(eq(ptr, (void *)flow->queue, (void *)group));
	cr_assert(eq(int, kernel_count(-1, PACKET_FANOUT), N));
	for (int i = 0; i < N; i++) {
		const struct kernel_call *call = kernel_find(-1, PACKET_FANOUT, i);

		cr_expect(eq(int, call->level, SOL_PACKET));
		cr_expect(eq(int, call->fd, fd_of(queues[i])));
		cr_expect(eq(int, call->value,
		             i ? 4711 : (int)((PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_UNIQUEID) << 16)));
	}
	cr_assert(eq(int, add(group, 7503, &flow), 0));
	cr_expect(eq(int, kernel_count(-1, PACKET_FANOUT), N), "once");
}

Test(packet_group, the_filter_of_each_member_refuses_what_this_host_sends)
{
	struct backend_flow *flow;
	int n_alone;

	cr_assert(eq(int, add(alone, 7500, &flow), 0));
	n_alone = kernel_find(fd_of(alone), SO_ATTACH_FILTER, 0)->filter_n;
	kernel_forget_calls();
	cr_assert(eq(int, add(group, 7502, &flow), 0));
	for (int i = 0; i < N; i++) {
		const struct kernel_call *call = kernel_find(fd_of(queues[i]), SO_ATTACH_FILTER, 0);

		cr_assert(ne(ptr, (void *)call, NULL));
		cr_expect(eq(int, call->filter_n, n_alone + 3));
		cr_expect(eq(u32, call->filter_begin[0].k, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)));
		cr_expect(eq(u32, call->filter_begin[1].k, PACKET_OUTGOING));
		cr_expect(eq(u8, call->filter_begin[1].jt, 0));
		cr_expect(eq(u8, call->filter_begin[1].jf, 1));
		cr_expect(eq(u32, call->filter_begin[2].k, 0));
		cr_expect(ne(uint, call->filter_begin[3].code, BPF_RET | BPF_K));
	}
	cr_expect(eq(int, kernel_count(fd_of(alone), SO_ATTACH_FILTER), 0));
}

static int add_number(uint32_t i, bool has_port)
{
	struct flow_rule rule = copy_rule((uint16_t)(1000 + i));
	struct backend_flow *flow;

	kernel_forget_calls();
	rule.value.destination[2] = (uint8_t)(i / 250);
	rule.value.destination[3] = (uint8_t)(i % 250);
	rule.value.protocol = (uint8_t)(i % 2 ? IPPROTO_TCP : IPPROTO_UDP);
	if (!has_port)
		rule.mask.destination_port_be = rule.value.destination_port_be = 0;
	return af_packet_add_flow(group, &rule, &flow, &failure);
}

/*
 * With each round one rule more is short, so that some filter is as long as the kernel takes but for those three
 * instructions. The kernel's part says if one is longer.
 */
Test(packet_group, a_filter_that_is_too_long_only_with_them_is_too_long)
{
	uint32_t i = 0;
	int r = 0;

	for (uint32_t round = 0; round < 8; round++) {
		while (r == 0)
			r = add_number(i++, true);
		cr_expect(eq(int, r, -E2BIG));
		for (int n = 0; n < 3; n++) {
			kernel_forget_calls();
			af_packet_remove_flow(&backend.flows->base);
		}
		r = add_number(i++, false);
		cr_assert(eq(int, r, 0));
	}
	while (backend.flows) {
		kernel_forget_calls();
		af_packet_remove_flow(&backend.flows->base);
	}
}

Test(packet_group, an_interface_that_is_down_is_named_and_the_rest_joins_later)
{
	struct backend_flow *flow;

	kernel.fail_setsockopt_of = PACKET_FANOUT;
	kernel.fail_setsockopt_after = 1;
	kernel.setsockopt_error = EINVAL;
	cr_expect(eq(int, add(group, 7502, &flow), -ENETDOWN));
	cr_expect(eq(int, failure.exit_code, EX_UNAVAILABLE));
	cr_expect(strstr(failure.text, "ip link set test0 up") != NULL, "%s", failure.text);
	cr_expect(eq(ptr, (void *)backend.flows, NULL));
	cr_expect(eq(int, kernel_count(-1, PACKET_FANOUT), 1));
	kernel.fail_setsockopt_of = 0;
	cr_expect(eq(int, add(group, 7502, &flow), 0));
	cr_expect(eq(int, kernel_count(-1, PACKET_FANOUT), N), "the first one is in it already");
	cr_expect(eq(int, kernel_count(fd_of(queues[0]), PACKET_FANOUT), 1));
}

Test(packet_group, another_failure_to_join_says_how_many_queues_there_are)
{
	struct backend_flow *flow;

	kernel.fail_setsockopt_of = PACKET_FANOUT;
	kernel.setsockopt_error = EPERM;
	cr_expect(eq(int, add(group, 7502, &flow), -EPERM));
	cr_expect(eq(int, failure.exit_code, EX_OSERR));
	cr_expect(strstr(failure.text, "out to 3 queues") != NULL, "%s", failure.text);
	kernel.fail_setsockopt_of = 0;
	kernel_fail_after(1); /* the first socket joins, and its number cannot be read */
	cr_expect(eq(int, add(group, 7502, &flow), -ENOMEM));
}

Test(packet_group, flows_of_one_stream_name_a_queue_all_of_them_or_none)
{
	struct backend_flow *flow, *unused;

	for (int i = 0; i < N; i++) {
		cr_assert(eq(int, add(queues[i], 7502, &flow), 0));
		cr_expect(eq(int, add(group, 7503, &unused), -ENOTSUP));
		cr_expect(strstr(failure.text, "has not a queue") != NULL, "%s", failure.text);
		cr_expect(eq(int, failure.exit_code, EX_CONFIG));
		cr_expect(eq(int, kernel_count(-1, PACKET_FANOUT), 0));
		af_packet_remove_flow(flow);
	}
	cr_assert(eq(int, add(group, 7503, &flow), 0));
	cr_expect(eq(int, add(queues[0], 7502, &unused), -ENOTSUP));
	cr_expect(strstr(failure.text, "has a queue") != NULL, "%s", failure.text);
	af_packet_remove_flow(flow);
	cr_expect(eq(int, add(queues[0], 7502, &unused), -ENOTSUP), "the sockets stay a group");
	cr_expect(eq(int, add(alone, 7502, &unused), 0), "a queue of another stream");
}

Test(packet_group, the_queues_count_and_the_group_does_not)
{
	uint64_t packets = 5;

	cr_expect(eq(int, group->ops->read_matched(group, &packets), 0));
	cr_expect(eq(u64, packets, 0));
	group->ops->destroy_queue(group);
	group = NULL;
	for (int i = 0; i < N; i++)
		cr_expect(eq(ptr, (void *)af_packet_receive(queues[i])->group, NULL));
}

Test(packet_group, without_memory_there_is_no_group)
{
	struct backend_queue *other = NULL;

	kernel_fail_after(0);
	cr_expect(eq(int, af_packet_create_group(&backend.base, &of_group, &other, &failure), -ENOMEM));
	cr_expect(eq(ptr, (void *)other, NULL));
}

Test(packet_group, without_a_program_the_hash_takes_the_ports)
{
	struct backend_group_options addresses_alone = of_group;
	struct backend_queue *other = NULL;

	addresses_alone.fields = ADDRESSES;
	group->ops->destroy_queue(group);
	group = NULL;
	cr_expect(eq(int, af_packet_create_group(&backend.base, &addresses_alone, &other, &failure), -ENOTSUP));
	cr_expect(strstr(failure.text, "hash_fields without the ports") != NULL, "%s", failure.text);
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(eq(ptr, (void *)other, NULL));
	for (int i = 0; i < N; i++)
		cr_expect(eq(ptr, (void *)af_packet_receive(queues[i])->group, NULL));
}

/* ---- with a program ---------------------------------------------------------------------------------- */

static struct backend_queue *placed[N], *group_of_placed;

static void set_up_placed(void)
{
	const struct backend_queue_options options = packet_queue_options();

	set_up_kernel();
	make_packet_backend(&backend);
	open_packet_fanout(&backend);
	for (int i = 0; i < N; i++)
		cr_assert(eq(int, af_packet_create_queue(&backend.base, &options, &placed[i], &failure), 0));
	failure = (struct failure){0};
}

static void tear_down_placed(void)
{
	if (group_of_placed)
		group_of_placed->ops->destroy_queue(group_of_placed);
	tear_down();
	close_packet_fanout(&backend);
}

TestSuite(packet_group_of_program, .init = set_up_placed, .fini = tear_down_placed);

static int create_of_placed(uint32_t fields)
{
	const struct backend_group_options options = {.queues = placed, .n_queues = N, .fields = fields};

	return af_packet_create_group(&backend.base, &options, &group_of_placed, &failure);
}

Test(packet_group_of_program, it_gets_the_indexes_and_whether_the_hash_takes_the_ports)
{
	for (int ports = 0; ports < 2; ports++) {
		cr_assert(eq(int, create_of_placed(ADDRESSES | (ports ? BACKEND_HASH_PORTS : 0)), 0));
		cr_assert(eq(u32, kernel.n_group_indexes, N));
		for (uint32_t i = 0; i < N; i++)
			cr_expect(eq(u32, kernel.group_indexes[i], af_packet_receive(placed[i])->fanout_index));
		cr_expect(eq(int, kernel.group_has_ports, ports));
		group_of_placed->ops->destroy_queue(group_of_placed);
	}
	group_of_placed = NULL;
}

/* The kernel shares nothing out: the sockets are in the interface's group already. */
Test(packet_group_of_program, flows_to_the_group_and_to_its_queues_are_the_programs)
{
	struct flow_rule shared = packet_rule(1, 7502), own = packet_rule(2, 7502);
	struct backend_flow *flow;

	cr_assert(eq(int, create_of_placed(ADDRESSES), 0));
	kernel_forget_calls();
	cr_assert(eq(int, af_packet_add_flow(group_of_placed, &shared, &flow, &failure), 0), "%s", failure.text);
	cr_assert(eq(int, af_packet_add_flow(placed[1], &own, &flow, &failure), 0), "both kinds: %s", failure.text);
	cr_expect(kernel_find_flow(&shared)->target.is_group);
	cr_expect(eq(u32, kernel_find_flow(&shared)->target.queue, af_packet_receive(placed[0])->fanout_index));
	cr_expect(not(kernel_find_flow(&own)->target.is_group));
	cr_expect(eq(u32, kernel_find_flow(&own)->target.queue, af_packet_receive(placed[1])->fanout_index));
	cr_expect(eq(int, kernel_count(-1, PACKET_FANOUT), 0));
	for (int i = 0; i < N; i++)
		cr_expect(eq(int, kernel_count(fd_of(placed[i]), SO_ATTACH_FILTER), 0));
}

Test(packet_group_of_program, one_that_it_refuses_is_none)
{
	kernel.program_group_result = -ENOMEM;
	cr_expect(eq(int, create_of_placed(BACKEND_HASH_PORTS), -ENOMEM));
	cr_expect(strstr(failure.text, "cannot share packets out") != NULL, "%s", failure.text);
	for (int i = 0; i < N; i++)
		cr_expect(eq(ptr, (void *)af_packet_receive(placed[i])->group, NULL));
}

Test(packet_group_of_program, queues_of_which_only_some_have_a_place_are_no_group)
{
	struct backend_queue_options options = packet_queue_options();

	af_packet_receive_free(placed[2]);
	options.copies = true;
	cr_assert(eq(int, af_packet_create_queue(&backend.base, &options, &placed[2], &failure), 0));
	cr_expect(eq(int, create_of_placed(BACKEND_HASH_PORTS), -E2BIG));
	cr_expect(strstr(failure.text, "more than 126 queues") != NULL, "%s", failure.text);
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
}
