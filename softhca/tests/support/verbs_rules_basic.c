// SPDX-License-Identifier: Apache-2.0
/* Rules that belong to no other part: the port, capabilities, the order of a scatter list. */
#include "verbs_rules.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PORT   4160
#define PIECES 5

/* The frame's pieces land where the scatter list says, in its order, and nothing beside them is written. */
static const char *check_pieces(const uint8_t *memory, const struct ibv_sge *sge)
{
	const uint8_t *eth = (void *)(uintptr_t)sge[0].addr, *ip = (void *)(uintptr_t)sge[2].addr;
	const uint8_t *udp = (void *)(uintptr_t)sge[3].addr;

	EXPECT(eth[12] == 0x08 && eth[13] == 0x00, "the first piece is not the Ethernet header");
	EXPECT(ip[0] == 0x45 && ip[9] == 17, "the next piece with a length is not the IP header");
	EXPECT(udp[2] == PORT >> 8 && udp[3] == (PORT & 0xff), "the next one is not the UDP header");
	for (int i = 0; i < PIECES; i++)
		EXPECT(((uint8_t *)(uintptr_t)sge[i].addr)[sge[i].length] == 0xaa, "written behind a piece");
	EXPECT(memory[0] == 0xaa, "written before the first piece");
	return NULL;
}

static const char *sges_in_order(void)
{
	static const uint32_t bytes[PIECES] = {14, 0, 20, 8, 1000};
	static const struct queue_config config = {.depth = 8, .n_sge = PIECES, .payload_bytes = 8192};
	struct ibv_sge sge[PIECES];
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = PIECES}, *bad;
	struct ibv_poll_cq_attr attr = {};
	uint64_t end = now_ns() + 5000000000u;
	const char *seen;
	struct queue q;
	int r;

	queue_open(&q, &config);
	memset(q.payloads, 0xaa, 8192);
	/* Backwards through memory: the list's order counts, and not the addresses'. */
	for (int i = 0; i < PIECES; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)q.payloads + 1 + 1500u * (unsigned int)(PIECES - 1 - i), bytes[i],
		                          q.payload_mr->lkey};
	EXPECT_RETURNS(0, ibv_post_recv(q.qp, &wr, &bad));
	EXPECT_RETURNS(0, queue_add_udp_flow(&q, NULL, PORT, false));
	ask_for_frames(PORT, 1, 500);
	while ((r = ibv_start_poll(q.cq, &attr)) == ENOENT && now_ns() < end)
		;
	EXPECT(!r && !q.cq->status, "not received");
	EXPECT(ibv_wc_read_byte_len(q.cq) == 542, "byte_len is not the frame's length without FCS");
	ibv_end_poll(q.cq);
	seen = check_pieces(q.payloads, sge);
	queue_close(&q);
	return seen;
}

/* The netdev's MTU is 9000. */
static const char *port_mtu(void)
{
	struct ibv_port_attr port;

	EXPECT_RETURNS(0, ibv_query_port(shared_queue()->ctx, 1, &port));
	EXPECT(port.active_mtu == IBV_MTU_4096 && port.max_mtu == IBV_MTU_4096, "not 4096");
	EXPECT_RETURNS(EINVAL, ibv_query_port(shared_queue()->ctx, 2, &port));
	return NULL;
}

void drop_capability(int capability)
{
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &hdr, data))
		die("capget");
	data[0].effective &= ~(1u << capability);
	if (syscall(SYS_capset, &hdr, data))
		die("capset");
}

static const char *flow_needs_net_raw(void)
{
	struct queue *q = shared_queue();

	drop_capability(CAP_NET_RAW);
	EXPECT_RETURNS(EPERM, queue_add_udp_flow(q, NULL, PORT, false));
	return NULL;
}

const struct rule basic_rules[] = {
	{"recv-sges-in-order", "verbs-rules: Posting and polling", .check = sges_in_order},
	{"port-mtu-stops-at-4096", "verbs-rules: Finding the device", .check = port_mtu},
	{"flow-needs-net-raw", "ib_uverbs: ib_uverbs_ex_create_flow", .check = flow_needs_net_raw},
	{},
};
