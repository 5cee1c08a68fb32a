// SPDX-License-Identifier: Apache-2.0
/* Rules of what mlx5dv asks for: completions that are compressed, and striding receive queues. */
#include "verbs_rules.h"

#include <endian.h>
#include <infiniband/mlx5dv.h>

#define PORT              4150
#define LOG_STRIDES       9
#define BUFFER_BYTES      (64u << LOG_STRIDES)
#define N_ENTRIES         2
#define HEADERS           42
#define STRIDES_OF(bytes) (((bytes) + HEADERS + 63) / 64)

static struct ibv_cq_ex *compressed(uint8_t formats, uint16_t cqe_bytes)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16};
	struct mlx5dv_cq_init_attr dv = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE |
	                                              MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
	                                 .cqe_comp_res_format = formats,
	                                 .cqe_size = cqe_bytes};

	return mlx5dv_create_cq(shared_queue()->ctx, &attr, &dv);
}

static const char *compression_formats(void)
{
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION};
	struct ibv_cq_ex *cq;

	EXPECT_RETURNS(0, mlx5dv_query_device(shared_queue()->ctx, &dv));
	EXPECT(dv.cqe_comp_caps.max_num == 64, "another size of a block");
	for (uint8_t format = 1; format < 8; format++) {
		bool one = !(format & (format - 1));

		/* libmlx5 refuses what is not offered, and passes on any set that has one format of these. */
		if (!one || !(dv.cqe_comp_caps.supported_format & format)) {
			EXPECT_ERRNO(EINVAL, compressed(format, 64));
			continue;
		}
		cq = compressed(format, 64);
		EXPECT(cq && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), "a format that is offered is refused");
	}
	return NULL;
}

static const char *compression_of_long_entries(void)
{
	struct mlx5dv_context dv = {};

	EXPECT_RETURNS(0, mlx5dv_query_device(shared_queue()->ctx, &dv));
	EXPECT(!(dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP), "it offers that");
	EXPECT_ERRNO(EOPNOTSUPP, compressed(MLX5DV_CQE_RES_FORMAT_HASH, 128));
	return NULL;
}

/* A striding queue with an RSS queue pair and a flow, on the completion queue of `q`. */
struct striding {
	struct queue q;
	struct ibv_wq *wq;
	struct mlx5dv_rwq rwq;
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *qp;
	struct ibv_flow *flow;
	uint16_t n_posted;
};

static struct ibv_wq *striding_wq(struct queue *q, uint32_t log_bytes, uint32_t log_strides)
{
	struct ibv_wq_init_attr init = {
		.wq_type = IBV_WQT_RQ, .max_wr = N_ENTRIES, .max_sge = 1, .pd = q->pd, .cq = ibv_cq_ex_to_cq(q->cq)};
	struct mlx5dv_wq_init_attr dv = {.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
	                                 .striding_rq_attrs = {.single_stride_log_num_of_bytes = log_bytes,
	                                                       .single_wqe_log_num_of_strides = log_strides}};

	return mlx5dv_create_wq(q->ctx, &init, &dv);
}

static const char *striding_open(struct striding *s)
{
	static uint8_t key[40] = {1};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_rwq_ind_table_init_attr table = {.log_ind_tbl_size = 0, .ind_tbl = &s->wq};
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RAW_PACKET,
	                                   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
	                                                IBV_QP_INIT_ATTR_RX_HASH,
	                                   .rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	                                                    .rx_hash_key_len = sizeof(key),
	                                                    .rx_hash_key = key}};
	struct mlx5dv_obj obj = {.rwq = {.out = &s->rwq}};
	struct flow_rule f;

	*s = (struct striding){};
	queue_open(&s->q,
	           &(struct queue_config){.depth = N_ENTRIES, .n_sge = 1, .payload_bytes = BUFFER_BYTES, .cqe = 2047});
	obj.rwq.in = s->wq = striding_wq(&s->q, 6, LOG_STRIDES);
	EXPECT(s->wq && !ibv_modify_wq(s->wq, &ready) && !mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ), "no striding queue");
	attr.pd = s->q.pd;
	attr.rwq_ind_tbl = s->table = ibv_create_rwq_ind_table(s->q.ctx, &table);
	s->qp = s->table ? ibv_create_qp_ex(s->q.ctx, &attr) : NULL;
	flow_init(&f);
	flow_add_ipv4(&f, NULL);
	flow_add_udp(&f, PORT);
	s->flow = s->qp ? ibv_create_flow(s->qp, &f.attr) : NULL;
	EXPECT(s->flow, "no flow to it");
	return NULL;
}

static void striding_close(struct striding *s)
{
	ibv_destroy_flow(s->flow);
	ibv_destroy_qp(s->qp);
	ibv_destroy_rwq_ind_table(s->table);
	ibv_destroy_wq(s->wq);
	queue_close(&s->q);
}

static void striding_post(struct striding *s, uint32_t bytes)
{
	struct mlx5_mprq_wqe *entry =
		(void *)((uint8_t *)s->rwq.buf + (size_t)(s->n_posted % N_ENTRIES) * s->rwq.stride);

	mlx5dv_set_data_seg(&entry->dseg, bytes, s->q.payload_mr->lkey,
	                    (uintptr_t)s->q.payloads + (s->n_posted % N_ENTRIES) * BUFFER_BYTES);
	s->n_posted++;
	__atomic_store_n(s->rwq.dbrec, htobe32(s->n_posted), __ATOMIC_RELEASE);
}

/* The next completion. libmlx5 takes the strides for a part of the length. */
static uint32_t next_byte_cnt(struct striding *s, enum ibv_wc_status *status)
{
	struct ibv_poll_cq_attr attr = {};
	uint32_t byte_cnt;

	while (ibv_start_poll(s->q.cq, &attr))
		wait_a_little();
	*status = s->q.cq->status;
	byte_cnt = ibv_wc_read_byte_len(s->q.cq);
	ibv_end_poll(s->q.cq);
	return byte_cnt;
}

static const char *striding_limits(void)
{
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_STRIDING_RQ};
	const struct mlx5dv_striding_rq_caps *caps = &dv.striding_rq_caps;
	struct queue *q = shared_queue();
	struct ibv_wq *wq;

	EXPECT_RETURNS(0, mlx5dv_query_device(q->ctx, &dv));
	EXPECT(caps->supported_qpts == 1 << IBV_QPT_RAW_PACKET, "for other queue pairs");
	EXPECT(caps->min_single_stride_log_num_of_bytes == 6 && caps->max_single_stride_log_num_of_bytes == 13 &&
	               caps->min_single_wqe_log_num_of_strides == 9 && caps->max_single_wqe_log_num_of_strides == 16,
	       "other limits");
	EXPECT_ERRNO(EINVAL, striding_wq(q, 5, 9)); /* libmlx5 */
	EXPECT_ERRNO(EINVAL, striding_wq(q, 6, 17));
	wq = striding_wq(q, 13, 16);
	EXPECT(wq && !ibv_destroy_wq(wq), "the largest is refused");
	return NULL;
}

static const char *striding_fills(void)
{
	enum ibv_wc_status status;
	struct striding s;
	uint32_t n = STRIDES_OF(8000u), left = (1u << LOG_STRIDES) % n, n_packets = (1u << LOG_STRIDES) / n;
	const char *seen = striding_open(&s);

	EXPECT(!seen, seen);
	striding_post(&s, BUFFER_BYTES);
	ask_for_frames(PORT, n_packets + 1, 8000);
	for (uint32_t i = 0; i < n_packets; i++)
		EXPECT(next_byte_cnt(&s, &status) == (n << 16 | (8000 + HEADERS)) && !status, "not a packet's strides");
	EXPECT(next_byte_cnt(&s, &status) == (1u << 31 | left << 16) && !status, "what is left is not used up");
	wait_a_little();
	striding_post(&s, BUFFER_BYTES);
	ask_for_frames(PORT, 1, 100);
	EXPECT(next_byte_cnt(&s, &status) == (STRIDES_OF(100u) << 16 | (100 + HEADERS)) && !status,
	       "packets without an entry are not dropped");
	striding_close(&s);
	return NULL;
}

static const char *striding_short_list(void)
{
	enum ibv_wc_status status;
	struct striding s;
	const char *seen = striding_open(&s);

	EXPECT(!seen, seen);
	striding_post(&s, 128);
	striding_post(&s, BUFFER_BYTES);
	ask_for_frames(PORT, 1, 200);
	next_byte_cnt(&s, &status);
	EXPECT(status == IBV_WC_LOC_LEN_ERR, "a list that is too short is no error");
	ask_for_frames(PORT, 1, 200);
	EXPECT(next_byte_cnt(&s, &status) == (STRIDES_OF(200u) << 16 | (200 + HEADERS)) && !status,
	       "the next entry is not used");
	striding_close(&s);
	return NULL;
}

static const char *striding_post_by_library(void)
{
	struct ibv_sge sge = {.length = BUFFER_BYTES};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	enum ibv_wc_status status;
	struct striding s;
	const char *seen = striding_open(&s);

	EXPECT(!seen, seen);
	sge.addr = (uintptr_t)s.q.payloads;
	sge.lkey = s.q.payload_mr->lkey;
	EXPECT_RETURNS(0, ibv_post_wq_recv(s.wq, &wr, &bad));
	ask_for_frames(PORT, 1, 100);
	next_byte_cnt(&s, &status);
	EXPECT(status == IBV_WC_LOC_PROT_ERR, "the device finds the address");
	striding_close(&s);
	return NULL;
}

const struct rule dv_rules[] = {
	{"striding-limits", "mlx5_ib: prepare_user_rq", .check = striding_limits},
	{"striding-fills", "mlx5_core: mlx5e_handle_rx_cqe_mpwrq", .check = striding_fills},
	{"striding-short-list", "PRM: scatter list", .check = striding_short_list},
	{"striding-post-by-library", "rdma-core: pull request 1381", .check = striding_post_by_library},
	{"cq-compression-formats", "mlx5_ib: mini_cqe_res_format_to_hw", .check = compression_formats},
	{"cq-compression-needs-64", "mlx5_ib: create_cq_user", .check = compression_of_long_entries},
	{},
};
