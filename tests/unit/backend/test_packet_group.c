// SPDX-License-Identifier: Apache-2.0
/* Queues among which the kernel shares packets out, and how an interface is opened. */
#include "tests/unit/backend/packet_kernel.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/if_arp.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define N 3

static struct af_packet backend;
static struct backend_queue *queues[N], *alone, *group;
static struct failure failure;

static void set_up(void)
{
	const struct backend_queue_options options = packet_queue_options();
	const struct backend_group_options of_group = {.queues = queues, .n_queues = N};

	set_up_kernel();
	make_packet_backend(&backend);
	for (int i = 0; i < N; i++)
		cr_assert(eq(int, af_packet_create_queue(&backend.base, &options, &queues[i], &failure), 0));
	cr_assert(eq(int, af_packet_create_queue(&backend.base, &options, &alone, &failure), 0));
	cr_assert(eq(int, af_packet_create_group(&backend.base, &of_group, &group, &failure), 0));
	kernel_forget_calls();
	failure = (struct failure){0};
}

static void tear_down(void)
{
	kernel_fail_after(-1);
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

/* Rules of several lengths, so that some filter is as long as the kernel takes but for those three instructions. */
Test(packet_group, a_filter_that_is_too_long_only_with_them_is_too_long)
{
	for (uint32_t n_short = 0; n_short < 8; n_short++) {
		struct backend_flow *flow = NULL;
		int r = 0;

		for (uint32_t i = 0; r == 0; i++) {
			struct flow_rule rule = copy_rule((uint16_t)(1000 + i));

			kernel_forget_calls();
			rule.value.destination[2] = (uint8_t)(i / 250);
			rule.value.destination[3] = (uint8_t)(i % 250);
			rule.value.protocol = (uint8_t)(i % 2 ? IPPROTO_TCP : IPPROTO_UDP);
			if (i < n_short)
				rule.mask.destination_port_be = rule.value.destination_port_be = 0;
			r = af_packet_add_flow(group, &rule, &flow, &failure);
		}
		cr_expect(eq(int, r, -E2BIG));
		while (backend.flows) {
			kernel_forget_calls();
			af_packet_remove_flow(&backend.flows->base);
		}
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
	const struct backend_group_options of_group = {.queues = queues, .n_queues = N};
	struct backend_queue *other = NULL;

	kernel_fail_after(0);
	cr_expect(eq(int, af_packet_create_group(&backend.base, &of_group, &other, &failure), -ENOMEM));
	cr_expect(eq(ptr, (void *)other, NULL));
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static const struct backend_open_options open_options = {.interface = "test0"};

TestSuite(packet_open, .init = set_up_kernel);

static struct af_packet *must_open(struct backend_capabilities *capabilities)
{
	struct backend *opened = NULL;

	cr_assert(eq(int, af_packet_ops.open(&open_options, &opened, &failure), 0), "%s", failure.text);
	af_packet_ops.capabilities(opened, capabilities);
	return (struct af_packet *)opened;
}

Test(packet_open, an_interface_carries_ethernet_frames_or_bare_ip_packets)
{
	static const struct {
		unsigned type;
		int result; /* 1: with Ethernet headers */
	} types[] = {
		{ARPHRD_ETHER, 1},
		{ARPHRD_LOOPBACK, 1},
		{ARPHRD_NONE, 0},
		{ARPHRD_RAWIP, 0},
		{ARPHRD_PPP, 0},
		{ARPHRD_TUNNEL, 0},
		{ARPHRD_TUNNEL6, 0},
		{ARPHRD_SIT, 0},
		{ARPHRD_IPGRE, 0},
		{ARPHRD_IP6GRE, 0},
		{ARPHRD_INFINIBAND, -EPROTONOSUPPORT},
		{ARPHRD_CAN, -EPROTONOSUPPORT},
		{ARPHRD_IEEE80211_RADIOTAP, -EPROTONOSUPPORT},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct backend_capabilities capabilities;
		struct backend *opened = NULL;
		unsigned n_open = count_open_fds();
		int r;

		kernel.hardware_type = types[i].type;
		r = af_packet_ops.open(&open_options, &opened, &failure);
		cr_expect(eq(int, r, types[i].result < 0 ? types[i].result : 0), "type %u", types[i].type);
		cr_expect(eq(uint, count_open_fds(), n_open), "type %u", types[i].type);
		if (r < 0) {
			cr_expect(strstr(failure.text, "neither Ethernet frames nor bare IP") != NULL, "%s",
			          failure.text);
			continue;
		}
		af_packet_ops.capabilities(opened, &capabilities);
		cr_expect(eq(int, capabilities.no_vlans, !types[i].result));
		cr_expect(eq(int, capabilities.send_checksums, types[i].result));
		cr_expect(eq(str, capabilities.device, (char *)"test0"));
		cr_expect(eq(int, ((struct af_packet *)opened)->index, 77));
		cr_expect(eq(u8, ((struct af_packet *)opened)->mac[5], 12));
		af_packet_ops.close(opened);
	}
}

Test(packet_open, an_interface_that_cannot_be_asked_is_not_opened)
{
	static const unsigned long requests[] = {SIOCGIFHWADDR, SIOCGIFINDEX};

	for (int i = 0; i < 2; i++) {
		struct backend *opened = NULL;
		unsigned n_open = count_open_fds();

		kernel.fail_ioctl = requests[i];
		kernel.ioctl_error = ENODEV;
		cr_expect(eq(int, af_packet_ops.open(&open_options, &opened, &failure), -ENODEV));
		cr_expect(eq(int, failure.exit_code, EX_UNAVAILABLE));
		cr_expect(eq(ptr, (void *)opened, NULL));
		cr_expect(eq(uint, count_open_fds(), n_open));
	}
	kernel.fail_ioctl = 0;
	for (int i = 0; i < 2; i++) {
		struct backend *opened = NULL;

		kernel_fail_after(i);
		cr_expect(eq(int, af_packet_ops.open(&open_options, &opened, &failure), i ? -EMFILE : -ENOMEM));
	}
}

Test(packet_open, whether_the_kernel_handles_the_packets_too_is_said_with_the_reason)
{
	static const struct {
		int result;
		const char *words;
	} drops[] = {{0, "(tcx drop)"},
	             {-EPERM, "takes CAP_BPF and CAP_NET_ADMIN"},
	             {-EOPNOTSUPP, "takes Linux 6.6 or later"},
	             {-ENOMEM, "no tcx today"}};

	for (size_t i = 0; i < sizeof(drops) / sizeof(drops[0]); i++) {
		struct backend_capabilities capabilities;
		struct af_packet *opened;

		kernel.tcx_open_result = drops[i].result;
		kernel.n_tcx_closed = 0;
		opened = must_open(&capabilities);
		cr_expect(strstr(capabilities.how, drops[i].words) != NULL, "%s", capabilities.how);
		cr_expect(eq(int, opened->drop != NULL, i == 0));
		af_packet_ops.close(&opened->base);
		cr_expect(eq(int, kernel.n_tcx_closed, i == 0));
	}
}

Test(packet_open, its_capabilities_and_its_port)
{
	struct backend_port_statistics statistics;
	struct backend_capabilities capabilities;
	struct af_packet *opened = must_open(&capabilities);

	cr_expect(eq(ptr, (void *)opened->base.ops, (void *)&af_packet_ops));
	cr_expect(eq(u32, capabilities.max_queue_slots, 65536));
	cr_expect(eq(u32, capabilities.max_send_slots, 65536));
	cr_expect(eq(u32, capabilities.max_group_queues, CONFIG_QUEUES_MAX));
	cr_expect(capabilities.oversize_sink && capabilities.flow_tags && capabilities.counts_drops);
	cr_expect(capabilities.in_blocks);
	cr_expect(not(capabilities.toeplitz || capabilities.hashes_addresses));
	cr_expect(ge(u64, capabilities.settle_ns, 11000000), "a clock tick of the kernel, and the time of a block");
	cr_expect(eq(int, af_packet_ops.read_port(&opened->base, &statistics), 0));
	cr_expect(statistics.port_active);
	af_packet_ops.close(&opened->base);
}
