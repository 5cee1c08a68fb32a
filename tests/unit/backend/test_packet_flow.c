// SPDX-License-Identifier: Apache-2.0
/* Flows of the packet backend: whose filters change, what a failure undoes, what keeps packets from the kernel. */
#include "tests/support/flows.h"
#include "tests/unit/backend/packet_kernel.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static struct af_packet backend;
static struct backend_queue *queues[2];
static struct failure failure;

static void set_up(void)
{
	struct backend_queue_options options = packet_queue_options();

	set_up_kernel();
	make_packet_backend(&backend);
	options.flow_tags = true;
	make_packet_queues(&backend, &options, queues, 2);
	kernel_forget_calls();
	failure = (struct failure){0};
}

static void tear_down(void)
{
	clear_packet_backend(&backend);
}

TestSuite(packet_flow, .init = set_up, .fini = tear_down);

static int fd_of(int i)
{
	return af_packet_receive(queues[i])->queue.fd;
}

static int add(int i, struct flow_rule rule, struct backend_flow **flow)
{
	return af_packet_add_flow(queues[i], &rule, flow, &failure);
}

static struct backend_flow *must_add(int i, struct flow_rule rule)
{
	struct backend_flow *flow = NULL;

	cr_assert(eq(int, add(i, rule, &flow), 0), "%s", failure.text);
	cr_assert(ne(ptr, flow, NULL));
	cr_expect(eq(ptr, (void *)flow->queue, (void *)queues[i]));
	return flow;
}

/* So many filters were attached to the sockets of the queues since the last look. */
static void expect_filters(int of_first, int of_second)
{
	cr_expect(eq(int, kernel_count(fd_of(0), SO_ATTACH_FILTER), of_first));
	cr_expect(eq(int, kernel_count(fd_of(1), SO_ATTACH_FILTER), of_second));
	kernel_forget_calls();
}

static uint32_t tag_of(int i, uint16_t port)
{
	struct flow_headers headers = {.key = {.destination_mac = {2, 0, 0, 0, 0, 1},
	                                       .destination = {10, 0, 0, 1},
	                                       .ip_version = 4,
	                                       .protocol = IPPROTO_UDP,
	                                       .destination_port_be = htons(port)}};

	return flow_tags_find(af_packet_receive(queues[i])->tags, &headers);
}

static struct flow_rule copy_rule(uint16_t port)
{
	struct flow_rule rule = packet_rule(1, port);

	rule.copy = true; /* the kernel gets the packets: nothing but the filter counts */
	return rule;
}

/* ---- filters ---------------------------------------------------------------------------------------- */

Test(packet_flow, a_flow_changes_the_filter_of_its_own_queue)
{
	struct backend_flow *flow = must_add(0, copy_rule(7502));

	expect_filters(1, 0);
	af_packet_remove_flow(flow);
	expect_filters(1, 0);
	cr_expect(eq(ptr, (void *)backend.flows, NULL));
}

Test(packet_flow, a_flow_that_takes_packets_away_changes_the_other_filter_too)
{
	struct flow_rule wide = copy_rule(7502), narrow = packet_rule(1, 7502);
	struct backend_flow *flow;
	int n_before;

	wide.copy = false;
	wide.mask.destination_port_be = wide.value.destination_port_be = 0;
	narrow.priority = 1;
	must_add(0, wide);
	n_before = kernel_find(fd_of(0), SO_ATTACH_FILTER, 0)->filter_n;
	kernel_forget_calls();
	flow = must_add(1, narrow);
	cr_expect(gt(int, kernel_find(fd_of(0), SO_ATTACH_FILTER, 0)->filter_n, n_before));
	expect_filters(1, 1);
	af_packet_remove_flow(flow);
	cr_expect(eq(int, kernel_find(fd_of(0), SO_ATTACH_FILTER, 0)->filter_n, n_before));
	cr_expect(eq(int, kernel_find(fd_of(1), SO_ATTACH_FILTER, 0)->filter_n, 1), "it takes nothing");
	expect_filters(1, 1);
}

Test(packet_flow, packets_of_a_flow_have_its_tag_until_it_is_removed)
{
	struct flow_rule rule = copy_rule(7502);
	struct backend_flow *flow;

	rule.tag = 5;
	flow = must_add(0, rule);
	cr_expect(eq(u32, tag_of(0, 7502), 5));
	cr_expect(eq(u32, tag_of(1, 7502), 0));
	af_packet_remove_flow(flow);
	must_add(1, rule);
	cr_expect(eq(u32, tag_of(1, 7502), 5));
}

/* Each setsockopt() of a filter fails in turn. */
Test(packet_flow, a_flow_that_fails_is_undone)
{
	struct flow_rule wide = copy_rule(7502), narrow = packet_rule(1, 7502);
	struct backend_flow *flow = NULL;

	wide.copy = false;
	wide.mask.destination_port_be = wide.value.destination_port_be = 0;
	narrow.priority = 1;
	narrow.tag = 5;
	must_add(0, wide);
	for (int i = 0; i < 2; i++) {
		kernel_forget_calls();
		kernel.fail_setsockopt_of = SO_ATTACH_FILTER;
		kernel.fail_setsockopt_after = i;
		kernel.setsockopt_error = i ? ENOMEM : EPERM;
		cr_expect(eq(int, add(1, narrow, &flow), i ? -ENOMEM : -EPERM));
		kernel.fail_setsockopt_of = 0;
		cr_expect(eq(int, failure.exit_code, EX_UNAVAILABLE));
		cr_expect(strstr(failure.text, "test0: no filter for") != NULL, "%s", failure.text);
		cr_expect(eq(int, strstr(failure.text, "optmem_max") != NULL, i));
		cr_expect(eq(ptr, (void *)backend.flows->next, NULL), "the first flow alone is there");
		cr_expect(eq(ptr, (void *)flow, NULL));
	}
	kernel_forget_calls();
	must_add(1, narrow);
	expect_filters(1, 1);
}

Test(packet_flow, the_filters_of_a_flow_that_failed_are_those_of_before)
{
	struct flow_rule wide = packet_rule(1, 7502), narrow = packet_rule(1, 7502);
	struct backend_flow *flow = NULL;
	int n_before;

	wide.mask.destination_port_be = wide.value.destination_port_be = 0;
	narrow.priority = 1;
	must_add(0, wide);
	n_before = kernel_find(fd_of(0), SO_ATTACH_FILTER, 0)->filter_n;
	kernel_forget_calls();
	/* The flow, claims twice, code, its own filter; claims twice, code, and the filter of the other queue. */
	kernel_fail_after(8);
	cr_expect(eq(int, add(1, narrow, &flow), -ENOMEM));
	cr_assert(kernel_has_failed());
	cr_assert(eq(int, kernel_count(fd_of(1), SO_ATTACH_FILTER), 2));
	cr_expect(gt(int, kernel_find(fd_of(1), SO_ATTACH_FILTER, 0)->filter_n, 1));
	cr_expect(eq(int, kernel_find(fd_of(1), SO_ATTACH_FILTER, 1)->filter_n, 1));
	cr_assert(eq(int, kernel_count(fd_of(0), SO_ATTACH_FILTER), 1));
	cr_expect(eq(int, kernel_find(fd_of(0), SO_ATTACH_FILTER, 0)->filter_n, n_before));
}

Test(packet_flow, every_allocation_of_a_flow_may_fail)
{
	struct backend_flow *flow = NULL;

	for (int i = 0;; i++) {
		int r;

		kernel_fail_after(i);
		r = add(0, copy_rule(7502), &flow);
		if (r == 0)
			break;
		cr_assert(kernel_has_failed());
		cr_expect(eq(int, r, -ENOMEM), "call %d", i);
		cr_expect(eq(ptr, (void *)backend.flows, NULL));
		cr_expect(eq(ptr, (void *)flow, NULL));
		cr_expect(eq(u32, tag_of(0, 7502), 0));
		cr_assert(lt(int, i, 20));
	}
	cr_expect(ne(ptr, (void *)backend.flows, NULL));
}

Test(packet_flow, flows_that_are_too_many_for_one_filter_are_refused_with_a_cure)
{
	struct backend_flow *flow = NULL;
	int r = 0;

	for (uint32_t i = 0; i < 1000 && r == 0; i++) { /* no field is the same in all rules */
		struct flow_rule rule = copy_rule((uint16_t)(1000 + i));

		rule.family = AF_INET6;
		memset(rule.mask.destination, 0xff, 16);
		memset(rule.mask.source, 0xff, 16);
		for (int byte = 3; byte < 16; byte += 4)
			rule.value.source[byte] = rule.value.destination[byte] = (uint8_t)i;
		rule.value.destination[0] = (uint8_t)(i >> 8);
		kernel_forget_calls();
		r = add(0, rule, &flow);
	}
	cr_expect(eq(int, r, -E2BIG));
	cr_expect(strstr(failure.text, "put some of them into another stream") != NULL, "%s", failure.text);
	must_add(1, packet_rule(1, 7502));
}

/* ---- interfaces without Ethernet headers ---------------------------------------------------------------- */

static void expect_refused(struct flow_rule rule, const char *key)
{
	struct backend_flow *flow;
	char words[64];

	snprintf(words, sizeof(words), "take %s out", key);
	failure = (struct failure){0};
	cr_expect(eq(int, add(0, rule, &flow), -EPROTONOSUPPORT), "%s", key);
	cr_expect(strstr(failure.text, words) != NULL, "%s", failure.text);
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(eq(ptr, (void *)backend.flows, NULL));
	cr_expect(eq(int, kernel.n_calls, 0));
}

Test(packet_flow, what_no_packet_of_a_tunnel_has_is_refused_by_name)
{
	struct flow_rule rule = copy_rule(7502);

	backend.has_ethernet = false;
	rule.mask.source_mac[5] = 1;
	expect_refused(rule, "source_mac");
	rule = copy_rule(7502);
	rule.mask.vlan_be = htons(0x0fff);
	expect_refused(rule, "vlan");
	rule = copy_rule(7502);
	rule.mask.ether_type_be = 0xffff;
	expect_refused(rule, "ether_type");
	rule = copy_rule(7502);
	rule.match = CONFIG_MATCH_DEFAULT;
	expect_refused(rule, "match");
	rule.match = CONFIG_MATCH_MULTICAST;
	expect_refused(rule, "match");
	rule.match = CONFIG_MATCH_ALL;
	must_add(0, rule);
	must_add(0, copy_rule(7502));
}

/* ---- the reader: a UDP socket on the port of a flow -------------------------------------------------------- */

static int reader_of(const struct backend_flow *flow)
{
	return ((const struct af_packet_flow *)flow)->reader;
}

Test(packet_flow, the_port_of_a_unicast_flow_gets_a_reader_that_takes_nothing)
{
	struct backend_flow *flow = must_add(0, packet_rule(1, 7502));
	const struct sockaddr_in *address;
	int fd = reader_of(flow);
	unsigned n_open = count_open_fds();

	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, kernel_count(fd, SO_ATTACH_FILTER), 1));
	cr_expect(eq(int, kernel_find(fd, SO_ATTACH_FILTER, 0)->filter_n, 1));
	cr_expect(eq(u32, kernel_find(fd, SO_ATTACH_FILTER, 0)->filter_begin[0].k, 0));
	cr_expect(eq(uint, kernel_find(fd, SO_ATTACH_FILTER, 0)->filter_begin[0].code, BPF_RET | BPF_K));
	cr_assert(eq(int, kernel_count(fd, SO_BINDTODEVICE), 1));
	cr_expect(eq(str, (char *)kernel_find(fd, SO_BINDTODEVICE, 0)->text, (char *)"test0"));
	cr_assert(eq(int, kernel_count(fd, IP_FREEBIND), 1));
	cr_expect(eq(int, kernel_find(fd, IP_FREEBIND, 0)->level, SOL_IP));
	cr_expect(eq(int, kernel_find(fd, IP_FREEBIND, 0)->value, 1));
	address = (const struct sockaddr_in *)&kernel_find(fd, KERNEL_BIND, 0)->address;
	cr_expect(eq(u16, address->sin_family, AF_INET));
	cr_expect(eq(u16, address->sin_port, htons(7502)));
	cr_expect(eq(u32, address->sin_addr.s_addr, htonl(0x0a000001)));
	af_packet_remove_flow(flow);
	cr_expect(eq(uint, count_open_fds(), n_open - 1), "it goes with the flow");
}

Test(packet_flow, a_reader_of_ipv6_has_the_whole_address_and_the_interface_of_a_link_local_one)
{
	struct flow_rule rule = {.family = AF_INET6, .mask = FLOW_MASK_UDP_IPV6};
	const struct sockaddr_in6 *address;
	struct backend_flow *flow;

	for (int is_local = 0; is_local < 2; is_local++) {
		memset(rule.value.destination, 0, 16);
		memcpy(rule.value.destination, is_local ? "\xfe\x80" : "\xfd\x12", 2);
		rule.value.destination[15] = 9;
		rule.value.protocol = IPPROTO_UDP;
		rule.value.destination_port_be = htons(7502);
		flow = must_add(0, rule);
		cr_assert(ge(int, reader_of(flow), 0));
		cr_expect(eq(int, kernel_find(reader_of(flow), IPV6_FREEBIND, 0)->level, SOL_IPV6));
		address = (const struct sockaddr_in6 *)&kernel_find(reader_of(flow), KERNEL_BIND, 0)->address;
		cr_expect(eq(u16, address->sin6_family, AF_INET6));
		cr_expect(eq(u16, address->sin6_port, htons(7502)));
		cr_expect(eq(int, memcmp(&address->sin6_addr, rule.value.destination, 16), 0));
		cr_expect(eq(u32, address->sin6_scope_id, is_local ? 77 : 0));
		af_packet_remove_flow(flow);
		kernel_forget_calls();
	}
}

Test(packet_flow, other_flows_get_no_reader)
{
	struct flow_rule rule = packet_rule(1, 7502);

	rule.copy = true;
	cr_expect(lt(int, reader_of(must_add(0, rule)), 0), "a copy");
	rule = packet_rule(2, 7502);
	rule.value.destination_mac[0] |= 1;
	cr_expect(lt(int, reader_of(must_add(0, rule)), 0), "a group, or all stations");
	rule = packet_rule(3, 7502);
	rule.priority = 1;
	cr_expect(lt(int, reader_of(must_add(0, rule)), 0), "not one port alone");
	rule = (struct flow_rule){.match = CONFIG_MATCH_DEFAULT};
	cr_expect(lt(int, reader_of(must_add(0, rule)), 0), "what is left over");
}

Test(packet_flow, a_port_that_is_read_already_is_tried_again_when_a_flow_goes)
{
	struct backend_flow *one, *other;
	unsigned n_open = count_open_fds();

	one = must_add(0, packet_rule(1, 7502));
	kernel.bind_error = EADDRINUSE;
	other = must_add(1, packet_rule(1, 7502));
	cr_expect(lt(int, reader_of(other), 0));
	cr_expect(eq(uint, count_open_fds(), n_open + 1), "what could not be bound is closed");
	kernel.bind_error = 0;
	af_packet_remove_flow(one);
	cr_expect(ge(int, reader_of(other), 0));
	af_packet_remove_flow(other);
	cr_expect(eq(uint, count_open_fds(), n_open));
}

Test(packet_flow, a_reader_that_cannot_be_opened_is_no_failure)
{
	static const int names[] = {SO_BINDTODEVICE, IP_FREEBIND};
	unsigned n_open = count_open_fds();

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		kernel.fail_setsockopt_of = names[i];
		cr_expect(lt(int, reader_of(must_add(0, packet_rule((uint8_t)(i + 1), 7502))), 0));
		cr_expect(eq(uint, count_open_fds(), n_open));
	}
}
