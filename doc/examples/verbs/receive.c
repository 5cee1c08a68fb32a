// SPDX-License-Identifier: Apache-2.0
/*
 * receive DEVICE PORT N: take N frames of UDP to a port off Ethernet, without the kernel's network stack, and print
 * their length and first payload byte. The steps are those of every verbs program: memory, queue, post, rule, poll.
 *
 *     cc -o receive receive.c -libverbs
 *     softhca -i eth0 -- ./receive mlx5_0 7502 10       # on any interface
 *     ibv_launch ./receive mlx5_0 7502 10               # on a ConnectX, as a member of group ibvlaunch
 */
#include "example.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#define DEPTH        64
#define FRAME_BYTES  9216
#define HEADER_BYTES 42 /* Ethernet, IPv4, UDP */

static uint8_t memory[DEPTH][FRAME_BYTES];

/* The card writes the next frames to this row. */
static void post(struct ibv_qp *qp, const struct ibv_mr *mr, uint64_t row)
{
	struct ibv_sge piece = {.addr = (uintptr_t)memory[row], .length = FRAME_BYTES, .lkey = mr->lkey};
	struct ibv_recv_wr request = {.wr_id = row, .sg_list = &piece, .num_sge = 1}, *bad;

	errno = ibv_post_recv(qp, &request, &bad);
	check(errno == 0, "ibv_post_recv");
}

static void steer(struct ibv_qp *qp, uint16_t port)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth ethernet; /* a zero mask: any address */
		struct ibv_flow_spec_ipv4_ext ip;
		struct ibv_flow_spec_tcp_udp udp;
	} __attribute__((packed, aligned(8))) rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 3, .port = 1},
		.ethernet = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.ethernet)},
		.ip = {.type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof(rule.ip)},
		.udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(rule.udp)},
	};

	rule.udp.val.dst_port = htons(port);
	rule.udp.mask.dst_port = 0xffff;
	check(ibv_create_flow(qp, (void *)&rule) != NULL, "ibv_create_flow");
}

int main(int argc, char **argv)
{
	if (argc != 4)
		end_with_usage("receive DEVICE PORT N");
	uint16_t port = (uint16_t)read_number("PORT", argv[2], 1, 65535);
	unsigned n = read_number("N", argv[3], 1, UINT_MAX);
	struct ibv_context *context = open_device(argv[1]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_cq *cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {.send_cq = cq,
	                                .recv_cq = cq,
	                                .qp_type = IBV_QPT_RAW_PACKET,
	                                .cap = {.max_recv_wr = DEPTH, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_wc completion;

	check(pd && mr && cq && qp, "a queue for raw packets, which needs CAP_NET_RAW");
	check(!(errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT)), "ibv_modify_qp");
	attr.qp_state = IBV_QPS_RTR; /* ready to receive */
	check(!(errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE)), "ibv_modify_qp");
	for (uint64_t row = 0; row < DEPTH; row++)
		post(qp, mr, row);
	steer(qp, port);
	puts("ready");
	fflush(stdout);
	while (n > 0) {
		if (ibv_poll_cq(cq, 1, &completion) == 0)
			continue;
		check(completion.status == IBV_WC_SUCCESS, ibv_wc_status_str(completion.status));
		printf("%u bytes, payload begins with %02x\n", completion.byte_len,
		       memory[completion.wr_id][HEADER_BYTES]);
		post(qp, mr, completion.wr_id); /* it may be overwritten from now on */
		n--;
	}
	return 0; /* the end of the process frees all */
}
