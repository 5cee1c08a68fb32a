// SPDX-License-Identifier: Apache-2.0
/* Rules of work queues, indirection tables and the queue pairs over them. */
#include "verbs_rules.h"

#include <linux/capability.h>

#define KEY_BYTES 40
#define IPV4      (IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4)

static uint8_t key[KEY_BYTES] = {0x6d, 0x5a, 1, 2, 3};

static struct ibv_wq *new_wq(unsigned int n)
{
	struct queue *q = shared_queue();
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = n, .max_sge = 1, .pd = q->pd, .cq = ibv_cq_ex_to_cq(q->cq)};

	return ibv_create_wq(q->ctx, &attr);
}

static int to_state(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state};

	return ibv_modify_wq(wq, &attr);
}

static int post(struct ibv_wq *wq, uint64_t id)
{
	struct queue *q = shared_queue();
	struct ibv_sge sge = {(uintptr_t)q->payloads, 2048, q->payload_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_wq_recv(wq, &wr, &bad);
}

static struct ibv_rwq_ind_table *new_table(struct ibv_wq **wqs, uint32_t log_size)
{
	struct ibv_rwq_ind_table_init_attr attr = {.log_ind_tbl_size = log_size, .ind_tbl = wqs};

	return ibv_create_rwq_ind_table(shared_queue()->ctx, &attr);
}

static struct ibv_qp_init_attr_ex rss_attr(struct ibv_rwq_ind_table *table, uint64_t fields)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = shared_queue()->pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	                         .rx_hash_key_len = KEY_BYTES,
	                         .rx_hash_key = key,
	                         .rx_hash_fields_mask = fields},
	};
}

static struct ibv_qp *new_qp(struct ibv_rwq_ind_table *table, uint64_t fields)
{
	struct ibv_qp_init_attr_ex attr = rss_attr(table, fields);

	return ibv_create_qp_ex(shared_queue()->ctx, &attr);
}

static const char *wq_limits(void)
{
	struct queue *q = shared_queue();
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = q->pd, .cq = ibv_cq_ex_to_cq(q->cq)};

	EXPECT_ERRNO(EINVAL, new_wq(0));
	EXPECT_ERRNO(EINVAL, new_wq(32769));
	attr.max_sge = 33; /* 512 bytes of descriptor hold 32 */
	EXPECT_ERRNO(EINVAL, ibv_create_wq(q->ctx, &attr));
	attr.max_sge = 1;
	attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	attr.create_flags = IBV_WQ_FLAGS_SCATTER_FCS;
	EXPECT_ERRNO(EOPNOTSUPP, ibv_create_wq(q->ctx, &attr));
	return NULL;
}

/* All queues of the port wait for one that delays drops, so it takes more rights than a queue. */
static const char *wq_delay_drop(void)
{
	struct queue *q = shared_queue();
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ,
	                                .max_wr = 4,
	                                .max_sge = 1,
	                                .pd = q->pd,
	                                .cq = ibv_cq_ex_to_cq(q->cq),
	                                .comp_mask = IBV_WQ_INIT_ATTR_FLAGS,
	                                .create_flags = IBV_WQ_FLAGS_DELAY_DROP};
	struct ibv_device_attr_ex device;
	struct ibv_wq *wq;

	EXPECT_RETURNS(0, ibv_query_device_ex(q->ctx, NULL, &device));
	EXPECT(device.raw_packet_caps & IBV_RAW_PACKET_CAP_DELAY_DROP, "no capability");
	wq = ibv_create_wq(q->ctx, &attr);
	EXPECT(wq, "it was refused");
	EXPECT_RETURNS(0, ibv_destroy_wq(wq));
	drop_capability(CAP_SYS_RAWIO);
	EXPECT_ERRNO(EPERM, ibv_create_wq(q->ctx, &attr));
	return NULL;
}

static const char *wq_states(void)
{
	struct ibv_wq *wq = new_wq(4);
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE,
	                           .wq_state = IBV_WQS_ERR,
	                           .curr_wq_state = IBV_WQS_RDY};

	EXPECT(wq && wq->state == IBV_WQS_RESET, "a new work queue is not in RESET");
	EXPECT_RETURNS(EINVAL, ibv_modify_wq(wq, &attr)); /* it is not ready */
	attr.attr_mask = 0;
	EXPECT_RETURNS(EINVAL, ibv_modify_wq(wq, &attr));
	EXPECT_RETURNS(EINVAL, to_state(wq, IBV_WQS_UNKNOWN));
	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_RDY));
	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_RDY));
	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_ERR));
	EXPECT_RETURNS(EINVAL, to_state(wq, IBV_WQS_RDY)); /* by way of RESET */
	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_RESET));
	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_RDY));
	EXPECT_RETURNS(0, ibv_destroy_wq(wq));
	return NULL;
}

static const char *wq_flags(void)
{
	struct ibv_wq *wq = new_wq(4);
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_FLAGS,
	                           .flags = IBV_WQ_FLAGS_CVLAN_STRIPPING,
	                           .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING};

	EXPECT_RETURNS(0, ibv_modify_wq(wq, &attr));
	attr.flags_mask = IBV_WQ_FLAGS_PCI_WRITE_END_PADDING;
	EXPECT_RETURNS(EOPNOTSUPP, ibv_modify_wq(wq, &attr));
	EXPECT_RETURNS(0, ibv_destroy_wq(wq));
	return NULL;
}

static int poll_all(enum ibv_wc_status *status, uint64_t *id)
{
	struct ibv_poll_cq_attr attr = {};
	struct ibv_cq_ex *cq = shared_queue()->cq;
	int n = 0;

	if (ibv_start_poll(cq, &attr))
		return 0;
	do {
		*status = cq->status;
		*id = cq->wr_id;
		n++;
	} while (!ibv_next_poll(cq));
	ibv_end_poll(cq);
	return n;
}

static const char *wq_flush(void)
{
	struct ibv_wq *wq = new_wq(4);
	enum ibv_wc_status status;
	uint64_t id;

	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_RDY));
	EXPECT(!post(wq, 7) && !post(wq, 8), "posting failed");
	EXPECT_RETURNS(0, poll_all(&status, &id));
	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_ERR));
	EXPECT(poll_all(&status, &id) == 2 && status == IBV_WC_WR_FLUSH_ERR && id == 8,
	       "what was posted was not flushed in order");
	EXPECT_RETURNS(0, post(wq, 9)); /* the queue has a device thread: shared_queue()'s */
	for (int i = 0; i < 2000; i++) {
		if (poll_all(&status, &id)) {
			EXPECT(status == IBV_WC_WR_FLUSH_ERR && id == 9, "another completion");
			EXPECT_RETURNS(0, ibv_destroy_wq(wq));
			return NULL;
		}
		wait_a_little();
	}
	return "what was posted in ERR was not flushed";
}

static const char *wq_reset_clears(void)
{
	struct ibv_wq *wq = new_wq(4);
	enum ibv_wc_status status;
	uint64_t id;

	EXPECT_RETURNS(0, post(wq, 1)); /* in RESET: forgotten on the way to RDY */
	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_RDY));
	EXPECT(!post(wq, 2) && !post(wq, 3) && !post(wq, 4) && !post(wq, 5), "not all are free");
	EXPECT_RETURNS(ENOMEM, post(wq, 6));
	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_RESET));
	EXPECT_RETURNS(0, poll_all(&status, &id));
	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_RDY));
	EXPECT_RETURNS(0, post(wq, 7));
	EXPECT_RETURNS(0, to_state(wq, IBV_WQS_ERR));
	EXPECT(poll_all(&status, &id) == 1 && id == 7, "RESET did not forget");
	EXPECT_RETURNS(0, ibv_destroy_wq(wq));
	return NULL;
}

static const char *table_limits(void)
{
	static struct ibv_wq *wqs[1 << 14];
	struct ibv_wq *wq = new_wq(4);
	struct ibv_rwq_ind_table *t;

	for (size_t i = 0; i < sizeof(wqs) / sizeof(wqs[0]); i++)
		wqs[i] = wq;
	EXPECT_ERRNO(EINVAL, new_table(wqs, 14)); /* IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE is 13 */
	EXPECT_ERRNO(EINVAL, new_table(wqs, 12)); /* the device's log_max_rqt_size is 11 */
	t = new_table(wqs, 11);
	EXPECT(t, "2048 entries were refused");
	EXPECT_RETURNS(0, ibv_destroy_rwq_ind_table(t));
	EXPECT_RETURNS(0, ibv_destroy_wq(wq));
	return NULL;
}

static const char *wq_keeps_its_parts(void)
{
	struct queue *q = shared_queue();
	struct ibv_pd *pd = ibv_alloc_pd(q->ctx);
	struct ibv_cq *cq = ibv_create_cq(q->ctx, 4, NULL, NULL, 0);
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_wq *wq = ibv_create_wq(q->ctx, &attr);

	EXPECT(wq, "no work queue");
	EXPECT_RETURNS(EBUSY, ibv_dealloc_pd(pd));
	EXPECT_RETURNS(EBUSY, ibv_destroy_cq(cq));
	EXPECT_RETURNS(0, ibv_destroy_wq(wq));
	EXPECT(!ibv_dealloc_pd(pd) && !ibv_destroy_cq(cq), "still busy");
	return NULL;
}

static const char *used_are_busy(void)
{
	struct ibv_wq *wq = new_wq(4);
	struct ibv_rwq_ind_table *t = new_table(&wq, 0);
	struct ibv_qp *qp = new_qp(t, IPV4);

	EXPECT(qp, "no queue pair");
	EXPECT(qp->qp_num == 0, "its number is not 0");
	EXPECT_RETURNS(EBUSY, ibv_destroy_wq(wq));
	EXPECT_RETURNS(EBUSY, ibv_destroy_rwq_ind_table(t));
	EXPECT_RETURNS(0, ibv_destroy_qp(qp));
	EXPECT_RETURNS(0, ibv_destroy_rwq_ind_table(t));
	EXPECT_RETURNS(0, ibv_destroy_wq(wq));
	return NULL;
}

static const char *no_modify(void)
{
	struct ibv_wq *wq = new_wq(4);
	struct ibv_rwq_ind_table *t = new_table(&wq, 0);
	struct ibv_qp *qp = new_qp(t, IPV4);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_rate_limit_attr rate = {};
	struct ibv_qp_init_attr init;

	/* The library's own answers, and the kernel's, past the library. */
	EXPECT_RETURNS(EOPNOTSUPP, ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT));
	EXPECT_RETURNS(EOPNOTSUPP, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	EXPECT_RETURNS(ENOSYS, ibv_modify_qp_rate_limit(qp, &rate));
	EXPECT_RETURNS(0, ibv_destroy_qp(qp));
	EXPECT_RETURNS(0, ibv_destroy_rwq_ind_table(t));
	EXPECT_RETURNS(0, ibv_destroy_wq(wq));
	return NULL;
}

static const char *qp_attributes(void)
{
	struct ibv_context *ctx = shared_queue()->ctx;
	struct ibv_wq *wq = new_wq(4);
	struct ibv_rwq_ind_table *t = new_table(&wq, 0);
	struct ibv_qp_init_attr_ex attr = rss_attr(t, IPV4);

	attr.rx_hash_conf.rx_hash_key_len = 39;
	EXPECT_ERRNO(EINVAL, ibv_create_qp_ex(ctx, &attr));
	attr = rss_attr(t, IPV4);
	attr.rx_hash_conf.rx_hash_function = 2;
	EXPECT_ERRNO(EOPNOTSUPP, ibv_create_qp_ex(ctx, &attr));
	attr = rss_attr(t, IPV4);
	attr.cap.max_recv_wr = 1;
	EXPECT_ERRNO(EINVAL, ibv_create_qp_ex(ctx, &attr));
	attr = rss_attr(t, IPV4);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING;
	EXPECT_ERRNO(EINVAL, ibv_create_qp_ex(ctx, &attr));
	EXPECT_RETURNS(0, ibv_destroy_rwq_ind_table(t));
	EXPECT_RETURNS(0, ibv_destroy_wq(wq));
	return NULL;
}

static const char *hash_fields(void)
{
	static const uint64_t refused[] = {
		0,
		IPV4 | IBV_RX_HASH_SRC_IPV6,
		IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP,
	};
	struct ibv_wq *wq = new_wq(4), *two[2] = {wq, wq};
	struct ibv_rwq_ind_table *t = new_table(two, 1);
	struct ibv_qp *qp;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		EXPECT_ERRNO(EINVAL, new_qp(t, refused[i]));
	qp = new_qp(t, IPV4 | IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP);
	EXPECT(qp, "IPv4 and UDP were refused");
	EXPECT_RETURNS(0, ibv_destroy_qp(qp));
	EXPECT_RETURNS(0, ibv_destroy_rwq_ind_table(t));
	EXPECT_RETURNS(0, ibv_destroy_wq(wq));
	return NULL;
}

const struct rule rss_rules[] = {
	{"wq-limits", "mlx5_ib: set_user_rq_size, create_rq", .check = wq_limits},
	{"wq-delay-drop", "mlx5_ib: mlx5_ib_create_wq", .check = wq_delay_drop},
	{"wq-states", "ib_uverbs: ib_uverbs_ex_modify_wq; PRM: MODIFY_RQ", .check = wq_states},
	{"wq-flags", "mlx5_ib: mlx5_ib_modify_wq", .check = wq_flags},
	{"wq-error-flushes", "PRM: RQ context, flush_in_error_en", .check = wq_flush},
	{"wq-reset-clears", "libmlx5: mlx5_modify_wq; verbs-rules: Bring-up", .check = wq_reset_clears},
	{"wq-keeps-its-parts", "ib_uverbs: usecnt of PD and CQ in ib_uverbs_ex_create_wq", .check = wq_keeps_its_parts},
	{"rss-table-limits", "ib_uverbs: ib_uverbs_ex_create_rwq_ind_table", .check = table_limits},
	{"rss-used-are-busy", "ib_core: usecnt of WQ and table", .check = used_are_busy},
	{"rss-qp-refuses-modify", "libmlx5: mlx5_modify_qp; mlx5_ib: mlx5_ib_modify_qp", .check = no_modify},
	{"rss-qp-attributes", "mlx5_ib: create_rss_raw_qp_tir, process_create_flags", .check = qp_attributes},
	{"rss-hash-fields", "mlx5_ib: create_rss_raw_qp_tir", .check = hash_fields},
	{},
};
