// SPDX-License-Identifier: Apache-2.0
/* The XDP program on a veth interface: what it takes, passes on and counts, and why it cannot be attached. */
#include "daemon/backend/bpf/bpf_load.h"
#include "daemon/backend/bpf/flow_key.h"
#include "daemon/backend/bpf/packet_program.h"
#include "daemon/backend/bpf/xdp_program.h"
#include "daemon/net/net.h"
#include "tests/unit/backend/steering.h"
#include "tests/unit/net/namespace.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>

#define N_QUEUES      2
#define N_CARD_QUEUES 4

static const struct flow_rule any = {
	.family = AF_INET,
	.value = {.destination_mac = {0x02, 0, 0, 0, 0x0a, 0x01},
                  .destination = {10, 0, 0, 1},
                  .protocol = IPPROTO_UDP},
	.mask = FLOW_MASK_UDP_IPV4,
};

static struct xdp_program *program;
static struct failure failure;

static void set_up(void)
{
	enter_namespace();
	/* Without IPv6 the kernel sends nothing by itself, which a rule for all packets would count. */
	cr_assert(system("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 && ip link set test1 up") == 0);
	int r = xdp_program_load("test0", N_QUEUES, N_CARD_QUEUES, &program, &failure);
	if (r == -EPERM || r == -ENOSYS)
		cr_skip_test("this machine lets us load no BPF program");
	cr_assert(eq(int, r, 0), "%s", failure.text);
	cr_assert(eq(int, xdp_program_set_card_queues(program, 1), 0));
}

static void tear_down(void)
{
	xdp_program_free(program);
}

TestSuite(xdp_program, .init = set_up, .fini = tear_down);

static struct flow_rule to_port(uint16_t port)
{
	struct flow_rule rule = any;

	rule.value.destination_port_be = htons(port);
	return rule;
}

static int open_packet_socket(const char *interface)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(interface),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0);
	cr_assert(eq(int, bind(fd, (struct sockaddr *)&address, sizeof(address)), 0));
	return fd;
}

static void send_frames(uint16_t port, int n)
{
	uint8_t frame[60] = {0x02, 0, 0, 0, 0x0a, 0x01, [12] = 0x08, [14] = 0x45, [23] = 17, [30] = 10, [33] = 1};
	int fd = open_packet_socket("test1");

	frame[36] = (uint8_t)(port >> 8);
	frame[37] = (uint8_t)port;
	for (int i = 0; i < n; i++) {
		frame[35] = (uint8_t)i; /* the source port: a veth pair chooses the queue by it */
		cr_assert(send(fd, frame, sizeof(frame), 0) == (ssize_t)sizeof(frame), "%s", strerror(errno));
	}
	close(fd);
}

/* The counts of a queue as soon as they are that, or after a second. */
static void expect_counts(uint32_t queue, uint64_t matched, uint64_t no_socket)
{
	struct flow_counts counts = {0};

	for (int ms = 0; ms < 1000 && counts.matched != matched; ms++) {
		cr_assert(eq(int, xdp_program_read_counts(program, queue, &counts), 0));
		poll(NULL, 0, 1);
	}
	cr_expect(eq(u64, counts.matched, matched));
	cr_expect(eq(u64, counts.no_socket, no_socket));
}

static int add_flow(uint32_t queue, const struct flow_rule *rule, bool is_group)
{
	return flow_table_add(&program->table, rule, &(struct flow_target){.queue = queue, .is_group = is_group},
	                      &failure);
}

static void attach(void)
{
	cr_assert(eq(int, xdp_program_attach(program, if_nametoindex("test0"), &failure), 0), "%s", failure.text);
}

static int n_received(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	struct sockaddr_ll from = {0};
	char frame[128];
	int n = 0;

	while (poll(&ready, 1, 100) > 0) {
		socklen_t bytes = sizeof(from);

		if (recvfrom(fd, frame, sizeof(frame), 0, (struct sockaddr *)&from, &bytes) == 60)
			n += from.sll_pkttype != PACKET_OUTGOING;
	}
	return n;
}

Test(xdp_program, without_a_socket_a_streams_packets_are_dropped_and_counted_and_others_pass)
{
	struct flow_rule rules[N_QUEUES] = {to_port(7502), to_port(7503)};
	int kernel;

	attach();
	kernel = open_packet_socket("test0");
	for (uint32_t i = 0; i < N_QUEUES; i++)
		cr_assert(eq(int, add_flow(i, &rules[i], false), 0), "%s", failure.text);
	send_frames(7502, 3);
	send_frames(7503, 4);
	send_frames(7504, 5);
	expect_counts(0, 3, 3);
	expect_counts(1, 4, 4);
	cr_expect(eq(int, n_received(kernel), 5));

	flow_table_remove(&program->table, &rules[0]);
	send_frames(7502, 6);
	send_frames(7503, 1);
	expect_counts(1, 5, 5);
	expect_counts(0, 3, 3);
	cr_expect(eq(int, n_received(kernel), 6));
}

Test(xdp_program, of_two_rules_that_match_the_one_of_higher_priority_has_the_packet)
{
	struct flow_rule exact = to_port(7502), all = {.match = CONFIG_MATCH_ALL}, prefix = to_port(7503);

	prefix.value.destination[3] = prefix.mask.destination[3] = 0;
	prefix.priority = 1;
	attach();
	cr_assert(eq(int, add_flow(0, &exact, false), 0), "%s", failure.text);
	cr_assert(eq(int, add_flow(1, &prefix, false), 0), "%s", failure.text);
	all.priority = 2;
	cr_assert(eq(int, add_flow(1, &all, false), 0), "%s", failure.text);
	cr_expect(eq(int, add_flow(0, &all, false), -EEXIST), "%s", failure.text);
	send_frames(7502, 3);
	send_frames(7503, 4);
	expect_counts(1, 7, 7);
	flow_table_remove(&program->table, &all);
	send_frames(7502, 2);
	send_frames(7503, 1);
	expect_counts(1, 8, 8);
	expect_counts(0, 2, 2);
	exact.priority = 2;
	cr_assert(eq(int, add_flow(1, &exact, false), 0), "%s", failure.text);
	send_frames(7502, 5);
	expect_counts(1, 13, 13);
}

Test(xdp_program, has_room_for_a_number_of_rules_that_are_not_exact)
{
	struct flow_rule rule = to_port(1);
	int n = 0, r;

	rule.value.destination[3] = rule.mask.destination[3] = 0;
	do {
		rule.value.destination_port_be = htons((uint16_t)++n);
		r = add_flow(0, &rule, false);
	} while (r == 0);
	cr_expect(eq(int, r, -E2BIG));
	cr_expect(eq(int, n, 65), "%d", n);
	cr_expect(ne(ptr, strstr(failure.text, "and 64 others"), NULL), "%s", failure.text);
}

/* ---- groups -------------------------------------------------------------------------------------- */

static uint64_t matched_of(uint32_t queue)
{
	struct flow_counts counts;

	cr_assert(eq(int, xdp_program_read_counts(program, queue, &counts), 0));
	return counts.matched;
}

Test(xdp_program, a_hash_shares_the_packets_of_a_groups_flow_out_and_those_of_a_stream_stay_its_own)
{
	static const uint32_t members[N_QUEUES] = {1, 0}, too_large[] = {256};
	struct flow_rule shared = to_port(7502), own = to_port(7503);

	attach();
	cr_assert(eq(int, flow_table_set_group(&program->table, members, N_QUEUES, true), 0));
	cr_assert(eq(int, add_flow(1, &shared, true), 0), "%s", failure.text);
	cr_assert(eq(int, add_flow(1, &own, false), 0), "%s", failure.text);
	send_frames(7502, 100); /* each of another source port */
	for (int ms = 0; ms < 1000 && matched_of(0) + matched_of(1) < 100; ms++)
		poll(NULL, 0, 1);
	cr_expect(eq(u64, matched_of(0) + matched_of(1), 100));
	for (uint32_t i = 0; i < N_QUEUES; i++)
		cr_expect(gt(u64, matched_of(i), 20), "%u: %llu", i, (unsigned long long)matched_of(i));
	expect_counts(0, matched_of(0), matched_of(0));
	send_frames(7503, 50);
	expect_counts(1, 150 - matched_of(0), 150 - matched_of(0));

	/* By the addresses alone they have one home. */
	cr_assert(eq(int, flow_table_set_group(&program->table, members, N_QUEUES, false), 0));
	uint64_t before[N_QUEUES] = {matched_of(0), matched_of(1)};
	send_frames(7502, 50);
	for (int ms = 0; ms < 1000 && matched_of(0) + matched_of(1) < 200; ms++)
		poll(NULL, 0, 1);
	cr_expect(matched_of(0) == before[0] + 50 || matched_of(1) == before[1] + 50);
	cr_expect(eq(int, flow_table_set_group(&program->table, members, FLOW_GROUP_MAX + 1, true), -EINVAL));
	cr_expect(eq(int, flow_table_set_group(&program->table, too_large, 1, true), -ERANGE));
}

static struct flow_key key_of(uint8_t source, uint16_t source_port, uint8_t destination, uint16_t destination_port)
{
	return (struct flow_key){.source = {10, 0, 0, source},
	                         .destination = {10, 0, 0, destination},
	                         .source_port_be = source_port,
	                         .destination_port_be = destination_port,
	                         .protocol = FLOW_KEY_UDP};
}

Test(xdp_hash, is_that_of_both_directions_spreads_evenly_and_leaves_the_ports_of_fragments_out)
{
	struct flow_group group = {.has_ports = true};
	uint32_t n_of[FLOW_GROUP_MAX] = {0};

	for (uint32_t i = 0; i < FLOW_GROUP_MAX; i++)
		group.member_bytes[i / 8] |= (uint64_t)(i + 240) << i % 8 * 8;
	for (uint32_t n = 1; n <= FLOW_GROUP_MAX; n++) {
		memset(n_of, 0, sizeof(n_of));
		group.n_members = n;
		for (uint16_t port = 0; port < 1600; port++) {
			struct flow_key there = key_of(1, port, 2, 7502), back = key_of(2, 7502, 1, port);
			struct flow_key tcp = there, fragment = there, none = key_of(1, 0, 2, 0);
			uint32_t member = flow_group_choose(&group, &there);

			cr_assert(member >= 240 && member < 240 + n);
			n_of[member - 240]++;
			cr_assert(eq(u32, flow_group_choose(&group, &back), member));
			tcp.protocol = FLOW_KEY_TCP;
			fragment.fields = FLOW_KEY_FRAGMENT;
			cr_assert(eq(u32, flow_hash(&tcp, true), flow_hash(&none, true)));
			cr_assert(eq(u32, flow_hash(&fragment, true), flow_hash(&none, true)));
		}
		for (uint32_t i = 0; i < n; i++)
			cr_expect(n_of[i] > 1600 / n / 2 && n_of[i] < 1600 / n * 2, "%u of %u: %u", i, n, n_of[i]);
	}
	cr_expect(eq(u32, flow_hash(&(struct flow_key){0}, true), 0));
}

/* ---- the link ------------------------------------------------------------------------------------ */

/* The program that test0 has, or 0. */
static uint32_t attached_program(void)
{
	uint32_t id = 0;

	cr_assert(eq(int, bpf_xdp_query_id((int)if_nametoindex("test0"), 0, &id), 0));
	return id;
}

static bool program_exists(uint32_t id)
{
	int fd = bpf_prog_get_fd_by_id(id);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Programs at the tcx ingress of test0. */
static uint32_t n_tcx_programs(void)
{
	uint32_t n = 0;

	bpf_prog_query((int)if_nametoindex("test0"), (enum bpf_attach_type)46, 0, NULL, NULL, &n);
	return n;
}

static void attach_and_wait(int told)
{
	struct packet_program *drop;
	unsigned int index = if_nametoindex("test0");
	int r = packet_program_load("test0", true, &drop, NULL);

	if (r == 0)
		r = packet_program_attach_drop(drop, index, NULL);
	if ((r == 0 || r == -EOPNOTSUPP) && xdp_program_load("test0", 1, 1, &program, NULL) == 0 &&
	    xdp_program_attach(program, index, NULL) == 0 && write(told, r == 0 ? "t" : "-", 1) == 1)
		pause();
	_exit(1);
}

/* How many links have this program. */
static int n_links_of(uint32_t program_id)
{
	uint32_t id = 0;
	int n = 0;

	while (bpf_link_get_next_id(id, &id) == 0) {
		struct bpf_link_info info = {0};
		uint32_t bytes = sizeof(info);
		int fd = bpf_link_get_fd_by_id(id);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &bytes) == 0)
			n += info.prog_id == program_id;
		if (fd >= 0)
			close(fd);
	}
	return n;
}

Test(xdp_program, a_large_mtu_is_no_obstacle_and_detaching_leaves_nothing)
{
	uint32_t id;

	cr_assert(system("ip link set test0 mtu 9000 && ip link set test1 mtu 9000") == 0);
	attach();
	id = attached_program();
	cr_expect(id != 0);
	cr_expect(eq(int, n_links_of(id), 1));
	xdp_program_detach(program);
	cr_expect(eq(u32, attached_program(), 0));
	cr_expect(eq(int, n_links_of(id), 0));
}

Test(xdp_program, the_driver_leaves_vlan_tags_in_the_frames_while_it_is_attached)
{
	static const char is_on[] = "ethtool -k test0 | grep -q 'rx-vlan-offload: on'";

	cr_assert(eq(int, system(is_on), 0));
	attach();
	cr_expect(ne(int, system(is_on), 0));
	xdp_program_detach(program);
	cr_expect(eq(int, system(is_on), 0));

	/* One that the administrator switched off stays off. */
	cr_assert(eq(int, system("ethtool -K test0 rxvlan off"), 0));
	attach();
	xdp_program_detach(program);
	cr_expect(ne(int, system(is_on), 0));
}

Test(xdp_program, counts_and_flows_outlive_the_interface)
{
	struct flow_rule rule = to_port(7502);

	cr_assert(eq(int, add_flow(1, &rule, false), 0));
	attach();
	send_frames(7502, 3);
	expect_counts(1, 3, 3);
	cr_assert(system("ip link del test0 && ip link add test0 address " TEST_MAC
	                 " type veth peer name test1 && ip link set test0 up && ip link set test1 up") == 0);
	attach();
	send_frames(7502, 4);
	expect_counts(1, 7, 7);
}

Test(xdp_program, nothing_is_left_of_a_process_that_is_killed)
{
	int told[2];
	uint32_t id;
	pid_t child;
	char byte;

	/* No descriptor of the program may be in two processes. */
	xdp_program_free(program);
	program = NULL;
	cr_assert(eq(int, pipe(told), 0));
	child = fork();
	if (child == 0)
		attach_and_wait(told[1]);
	close(told[1]);
	cr_assert(read(told[0], &byte, 1) == 1);
	id = attached_program();
	cr_expect(id != 0 && program_exists(id));
	cr_expect(eq(u32, n_tcx_programs(), byte == 't'));
	cr_expect(eq(int, n_links_of(id), 1));
	cr_assert(eq(int, kill(child, SIGKILL), 0));
	cr_assert(eq(int, waitpid(child, NULL, 0), child));
	for (int ms = 0; ms < 5000 && (program_exists(id) || n_tcx_programs() > 0); ms++)
		poll(NULL, 0, 1);
	cr_expect(eq(u32, attached_program(), 0));
	cr_expect(eq(int, n_links_of(id), 0));
	cr_expect_not(program_exists(id));
	cr_expect(eq(u32, n_tcx_programs(), 0));
}

/* ---- card queues --------------------------------------------------------------------------------- */

Test(xdp_program, card_queues_that_come_later_run_the_program_once_it_knows_them)
{
	struct flow_rule rule = to_port(7502);
	struct flow_counts counts;

	cr_assert(system("ip link del test0 && ip link add test0 address " TEST_MAC
	                 " numrxqueues 4 numtxqueues 4 type veth peer name test1 numrxqueues 4 numtxqueues 4 && "
	                 "ethtool -L test0 rx 1 tx 1 && ethtool -L test1 rx 4 tx 1 && "
	                 "ip link set test0 up && ip link set test1 up") == 0);
	cr_assert(eq(int, add_flow(0, &rule, false), 0));
	attach();
	send_frames(7502, 64);
	expect_counts(0, 64, 64);

	cr_assert(system("ethtool -L test0 rx 4 && ethtool -L test1 tx 4") == 0);
	send_frames(7502, 64);
	poll(NULL, 0, 50);
	cr_assert(eq(int, xdp_program_read_counts(program, 0, &counts), 0));
	if (counts.matched == 128)
		cr_log_warn("this kernel runs the program on new queues");
	cr_assert(eq(int, xdp_program_set_card_queues(program, 4), 0));
	send_frames(7502, 64);
	expect_counts(0, counts.matched + 64, counts.matched + 64);
	cr_expect(eq(int, xdp_program_set_card_queues(program, N_CARD_QUEUES + 1), -EINVAL));
}

/* ---- refusals ------------------------------------------------------------------------------------ */

static void expect_refused(const char *interface, int error, const char *text)
{
	int r = xdp_program_attach(program, if_nametoindex(interface), &failure);

	cr_expect(eq(int, r, -error), "%s", strerror(-r));
	cr_expect(strstr(failure.text, text) != NULL, "%s", failure.text);
}

Test(xdp_program, a_flow_that_another_stream_has_is_refused)
{
	struct flow_rule rule = to_port(7502);

	cr_assert(eq(int, add_flow(0, &rule, false), 0));
	cr_expect(eq(int, add_flow(1, &rule, false), -EEXIST));
	cr_expect(strstr(failure.text, "test0: another stream has the flow 10.0.0.1:7502 already") != NULL, "%s",
	          failure.text);
}

Test(xdp_program, another_program_on_the_interface_is_named)
{
	struct xdp_program *other;
	char text[64];

	cr_assert(eq(int, xdp_program_load("test0", 1, 1, &other, &failure), 0), "%s", failure.text);
	cr_assert(eq(int, xdp_program_attach(other, if_nametoindex("test0"), &failure), 0), "%s", failure.text);
	cr_expect(eq(u32, net_xdp_program(if_nametoindex("test0")), attached_program()));
	snprintf(text, sizeof(text), "already (ID %u): ", attached_program());
	expect_refused("test0", EBUSY, text);
	expect_refused("test0", EBUSY, "'ip link set dev test0 xdp off'");
	xdp_program_free(other);
	attach();
}

Test(xdp_program, a_generic_program_on_the_interface_is_named)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = XDP_FLAGS_SKB_MODE);
	struct bpf_object *object;
	int link;

	cr_assert(eq(int, bpf_code_open(&bpf_code_xdp, &object, &failure), 0));
	cr_assert(eq(int, bpf_code_load(object, "test0", &failure), 0), "%s", failure.text);
	link = bpf_link_create(bpf_program__fd(bpf_object__find_program_by_name(object, "xdp_steer_a")),
	                       (int)if_nametoindex("test0"), BPF_XDP, &options);
	cr_assert(link >= 0, "%s", strerror(-link));
	expect_refused("test0", EEXIST, "'ip link set dev test0 xdpgeneric off'");
	close(link);
	bpf_object__close(object);
}

Test(xdp_program, an_interface_without_native_xdp_is_one_for_packet)
{
	expect_refused("lo", EOPNOTSUPP, "use backend = \"packet\"");
}

Test(xdp_program, an_interface_that_has_gone_is_an_error)
{
	cr_expect(eq(int, xdp_program_attach(program, 4711, &failure), -ENODEV));
}

Test(xdp_program, fewer_receive_queues_than_the_peer_sends_on_have_a_cure)
{
	cr_assert(system("ip link del test0 && ip link add test0 numrxqueues 4 type veth peer name test1 numtxqueues 4 "
	                 "&& ethtool -L test1 tx 4 && ethtool -L test0 rx 1") == 0);
	expect_refused("test0", ENOSPC, "'ethtool -L test0 rx N'");
	cr_assert(system("ethtool -L test0 rx 4") == 0);
	attach();
}

/* The verifier is stricter with a process that has no CAP_PERFMON. */
Test(xdp_program, the_capabilities_of_the_daemon_are_enough_for_all_programs)
{
	for (int with_perfmon = 0; with_perfmon < 2; with_perfmon++) {
		struct packet_program *of_packet = NULL;
		struct xdp_program *mine = NULL;
		int r;

		use_capabilities_of_daemon(with_perfmon);
		cr_expect(eq(int, xdp_program_load("test0", 1, 1, &mine, &failure), 0), "%s", failure.text);
		cr_assert(eq(int, packet_program_load("test0", true, &of_packet, &failure), 0), "%s", failure.text);
		r = packet_program_attach_drop(of_packet, if_nametoindex("test0"), &failure);
		cr_expect(r == 0 || r == -EOPNOTSUPP, "%s", failure.text);
		xdp_program_free(mine);
		packet_program_free(of_packet);
	}
}

Test(xdp_program, without_capabilities_the_ones_it_needs_are_named)
{
	struct xdp_program *mine = NULL;
	cap_t none = cap_init();

	cr_assert(none != NULL && cap_set_proc(none) == 0);
	cap_free(none);
	cr_expect(eq(int, xdp_program_load("test0", 1, 1, &mine, &failure), -EPERM), "%s", failure.text);
	cr_expect(strstr(failure.text, "CAP_BPF and CAP_NET_ADMIN are needed") != NULL, "%s", failure.text);
	cr_expect(eq(int, failure.exit_code, EX_NOPERM));
	/* What was loaded before can still be attached. */
	attach();
}

/* The card of a daemon without capabilities is unplugged, and back. */
Test(xdp_program, without_capabilities_a_program_of_before_takes_new_flows)
{
	struct packet_program *of_packet, *of_packet_again;
	struct xdp_program *mine, *again;
	struct flow_rule rule = to_port(7502);
	cap_t none = cap_init();

	cr_assert(eq(int, xdp_program_load("test1", 2, 2, &mine, &failure), 0), "%s", failure.text);
	cr_assert(eq(int, packet_program_load("test1", true, &of_packet, &failure), 0), "%s", failure.text);
	cr_expect(not(xdp_program_is_kept("test1")));
	cr_assert(none != NULL && cap_set_proc(none) == 0);
	cap_free(none);
	cr_assert(eq(int, xdp_program_attach(mine, if_nametoindex("test1"), &failure), 0), "%s", failure.text);
	xdp_program_free(mine);
	packet_program_free(of_packet);
	cr_expect(xdp_program_is_kept("test1") && packet_program_is_kept("test1"));
	cr_expect(eq(u32, net_xdp_program(if_nametoindex("test1")), 0));
	cr_expect(not(xdp_program_is_kept("test0")));

	cr_assert(eq(int, xdp_program_load("test1", 2, 2, &again, &failure), 0), "%s", failure.text);
	cr_expect(eq(ptr, again, mine));
	cr_expect(eq(int, xdp_program_attach(again, if_nametoindex("test1"), &failure), 0), "%s", failure.text);
	cr_expect(eq(int, xdp_program_set_card_queues(again, 2), 0));
	cr_expect(eq(int, flow_table_add(&again->table, &rule, &(struct flow_target){.queue = 1}, &failure), 0), "%s",
	          failure.text);
	cr_assert(eq(int, packet_program_load("test1", true, &of_packet_again, &failure), 0), "%s", failure.text);
	cr_expect(eq(ptr, of_packet_again, of_packet));
	cr_expect(eq(int, xdp_program_load("test1", 2, 2, &mine, &failure), -EPERM));
	xdp_program_free(again);
	packet_program_free(of_packet_again);
	/* More card queues than it has room for: it is of no use. */
	cr_expect(eq(int, xdp_program_load("test1", 2, 3, &mine, &failure), -EPERM));
	cr_expect(eq(int, packet_program_load("test1", false, &of_packet, &failure), -EPERM));
}
