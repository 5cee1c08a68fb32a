// SPDX-License-Identifier: Apache-2.0
/*
 * bench_live_send INTERFACE MAC ADDRESS PORT BYTES PACKETS RATE: the strongest sender that a veth pair has. The kernel
 * itself makes frames in batches and redirects them to the interface, as a network driver would (BPF_PROG_TEST_RUN with
 * BPF_F_TEST_XDP_LIVE_FRAMES): no system call and no socket buffer a packet. They arrive if the peer has an XDP program
 * or GRO. RATE is packets a second, 0: as fast as they go. One JSON line in the end.
 */
#include "lib/base/time.h"
#include "tests/bench/capture_peer.h"

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define HEADER_BYTES   (sizeof(struct ether_header) + sizeof(struct iphdr) + sizeof(struct udphdr))
#define PAYLOAD_MAX    3300 /* a live frame is one page, less what the kernel keeps in it */
#define SPINS_MAX      4000 /* that the verifier follows; some 20 ns each */
#define REDIRECT_INSNS 4
#define SOURCE_PORT    7501

struct frame {
	struct ether_header ether;
	struct iphdr ip;
	struct udphdr udp;
	uint8_t payload[PAYLOAD_MAX];
} __attribute__((packed));

#define INSN(operation, to, from, distance, value)                                                         \
	{                                                                                                  \
		.code = (operation), .dst_reg = (to), .src_reg = (from), .off = (distance), .imm = (value) \
	}

/* due: an array of one uint64_t, when the next frame may go. */
static int make_due(void)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
	uint32_t key = 0;
	uint64_t now_ns = time_monotonic_ns();
	long fd = peer_bpf(BPF_MAP_CREATE, &attr);
	union bpf_attr first = {.map_fd = (uint32_t)fd, .key = (uintptr_t)&key, .value = (uintptr_t)&now_ns};

	if (fd < 0 || peer_bpf(BPF_MAP_UPDATE_ELEM, &first) < 0)
		peer_die("BPF map");
	return (int)fd;
}

static int load_program(const struct bpf_insn *code, size_t n)
{
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_XDP,
		.insns = (uintptr_t)code,
		.insn_cnt = (uint32_t)n,
	};

	return peer_load_program(&attr);
}

/*
 * With a rate, each frame waits for its time in the program, because a call of the kernel takes long to set up:
 *     while (now() < *due && n_spins-- > 0) ;
 *     *due += interval_ns;
 * Then, as without a rate: return bpf_redirect(interface, 0);
 */
static int load_redirect(uint32_t interface, uint32_t interval_ns)
{
	const struct bpf_insn code[] = {
		INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, interval_ns ? make_due() : 0),
		{0},
		INSN(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 9, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_0, 0, 0),
		INSN(BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_7, BPF_REG_6, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_8, 0, 0, SPINS_MAX),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ktime_get_ns),
		INSN(BPF_JMP | BPF_JGE | BPF_X, BPF_REG_0, BPF_REG_7, 2, 0),
		INSN(BPF_ALU64 | BPF_SUB | BPF_K, BPF_REG_8, 0, 0, 1),
		INSN(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_8, 0, -4, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_7, 0, 0, (int32_t)interval_ns),
		INSN(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_6, BPF_REG_7, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, (int32_t)interface),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, 0),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	size_t n = sizeof(code) / sizeof(code[0]);

	return interval_ns ? load_program(code, n) : load_program(code + n - REDIRECT_INSNS, REDIRECT_INSNS);
}

static uint16_t ip_checksum(struct iphdr ip)
{
	uint16_t words[sizeof(ip) / 2];
	uint32_t sum = 0;

	memcpy(words, &ip, sizeof(words));
	for (unsigned i = 0; i < sizeof(words) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

/* A UDP datagram without a checksum. */
static void make_frame(struct frame *frame, char **words, uint16_t bytes)
{
	uint8_t *mac = frame->ether.ether_dhost;
	in_addr_t to;

	if (sscanf(words[1], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]) !=
	    6) {
		fprintf(stderr, "bench_live_send: %s: not a MAC address\n", words[1]);
		exit(EX_USAGE);
	}
	memcpy(frame->ether.ether_shost, "\x02\0\0\0\0\x02", ETH_ALEN);
	frame->ether.ether_type = htons(ETHERTYPE_IP);
	if (inet_pton(AF_INET, words[2], &to) != 1) {
		fprintf(stderr, "bench_live_send: %s: not an IPv4 address\n", words[2]);
		exit(EX_USAGE);
	}
	frame->ip = (struct iphdr){
		.version = 4,
		.ihl = 5,
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.daddr = to,
		.saddr = (to & htonl(0xffffff00)) | htonl(2), /* the other host of the /24 */
		.tot_len = htons((uint16_t)(sizeof(frame->ip) + sizeof(frame->udp) + bytes)),
	};
	frame->ip.check = ip_checksum(frame->ip);
	frame->udp = (struct udphdr){
		.source = htons(SOURCE_PORT),
		.dest = htons((uint16_t)peer_number(words[3], 1, UINT16_MAX)),
		.len = htons((uint16_t)(sizeof(frame->udp) + bytes)),
	};
	for (uint32_t i = 0; i < bytes; i++)
		frame->payload[i] = (uint8_t)i;
}

/*
 * Nanoseconds that it took, without those that the kernel takes to begin and to end, some 20 ms, and without those in
 * which another process ran.
 */
static uint64_t send_live(int program, const struct frame *frame, uint32_t bytes, uint32_t n)
{
	union bpf_attr attr = {.test = {
				       .prog_fd = (uint32_t)program,
				       .data_in = (uintptr_t)frame,
				       .data_size_in = (uint32_t)HEADER_BYTES + bytes,
				       .repeat = n,
				       .flags = BPF_F_TEST_XDP_LIVE_FRAMES,
			       }};

	if (peer_bpf(BPF_PROG_TEST_RUN, &attr) < 0)
		peer_die("cannot send live frames (Linux 5.18 and later can)");
	return (uint64_t)attr.test.duration * n;
}

int main(int argc, char **argv)
{
	static struct frame frame;
	uint32_t bytes, interface, n_packets, rate;
	int program;

	if (argc != 8) {
		fputs("usage: bench_live_send INTERFACE MAC ADDRESS PORT BYTES PACKETS RATE\n", stderr);
		return EX_USAGE;
	}
	bytes = (uint32_t)peer_number(argv[5], 18, PAYLOAD_MAX);
	n_packets = (uint32_t)peer_number(argv[6], 1, 1000000000);
	rate = (uint32_t)peer_number(argv[7], 0, 1000000000);
	interface = if_nametoindex(argv[1]);
	if (!interface)
		peer_die(argv[1]);
	make_frame(&frame, &argv[1], (uint16_t)bytes);
	program = load_redirect(interface, rate ? 1000000000 / rate : 0);
	printf("{\"sent\": %u, \"seconds\": %.9f}\n", n_packets,
	       (double)send_live(program, &frame, bytes, n_packets) * 1e-9);
	return EXIT_SUCCESS;
}
