// SPDX-License-Identifier: Apache-2.0
/*
 * The filters that find the packets of a flow take the same frames: the XDP program, run on each frame; the classic
 * filters of the packet backend and its programs, on a veth interface to which the frame is sent. The program that
 * chooses among packet sockets is there four times: as the verifier admits it with CAP_PERFMON and without; and by the
 * key alone and, as a condition makes it, by all headers.
 */
#include "daemon/backend/bpf/bpf_load.h"
#include "daemon/backend/bpf/flow_table.h"
#include "daemon/backend/bpf/packet_program.h"
#include "daemon/backend/packet/af_packet.h"
#include "tests/support/flow_frames.h"
#include "tests/support/frame_cases.h"
#include "tests/unit/backend/steering.h"
#include "tests/unit/net/namespace.h"

#include <bpf/bpf.h>
#include <criterion/new/assert.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MARKER_TYPE 0x88b5 /* for experiments */
#define N_STEERINGS 4

/* Of frames that the kernel gives to sockets bound to a type. It takes an outer tag of a VLAN or a provider out. */
static const uint16_t kernel_types[] = {ETH_P_IP,    ETH_P_IPV6, ETH_P_8021Q, ETH_P_8021AD,
                                        ETH_P_QINQ1, ETH_P_ARP,  ETH_P_1588};
#define N_KERNEL (sizeof(kernel_types) / sizeof(kernel_types[0]))

static const uint8_t mac[6] = {0x02, 0, 0, 0, 0x0a, 0x01}; /* TEST_MAC */

static struct failure failure;
static struct bpf_object *xdp;
static struct flow_table table;
static struct steering steerings[N_STEERINGS];
static int classic[2]; /* sockets of a group without a program, by index */
static bool drops;     /* the program of steerings[0] */
static int sender, tap, filtered, marker, kernel[N_KERNEL];

/* Frames of a veth pair stay in order on one CPU. */
static void stay_on_this_cpu(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	cr_assert(eq(int, sched_setaffinity(0, sizeof(cpus), &cpus), 0));
}

static void load_xdp(void)
{
	const struct flow_settings settings = {.max_card_queues = 1};
	int r = bpf_code_open(&bpf_code_xdp, &xdp, &failure);

	cr_assert(eq(int, r, 0), "%s", failure.text);
	cr_assert(eq(int, flow_table_size(xdp, 1), 0));
	r = bpf_code_load(xdp, "test0", &failure);
	if (r == -EPERM || r == -ENOSYS)
		cr_skip_test("this machine lets us load no BPF program");
	cr_assert(eq(int, r, 0), "%s", failure.text);
	cr_assert(eq(int, flow_table_init(&table, xdp, "test0", &settings), 0));
}

/* It matches no frame. */
static struct flow_rule rule_of_a_condition(void)
{
	struct flow_rule rule = {.priority = 1};

	rule.value.ether_type_be = htons(0x1234);
	rule.mask.ether_type_be = 0xffff;
	return rule;
}

static void open_classic(void)
{
	for (int i = 0; i < 2; i++)
		classic[i] = steering_open_socket("test0", ETH_P_ALL);
	steering_join(classic, PACKET_FANOUT_CBPF);
}

static void open_steerings(void)
{
	const struct flow_rule condition = rule_of_a_condition();
	int r;

	for (int i = 0; i < N_STEERINGS; i++) {
		steering_open(&steerings[i], "test0", i < 2);
		if (i % 2)
			steering_add(&steerings[i], &condition);
	}
	r = packet_program_attach_drop(steerings[0].program, if_nametoindex("test0"), &failure);
	drops = r == 0;
	if (r == -EOPNOTSUPP)
		cr_log_warn("without tcx: %s", failure.text);
	else
		cr_assert(eq(int, r, 0), "%s", failure.text);
}

static void set_up(void)
{
	enter_namespace();
	cr_assert(system("ip link set test1 up && sysctl -qw net.ipv6.conf.all.disable_ipv6=1") == 0);
	stay_on_this_cpu();
	load_xdp();
	sender = steering_open_socket("test1", MARKER_TYPE);
	tap = steering_open_socket("test0", ETH_P_ALL);
	filtered = steering_open_socket("test0", ETH_P_ALL);
	marker = steering_open_socket("test0", ETH_P_ALL);
	for (size_t i = 0; i < N_KERNEL; i++)
		kernel[i] = steering_open_socket("test0", kernel_types[i]);
	open_classic();
	open_steerings();
}

static void tear_down(void)
{
	for (int i = 0; i < N_STEERINGS; i++)
		packet_program_free(steerings[i].program);
	bpf_object__close(xdp);
}

TestSuite(flow_frames, .init = set_up, .fini = tear_down);

static bool xdp_takes(const char *twin, const uint8_t *bytes, size_t n_bytes)
{
	uint8_t after[FLOW_FRAME_BYTES_MAX + 64];
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = bytes, .data_size_in = (uint32_t)n_bytes, .data_out = after,
	            .data_size_out = sizeof(after), .repeat = 1);
	int r = bpf_prog_test_run_opts(bpf_program__fd(bpf_object__find_program_by_name(xdp, twin)), &options);

	cr_assert(eq(int, r, 0));
	cr_assert(options.retval == XDP_PASS || options.retval == XDP_DROP, "%u", options.retval);
	cr_assert(options.data_size_out == n_bytes && memcmp(after, bytes, n_bytes) == 0);
	return options.retval == XDP_DROP;
}

static bool is_marker(const uint8_t *frame)
{
	return frame[12] == MARKER_TYPE >> 8 && frame[13] == (MARKER_TYPE & 0xff);
}

/* Without markers. */
static int n_received(int fd)
{
	uint8_t frame[FLOW_FRAME_BYTES_MAX];
	int n = 0;

	while (recv(fd, frame, sizeof(frame), MSG_DONTWAIT) > 0)
		n += !is_marker(frame);
	return n;
}

static void set_filter(int fd, int level, int option, const struct flow_rule *rule, uint32_t takes)
{
	static struct sock_filter code[AF_PACKET_FILTER_MAX];
	const struct af_packet_claim claim = {flow_table_condition(rule, true), takes};
	int n = af_packet_filter_build(&claim, 1, true, level == SOL_PACKET ? ETH_HLEN : 0, code);
	struct sock_fprog filter = {.filter = code, .len = (unsigned short)n};

	cr_assert(eq(int, setsockopt(fd, level, option, &filter, sizeof(filter)), 0), "%s", strerror(errno));
}

/* The frame has been everywhere when the marker behind it arrives. */
static void send_frame(const uint8_t *bytes, size_t n_bytes)
{
	uint8_t behind[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, [12] = MARKER_TYPE >> 8, [13] = MARKER_TYPE & 0xff};
	struct pollfd arrives = {.fd = marker, .events = POLLIN};
	uint8_t frame[FLOW_FRAME_BYTES_MAX];

	cr_assert(send(sender, bytes, n_bytes, 0) == (ssize_t)n_bytes, "%s", strerror(errno));
	cr_assert(send(sender, behind, sizeof(behind), 0) == (ssize_t)sizeof(behind), "%s", strerror(errno));
	do {
		cr_assert(eq(int, poll(&arrives, 1, 10000), 1));
		cr_assert(recv(marker, frame, sizeof(frame), MSG_DONTWAIT) > 0);
	} while (!is_marker(frame));
}

/*
 * All filters have this rule and no other one. A rule that was in use before stays: a table waits for frames on their
 * way when a rule comes after one that went.
 */
static void use_rule(const struct flow_rule *rule)
{
	static struct flow_rule in_use;
	static bool is_used;
	const struct flow_condition before = flow_table_condition(&in_use, true),
				    wanted = flow_table_condition(rule, true);

	if (is_used && flow_table_rank(&in_use) == flow_table_rank(rule) &&
	    memcmp(&before, &wanted, sizeof(wanted)) == 0)
		return;
	if (is_used) {
		flow_table_remove(&table, &in_use);
		for (int i = 0; i < N_STEERINGS; i++)
			flow_table_remove(&steerings[i].program->table, &in_use);
	}
	set_filter(filtered, SOL_SOCKET, SO_ATTACH_FILTER, rule, AF_PACKET_WHOLE_FRAME);
	set_filter(classic[0], SOL_PACKET, PACKET_FANOUT_DATA, rule, 1);
	cr_assert(eq(int, flow_table_add(&table, rule, &(struct flow_target){0}, &failure), 0), "%s", failure.text);
	for (int i = 0; i < N_STEERINGS; i++)
		steering_add(&steerings[i], rule);
	in_use = *rule;
	is_used = true;
}

static bool is_for_kernel_sockets(const uint8_t *bytes)
{
	uint16_t type = frame_be16(bytes + 12);

	if (type == ETH_P_8021Q || type == ETH_P_8021AD)
		type = frame_be16(bytes + 16);
	for (size_t i = 0; i < N_KERNEL; i++)
		if (type == kernel_types[i])
			return true;
	return false;
}

/* The kernel drops a frame that ends within two bytes behind a VLAN tag before anybody has it. */
static void expect(const char *name, const uint8_t *bytes, size_t n_bytes, bool taken)
{
	int n_kernel = 0, n_tap;

	cr_expect(xdp_takes("xdp_steer_a", bytes, n_bytes) == taken, "XDP: %s, %zu bytes", name, n_bytes);
	cr_expect(xdp_takes("xdp_steer_b", bytes, n_bytes) == taken, "XDP's twin: %s, %zu bytes", name, n_bytes);
	send_frame(bytes, n_bytes);
	n_tap = n_received(tap);
	if (n_bytes >= ETH_HLEN + 6)
		cr_expect(eq(int, n_tap, 1), "tap: %s, %zu bytes", name, n_bytes);
	cr_expect(n_received(filtered) == (n_tap && taken), "classic filter: %s, %zu bytes", name, n_bytes);
	cr_expect(n_received(classic[1]) == (n_tap && taken), "filter of a group: %s, %zu bytes", name, n_bytes);
	cr_expect(n_received(classic[0]) == (n_tap && !taken), "filter of a group: %s, %zu bytes", name, n_bytes);
	for (int i = 0; i < N_STEERINGS; i++) {
		const int *fds = steerings[i].fds;

		cr_expect(n_received(fds[1]) == (n_tap && taken), "program %d: %s, %zu bytes", i, name, n_bytes);
		cr_expect(n_received(fds[0]) == (n_tap && !taken), "program %d: %s, %zu bytes", i, name, n_bytes);
	}
	for (size_t i = 0; i < N_KERNEL; i++)
		n_kernel += n_received(kernel[i]);
	if (n_tap && is_for_kernel_sockets(bytes))
		cr_expect(n_kernel == (drops ? !taken : 1), "tcx: %s, %zu bytes", name, n_bytes);
}

Test(flow_frames, each_filter_takes_what_the_table_says)
{
	for (unsigned int i = 0; i < n_flow_frames; i++) {
		struct flow_rule rule = flow_frame_rule(&flow_frames[i], mac);
		uint8_t bytes[FLOW_FRAME_BYTES_MAX];
		size_t needed, n_bytes = flow_frame_write(&flow_frames[i], mac, bytes, &needed);

		use_rule(&rule);
		expect(flow_frames[i].name, bytes, n_bytes, flow_frames[i].taken);
	}
}

Test(flow_frames, a_frame_that_ends_before_what_the_rule_asks_for_is_taken_by_none)
{
	for (unsigned int i = 0; i < n_flow_frames; i++) {
		struct flow_rule rule = flow_frame_rule(&flow_frames[i], mac);
		uint8_t bytes[FLOW_FRAME_BYTES_MAX];
		size_t needed, n_bytes = flow_frame_write(&flow_frames[i], mac, bytes, &needed);

		if (!flow_frames[i].taken)
			continue;
		use_rule(&rule);
		for (size_t n = ETH_HLEN; n <= n_bytes; n++)
			expect(flow_frames[i].name, bytes, n, n >= needed);
	}
}

/* The headers of all rows that a program walks are among these bytes. */
static void expect_case(const struct frame_case *row, void *context)
{
	const struct flow_frame exact = {.ipv6 = strstr(row->recipe, "v6") && row->frame.ip_version != 4};
	const struct flow_rule rule = flow_frame_rule(&exact, mac);
	size_t n = row->captured < FLOW_FRAME_BYTES_MAX ? row->captured : FLOW_FRAME_BYTES_MAX;

	(void)context;
	if (n < ETH_HLEN)
		return;
	use_rule(&rule);
	expect(row->recipe, row->bytes, n, frame_case_is_taken(row));
}

Test(flow_frames, each_filter_answers_as_the_table_of_all_walks)
{
	frame_cases_visit(TEST_DATA, expect_case, NULL);
}

/* ---- frames as the kernel may have them ----------------------------------------------------------------- */

/* Sockets of a group get them on kernels before 6.4. */
Test(flow_frames, the_program_gives_no_frame_that_this_host_sends_to_a_queue)
{
	const struct flow_frame exact = {.name = "of the flow"};
	const struct flow_rule rule = flow_frame_rule(&exact, mac);
	uint8_t bytes[FLOW_FRAME_BYTES_MAX];
	size_t needed, n_bytes = flow_frame_write(&exact, mac, bytes, &needed);
	int out = steering_open_socket("test0", MARKER_TYPE);

	use_rule(&rule);
	cr_assert(send(out, bytes, n_bytes, 0) == (ssize_t)n_bytes, "%s", strerror(errno));
	for (int i = 0; i < N_STEERINGS; i++) {
		cr_expect(eq(int, n_received(steerings[i].fds[0]), 1), "program %d", i);
		cr_expect(eq(int, n_received(steerings[i].fds[1]), 0), "program %d", i);
	}
	close(out);
}

/* A TAP interface, which leaves so many bytes of a long frame in its first piece. */
static int open_tap(void)
{
	struct ifreq request = {.ifr_name = "tap0", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		cr_skip_test("this machine has no TAP interfaces");
	cr_assert(eq(int, ioctl(fd, TUNSETIFF, &request), 0), "%s", strerror(errno));
	cr_assert(system("ip link set tap0 address " TEST_MAC " mtu 9000 up") == 0);
	return fd;
}

static void write_to_tap(int fd, const uint8_t *bytes, size_t n_bytes, uint16_t first_piece)
{
	static uint8_t frame[sizeof(struct virtio_net_hdr) + 8000];
	const struct virtio_net_hdr lengths = {.hdr_len = first_piece};

	memcpy(frame, &lengths, sizeof(lengths));
	memcpy(frame + sizeof(lengths), bytes, n_bytes);
	cr_assert(write(fd, frame, sizeof(frame)) == (ssize_t)sizeof(frame), "%s", strerror(errno));
}

static void expect_on_tap(const struct steering *steering, const struct flow_frame *frame, size_t first_piece)
{
	struct pollfd arrives[] = {{.fd = steering->fds[0], .events = POLLIN},
	                           {.fd = steering->fds[1], .events = POLLIN}};

	cr_assert(eq(int, poll(arrives, 2, 10000), 1));
	cr_expect(eq(int, n_received(steering->fds[1]), frame->taken), "%s, first piece of %zu bytes", frame->name,
	          first_piece);
	cr_expect(eq(int, n_received(steering->fds[0]), !frame->taken), "%s, first piece of %zu bytes", frame->name,
	          first_piece);
}

Test(flow_frames, the_headers_may_be_in_several_pieces)
{
	struct steering on_tap;
	int fd = open_tap();

	steering_open(&on_tap, "tap0", true);
	for (unsigned int i = 0; i < n_flow_frames; i += 7) {
		struct flow_rule rule = flow_frame_rule(&flow_frames[i], mac);
		uint8_t bytes[FLOW_FRAME_BYTES_MAX];
		size_t needed, n_bytes = flow_frame_write(&flow_frames[i], mac, bytes, &needed);

		steering_add(&on_tap, &rule);
		for (size_t first = ETH_HLEN; first <= needed + 2; first++) {
			write_to_tap(fd, bytes, n_bytes, (uint16_t)first);
			expect_on_tap(&on_tap, &flow_frames[i], first);
		}
		flow_table_remove(&on_tap.program->table, &rule);
	}
	packet_program_free(on_tap.program);
	close(fd);
}
