// SPDX-License-Identifier: Apache-2.0
/* Rules of unusual ways through the queue pair's state machine, and of packet pacing. */
#include "verbs_rules.h"

static const struct queue_config both = {.depth = 8, .n_sge = 1, .payload_bytes = 2048, .send_depth = 256};

static int modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
	return ibv_modify_qp(qp, &attr, mask);
}

static int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	return modify(qp, (struct ibv_qp_attr){.qp_state = state, .port_num = 1}, IBV_QP_STATE);
}

static int query(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	return ibv_query_qp(qp, attr, IBV_QP_STATE, &init);
}

static const char *no_other_ways(struct queue *q)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_RTS};

	EXPECT_RETURNS(EINVAL, to_state(q->qp, IBV_QPS_SQD));
	EXPECT_RETURNS(EINVAL, to_state(q->qp, IBV_QPS_SQE));
	EXPECT_RETURNS(EINVAL, to_state(q->qp, IBV_QPS_RTR));
	EXPECT_RETURNS(EINVAL, modify(q->qp, attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
	EXPECT_RETURNS(0, to_state(q->qp, IBV_QPS_RTS));
	EXPECT_RETURNS(0, to_state(q->qp, IBV_QPS_RESET));
	EXPECT_RETURNS(EINVAL, to_state(q->qp, IBV_QPS_ERR));
	EXPECT_RETURNS(0, to_state(q->qp, IBV_QPS_RESET));
	return NULL;
}

static int post_send(struct queue *q, uint32_t bytes, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)q->payloads, bytes, lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	return ibv_post_send(q->qp, &wr, &bad);
}

static const char *send_error_is_sqe(struct queue *q)
{
	struct ibv_qp_attr attr;

	EXPECT_RETURNS(0, post_send(q, 100, q->payload_mr->lkey ^ 0x5500));
	EXPECT(next_status(q, LONG_MS, NULL) == IBV_WC_LOC_PROT_ERR, "no LOC_PROT_ERR");
	EXPECT_RETURNS(0, query(q->qp, &attr));
	EXPECT(attr.qp_state == IBV_QPS_SQE, "the receive queue does not go on");
	EXPECT_RETURNS(EINVAL, to_state(q->qp, IBV_QPS_RTS));
	EXPECT_RETURNS(0, post_send(q, 100, q->payload_mr->lkey));
	EXPECT(next_status(q, LONG_MS, NULL) == IBV_WC_WR_FLUSH_ERR, "what comes after is not flushed");
	EXPECT_RETURNS(0, to_state(q->qp, IBV_QPS_RESET));
	return NULL;
}

static const char *query_fills_in(struct queue *q)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EXPECT_RETURNS(0, ibv_query_qp(q->qp, &attr, IBV_QP_CAP, &init));
	EXPECT(attr.port_num == 1, "the port is not 1");
	EXPECT(init.cap.max_recv_wr == 8 && init.cap.max_send_wr >= 256, "other queue sizes");
	EXPECT(init.cap.max_inline_data >= 128, "another inline limit");
	return NULL;
}

static int limit(struct ibv_qp *qp, uint32_t kbps, uint32_t burst, uint16_t packet)
{
	struct ibv_qp_rate_limit_attr attr = {.rate_limit = kbps, .max_burst_sz = burst, .typical_pkt_sz = packet};

	return ibv_modify_qp_rate_limit(qp, &attr);
}

static struct ibv_packet_pacing_caps caps(void)
{
	struct ibv_device_attr_ex attr = {};

	ibv_query_device_ex(shared_queue()->ctx, NULL, &attr);
	return attr.packet_pacing_caps;
}

static const char *pacing_range(struct queue *q)
{
	struct ibv_packet_pacing_caps c = caps();

	EXPECT(c.qp_rate_limit_min == 1 && c.qp_rate_limit_max == 100000000, "other limits");
	EXPECT(c.supported_qpts == 1 << IBV_QPT_RAW_PACKET, "not for raw packets");
	EXPECT_RETURNS(0, limit(q->qp, 1, 0, 0));
	EXPECT_RETURNS(0, limit(q->qp, c.qp_rate_limit_max, 0, 0));
	EXPECT_RETURNS(EINVAL, limit(q->qp, c.qp_rate_limit_max + 1, 0, 0));
	EXPECT_RETURNS(0, limit(q->qp, 0, 0, 0));
	EXPECT_RETURNS(EINVAL, limit(q->qp, 1000, 2000, 0)); /* this model has no bursts */
	return NULL;
}

static const char *pacing_states(struct queue *q)
{
	const int with_rate = IBV_QP_STATE | IBV_QP_RATE_LIMIT;
	struct ibv_qp_attr attr = {.port_num = 1, .rate_limit = 1000};

	EXPECT_RETURNS(0, to_state(q->qp, IBV_QPS_RESET));
	EXPECT_RETURNS(EINVAL, limit(q->qp, 1000, 0, 0));
	attr.qp_state = IBV_QPS_INIT;
	EXPECT_RETURNS(EINVAL, modify(q->qp, attr, with_rate | IBV_QP_PORT));
	EXPECT_RETURNS(0, modify(q->qp, attr, IBV_QP_STATE | IBV_QP_PORT));
	attr.qp_state = IBV_QPS_RTR;
	EXPECT_RETURNS(EINVAL, modify(q->qp, attr, with_rate));
	EXPECT_RETURNS(0, modify(q->qp, attr, IBV_QP_STATE));
	EXPECT_RETURNS(EINVAL, limit(q->qp, 1000, 0, 0));
	attr.qp_state = IBV_QPS_RTS;
	EXPECT_RETURNS(0, modify(q->qp, attr, with_rate));
	EXPECT_RETURNS(0, modify(q->qp, attr, with_rate));
	return NULL;
}

/* Only too fast is wrong: the machine may be busy. */
static const char *pacing_paces(struct queue *q)
{
	enum { N = 200, BYTES = 1250 }; /* 1 ms each at 10 Mb/s */
	uint64_t start;

	memset(q->payloads, 0xff, 12);
	q->payloads[6] = 2;
	EXPECT_RETURNS(0, limit(q->qp, 10000, 0, 0));
	start = now_ns();
	for (int i = 0; i < N; i++)
		EXPECT_RETURNS(0, post_send(q, BYTES, q->payload_mr->lkey));
	for (int i = 0; i < N; i++)
		EXPECT(next_status(q, LONG_MS, NULL) == IBV_WC_SUCCESS, "not sent");
	EXPECT(now_ns() - start > (N - 3) * 1000000ull, "faster than the rate");
	return NULL;
}

static const char *pacing_forgotten(struct queue *q)
{
	EXPECT_RETURNS(0, limit(q->qp, 1, 0, 0)); /* 1250 bytes in ten seconds */
	EXPECT_RETURNS(0, to_state(q->qp, IBV_QPS_RESET));
	queue_to_state(q, IBV_QPS_INIT);
	queue_to_state(q, IBV_QPS_RTR);
	queue_to_state(q, IBV_QPS_RTS);
	memset(q->payloads, 0xff, 12);
	for (int i = 0; i < 100; i++)
		EXPECT_RETURNS(0, post_send(q, 1250, q->payload_mr->lkey));
	for (int i = 0; i < 100; i++)
		EXPECT(next_status(q, LONG_MS, NULL) == IBV_WC_SUCCESS, "not sent"); /* else the test times out */
	return NULL;
}

static const char *pacing_table(void)
{
	enum { N = 127 };
	struct queue *q = shared_queue();
	struct ibv_qp_init_attr init = {.send_cq = ibv_cq_ex_to_cq(q->cq),
	                                .recv_cq = ibv_cq_ex_to_cq(q->cq),
	                                .cap = {.max_send_wr = 1, .max_send_sge = 1},
	                                .qp_type = IBV_QPT_RAW_PACKET};
	struct ibv_qp_attr attr = {.port_num = 1};
	struct ibv_qp *qp[N + 1];

	for (int i = 0; i <= N; i++) {
		qp[i] = ibv_create_qp(q->pd, &init);
		EXPECT(qp[i], "too few queue pairs");
		attr.qp_state = IBV_QPS_INIT;
		EXPECT_RETURNS(0, modify(qp[i], attr, IBV_QP_STATE | IBV_QP_PORT));
		EXPECT_RETURNS(0, to_state(qp[i], IBV_QPS_RTR));
		EXPECT_RETURNS(0, to_state(qp[i], IBV_QPS_RTS));
		EXPECT(limit(qp[i], 1000 + (uint32_t)i, 0, 0) == (i < N ? 0 : ENOSPC),
		       "another number of rates than 127");
	}
	EXPECT_RETURNS(0, limit(qp[N], 1000, 0, 0)); /* one that is there already */
	EXPECT_RETURNS(0, to_state(qp[1], IBV_QPS_RESET));
	EXPECT_RETURNS(0, limit(qp[N], 2000, 0, 0)); /* in the place of qp[1]'s */
	for (int i = 0; i <= N; i++)
		EXPECT_RETURNS(0, ibv_destroy_qp(qp[i]));
	return NULL;
}

static const char *no_pacing(struct queue *q)
{
	struct ibv_packet_pacing_caps c = caps();

	EXPECT(!c.qp_rate_limit_max && !c.supported_qpts, "it says it can");
	EXPECT_RETURNS(EINVAL, limit(q->qp, 1000, 0, 0));
	EXPECT_RETURNS(0, limit(q->qp, 0, 0, 0)); /* nothing changes */
	return NULL;
}

static const char *pacing_bursts(struct queue *q)
{
	EXPECT_RETURNS(0, limit(q->qp, 1000, 20000, 1250));
	EXPECT_RETURNS(EINVAL, limit(q->qp, 0, 20000, 0));
	EXPECT_RETURNS(EINVAL, limit(q->qp, 0, 0, 1250));
	return NULL;
}

const struct rule queue_rules[] = {
	{"pacing-table", "mlx5_core: find_rl_entry", .check = pacing_table},
	{"qp-no-other-ways", "ib_core: qp_state_table; mlx5_ib: optab of __mlx5_ib_modify_qp",
         .check_queue = no_other_ways, .config = &both},
	{"qp-send-error-is-sqe", "mlx5_ib: sqrq_state_to_qp_state", .check_queue = send_error_is_sqe, .config = &both},
	{"qp-query-fills-in", "mlx5_ib: mlx5_ib_query_qp; libmlx5: mlx5_query_qp", .check_queue = query_fills_in,
         .config = &both},
	{"pacing-range", "mlx5_core: mlx5_rl_is_in_range", .check_queue = pacing_range, .config = &both},
	{"pacing-states", "ib_core: qp_state_table, IB_QP_RATE_LIMIT", .check_queue = pacing_states, .config = &both},
	{"pacing-paces", "ibv_modify_qp_rate_limit(3)", .check_queue = pacing_paces, .config = &both},
	{"pacing-forgotten", "mlx5_ib: modify_raw_packet_qp_sq", .check_queue = pacing_forgotten, .config = &both},
	{},
};

const struct rule connectx4_rules[] = {
	{"pacing-absent", "mlx5_core: mlx5_rl_add_rate", .check_queue = no_pacing, .config = &both},
	{},
};

const struct rule connectx6_rules[] = {
	{"pacing-bursts", "mlx5_ib: __mlx5_ib_modify_qp, packet_pacing_burst_bound", .check_queue = pacing_bursts,
         .config = &both},
	{},
};
