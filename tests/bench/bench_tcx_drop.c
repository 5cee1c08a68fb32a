// SPDX-License-Identifier: Apache-2.0
/*
 * bench_tcx_drop INTERFACE PORT: until SIGTERM the kernel drops IPv4 UDP packets to PORT when all packet sockets have
 * seen them, as backend "packet" makes it do for its flows (a tcx link, Linux 6.6). It shows what that does for others.
 */
#include "tests/bench/capture_peer.h"

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <net/if.h>
#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

#define TCX_INGRESS 46 /* newer than Debian 12's headers */
#define UDP_PORT_AT 36 /* of a frame with an IP header without options */

/* return port of the frame == port ? TC_ACT_SHOT : TC_ACT_UNSPEC (go on); */
static int load_drop(uint16_t port)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_6, .src_reg = BPF_REG_1},
		{.code = BPF_LD | BPF_ABS | BPF_H, .imm = UDP_PORT_AT},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .off = 2, .imm = port},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = TC_ACT_UNSPEC},
		{.code = BPF_JMP | BPF_EXIT},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = TC_ACT_SHOT},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SCHED_CLS,
		.insns = (uintptr_t)code,
		.insn_cnt = sizeof(code) / sizeof(code[0]),
	};

	return peer_load_program(&attr);
}

int main(int argc, char **argv)
{
	union bpf_attr link = {.link_create = {.attach_type = TCX_INGRESS}};

	if (argc != 3) {
		fputs("usage: bench_tcx_drop INTERFACE PORT\n", stderr);
		return EX_USAGE;
	}
	link.link_create.target_ifindex = if_nametoindex(argv[1]);
	link.link_create.prog_fd = (uint32_t)load_drop((uint16_t)peer_number(argv[2], 1, UINT16_MAX));
	if (!link.link_create.target_ifindex || peer_bpf(BPF_LINK_CREATE, &link) < 0)
		peer_die(argv[1]);
	peer_ready();
	while (!peer_stopped())
		usleep(10000);
	return 0;
}
