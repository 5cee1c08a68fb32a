// SPDX-License-Identifier: Apache-2.0
/*
 * send DEVICE SOURCE_MAC DESTINATION_MAC SOURCE_IP DESTINATION_IP PORT N: send N frames of UDP with 64 bytes of
 * payload, each filled with its number, without the kernel's network stack. Build and run it with
 *
 *     cc -o send send.c -libverbs
 *     softhca -i eth0 -- ./send mlx5_0 02:00:00:00:00:01 02:00:00:00:00:02 10.0.0.1 10.0.0.2 7502 10
 *     ibv_launch ./send …                               # on a ConnectX, as a member of group ibvlaunch
 */
#include "example.h"

#include <errno.h>
#include <limits.h>
#include <netinet/ether.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>

#define DEPTH         64
#define PAYLOAD_BYTES 64

struct frame {
	struct ether_header ethernet;
	struct iphdr ip;
	struct udphdr udp;
	uint8_t payload[PAYLOAD_BYTES];
} __attribute__((packed));

static struct frame frames[DEPTH];

/* The headers, which all frames have. */
static void fill(struct frame *frame, char **argv)
{
	const uint8_t *bytes = (const uint8_t *)&frame->ip;
	uint32_t sum = 0;

	read_mac("SOURCE_MAC", argv[2], frame->ethernet.ether_shost);
	read_mac("DESTINATION_MAC", argv[3], frame->ethernet.ether_dhost);
	frame->ethernet.ether_type = htons(ETHERTYPE_IP);
	frame->ip = (struct iphdr){.version = 4,
	                           .ihl = 5,
	                           .ttl = 64,
	                           .protocol = IPPROTO_UDP,
	                           .tot_len = htons(sizeof(*frame) - sizeof(frame->ethernet)),
	                           .saddr = read_address("SOURCE_IP", argv[4]).s_addr,
	                           .daddr = read_address("DESTINATION_IP", argv[5]).s_addr};
	for (unsigned i = 0; i < sizeof(frame->ip); i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	frame->ip.check = htons((uint16_t) ~(sum % 0xffff));
	frame->udp = (struct udphdr){.source = htons(7501),
	                             .dest = htons((uint16_t)read_number("PORT", argv[6], 1, 65535)),
	                             .len = htons(sizeof(frame->udp) + PAYLOAD_BYTES)}; /* check 0: none */
}

int main(int argc, char **argv)
{
	struct frame headers;
	int n, n_posted = 0, n_sent = 0;

	if (argc != 8)
		end_with_usage("send DEVICE SOURCE_MAC DESTINATION_MAC SOURCE_IP DESTINATION_IP PORT N");
	fill(&headers, argv);
	n = (int)read_number("N", argv[7], 1, INT_MAX);
	struct ibv_context *context = open_device(argv[1]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, frames, sizeof(frames), 0);
	struct ibv_cq *cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {.send_cq = cq,
	                                .recv_cq = cq,
	                                .qp_type = IBV_QPT_RAW_PACKET,
	                                .cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
	                                .sq_sig_all = 1};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr = {.port_num = 1};
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}; /* ready to send */

	check(pd && mr && cq && qp, "a queue for raw packets, which needs CAP_NET_RAW");
	for (unsigned i = 0; i < 3; i++) {
		attr.qp_state = states[i];
		check(!(errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | (i ? 0 : IBV_QP_PORT))), "ibv_modify_qp");
	}
	while (n_sent < n) {
		struct ibv_wc completion;

		if (n_posted < n && n_posted - n_sent < DEPTH) {
			struct frame *frame = &frames[n_posted % DEPTH];
			struct ibv_sge piece = {.addr = (uintptr_t)frame, .length = sizeof(*frame), .lkey = mr->lkey};
			struct ibv_send_wr request = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

			*frame = headers;
			memset(frame->payload, n_posted++, PAYLOAD_BYTES);
			check(!(errno = ibv_post_send(qp, &request, &bad)), "ibv_post_send");
		} else if (ibv_poll_cq(cq, 1, &completion) > 0) {
			check(completion.status == IBV_WC_SUCCESS, ibv_wc_status_str(completion.status));
			n_sent++; /* its frame may be overwritten */
		}
	}
	printf("%d frames sent\n", n_sent);
	return 0; /* the end of the process frees all */
}
