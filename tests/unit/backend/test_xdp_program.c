// SPDX-License-Identifier: Apache-2.0
/* The XDP program on a veth interface: what it takes, passes on and counts, and why it cannot be attached. */
#include "daemon/backend/bpf/bpf_load.h"
#include "daemon/backend/bpf/xdp_program.h"
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

#define N_STREAMS  2
#define N_CHANNELS 4

static const struct flow_rule any = {
	.family = AF_INET,
	.destination_mac = {0x02, 0, 0, 0, 0x0a, 0x01},
	.destination = {10, 0, 0, 1},
	.vlan = -1,
};

static struct xdp_program *program;
static struct failure failure;

static void set_up(void)
{
	enter_namespace();
	cr_assert(system("ip link set test1 up") == 0);
	int r = xdp_program_load("test0", N_STREAMS, N_CHANNELS, &program, &failure);
	if (r == -EPERM || r == -ENOSYS)
		cr_skip_test("this machine lets us load no BPF program");
	cr_assert(eq(int, r, 0), "%s", failure.text);
	cr_assert(eq(int, xdp_program_set_channels(program, 1), 0));
}

static void tear_down(void)
{
	xdp_program_free(program);
}

TestSuite(xdp_program, .init = set_up, .fini = tear_down);

static struct flow_rule to_port(uint16_t port)
{
	struct flow_rule rule = any;

	rule.destination_port_be = htons(port);
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
	for (int i = 0; i < n; i++)
		cr_assert(send(fd, frame, sizeof(frame), 0) == (ssize_t)sizeof(frame), "%s", strerror(errno));
	close(fd);
}

/* The counts of a stream as soon as they are that, or after a second. */
static void expect_counts(uint32_t stream, uint64_t matched, uint64_t no_socket)
{
	struct xdp_program_counts counts = {0};

	for (int ms = 0; ms < 1000 && counts.matched != matched; ms++) {
		cr_assert(eq(int, xdp_program_read_counts(program, stream, &counts), 0));
		poll(NULL, 0, 1);
	}
	cr_expect(eq(u64, counts.matched, matched));
	cr_expect(eq(u64, counts.no_socket, no_socket));
}

static void attach(void)
{
	cr_assert(eq(int, xdp_program_attach(program, if_nametoindex("test0"), &failure), 0), "%s", failure.text);
}

static int n_received(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	struct sockaddr_ll from;
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
	struct flow_rule rules[N_STREAMS] = {to_port(7502), to_port(7503)};
	int kernel;

	attach();
	kernel = open_packet_socket("test0");
	for (uint32_t i = 0; i < N_STREAMS; i++)
		cr_assert(eq(int, xdp_program_add_flow(program, i, &rules[i], &failure), 0), "%s", failure.text);
	send_frames(7502, 3);
	send_frames(7503, 4);
	send_frames(7504, 5);
	expect_counts(0, 3, 3);
	expect_counts(1, 4, 4);
	cr_expect(eq(int, n_received(kernel), 5));

	xdp_program_remove_flow(program, &rules[0]);
	send_frames(7502, 6);
	send_frames(7503, 1);
	expect_counts(1, 5, 5);
	expect_counts(0, 3, 3);
	cr_expect(eq(int, n_received(kernel), 6));
}
