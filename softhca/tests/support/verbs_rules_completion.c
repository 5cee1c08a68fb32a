// SPDX-License-Identifier: Apache-2.0
/* Rules of completions: what they say, and what happens if there is no room for one. */
#include "verbs_rules.h"

#include <fcntl.h>
#include <poll.h>

#define PORT         4110
#define UDP_OVERHEAD 42
#define TAG          0x4711

static const struct queue_config small = {.depth = 8, .n_sge = 1, .payload_bytes = 2048};
static const struct queue_config of_one_completion = {.depth = 8, .n_sge = 1, .payload_bytes = 2048, .cqe = 1};
static const struct queue_config with_channel = {.depth = 8, .n_sge = 1, .payload_bytes = 2048, .use_channel = true};

static void next(struct queue *q)
{
	struct ibv_poll_cq_attr attr = {};

	while (ibv_start_poll(q->cq, &attr))
		wait_a_little();
}

static const char *extended_reads(void)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_CVLAN |
	                    IBV_WC_EX_WITH_FLOW_TAG,
	};
	struct ibv_flow_spec_action_tag *tag;
	struct flow_rule f;
	struct queue q;
	uint64_t stamp;

	queue_open_with(&q, &small, &cq);
	flow_init(&f);
	flow_add_ipv4(&f, NULL);
	flow_add_udp(&f, PORT);
	tag = flow_add_spec(&f, IBV_FLOW_SPEC_ACTION_TAG, sizeof(*tag));
	tag->tag_id = TAG;
	q.flow = ibv_create_flow(q.qp, &f.attr);
	EXPECT(q.flow && !queue_post(&q, 0, 4), "no queue");
	ask_for_frames(PORT, 2, 500);
	next(&q);
	EXPECT(q.cq->status == IBV_WC_SUCCESS && q.cq->wr_id == 0, "not the first one's success");
	EXPECT(ibv_wc_read_opcode(q.cq) == IBV_WC_RECV, "not a receive");
	EXPECT(ibv_wc_read_byte_len(q.cq) == 500 + UDP_OVERHEAD, "another length");
	EXPECT(ibv_wc_read_wc_flags(q.cq) == IBV_WC_IP_CSUM_OK, "other flags");
	EXPECT(ibv_wc_read_flow_tag(q.cq) == TAG, "another flow tag");
	EXPECT(ibv_wc_read_cvlan(q.cq) == 0, "a VLAN tag");
	EXPECT(ibv_wc_read_src_qp(q.cq) == 0 && ibv_wc_read_slid(q.cq) == 0, "a sender's address");
	stamp = ibv_wc_read_completion_ts(q.cq);
	ibv_end_poll(q.cq);
	next(&q);
	EXPECT(q.cq->wr_id == 1 && ibv_wc_read_completion_ts(q.cq) >= stamp, "time goes back");
	ibv_end_poll(q.cq);
	queue_close(&q);
	return NULL;
}

static const char *flush_tells(struct queue *q)
{
	EXPECT_RETURNS(0, queue_post(q, 0, 1));
	queue_to_state(q, IBV_QPS_ERR);
	next(q);
	EXPECT(q->cq->status == IBV_WC_WR_FLUSH_ERR, "not flushed");
	EXPECT(ibv_wc_read_vendor_err(q->cq) == 0xf9, "another vendor syndrome");
	ibv_end_poll(q->cq);
	return NULL;
}

/* Waits for an asynchronous event. */
static enum ibv_event_type next_event(struct ibv_context *ctx)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(ctx, &event))
		die("ibv_get_async_event");
	ibv_ack_async_event(&event);
	return event.event_type;
}

static const char *overrun(struct queue *q)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EXPECT(!queue_post(q, 0, 8) && !queue_add_udp_flow(q, NULL, PORT, false), "no queue");
	ask_for_frames(PORT, 3, 500);
	EXPECT(next_event(q->ctx) == IBV_EVENT_CQ_ERR, "not CQ_ERR first");
	EXPECT(next_event(q->ctx) == IBV_EVENT_QP_FATAL, "not QP_FATAL then");
	EXPECT_RETURNS(0, ibv_query_qp(q->qp, &attr, IBV_QP_STATE, &init));
	EXPECT(attr.qp_state == IBV_QPS_ERR, "the queue pair is not in error");
	for (int i = 0; i < 2; i++) {
		next(q);
		EXPECT(q->cq->status == IBV_WC_SUCCESS, "what was there before is lost");
		ibv_end_poll(q->cq);
	}
	return NULL;
}

static const char *overrun_of_a_wq(void)
{
	struct queue *q = shared_queue();
	struct ibv_cq *cq = ibv_create_cq(q->ctx, 1, NULL, NULL, 0);
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = 8, .max_sge = 1, .pd = q->pd, .cq = cq};
	struct ibv_wq *wq = ibv_create_wq(q->ctx, &init);
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_sge sge = {(uintptr_t)q->payloads, 2048, q->payload_mr->lkey};
	struct ibv_rwq_ind_table_init_attr table_init = {.ind_tbl = &wq};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *qp;
	struct ibv_flow *flow;
	struct flow_rule f;
	uint8_t key[40] = {};

	EXPECT(wq && !ibv_modify_wq(wq, &attr), "no work queue");
	for (int i = 0; i < 8; i++)
		EXPECT_RETURNS(0, ibv_post_wq_recv(wq, &wr, &bad));
	table = ibv_create_rwq_ind_table(q->ctx, &table_init);
	qp = ibv_create_qp_ex(q->ctx, &(struct ibv_qp_init_attr_ex){
					      .qp_type = IBV_QPT_RAW_PACKET,
					      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
	                                                   IBV_QP_INIT_ATTR_RX_HASH,
					      .pd = q->pd,
					      .rwq_ind_tbl = table,
					      .rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, 40, key, 0},
				      });
	EXPECT(qp, "no queue pair without hashing over one queue");
	flow_init(&f);
	flow_add_ipv4(&f, NULL);
	flow_add_udp(&f, PORT);
	flow = ibv_create_flow(qp, &f.attr);
	EXPECT(flow, "no flow");
	ask_for_frames(PORT, 3, 500);
	EXPECT(next_event(q->ctx) == IBV_EVENT_CQ_ERR, "not CQ_ERR first");
	EXPECT(next_event(q->ctx) == IBV_EVENT_WQ_FATAL, "not WQ_FATAL then");
	EXPECT(!ibv_destroy_flow(flow) && !ibv_destroy_qp(qp) && !ibv_destroy_rwq_ind_table(table) &&
	               !ibv_destroy_wq(wq) && !ibv_destroy_cq(cq),
	       "not destroyed");
	return NULL;
}

static const char *error_wakes_solicited(struct queue *q)
{
	struct ibv_cq *cq;
	void *ctx;

	EXPECT_RETURNS(0, queue_post(q, 0, 1));
	EXPECT_RETURNS(0, ibv_req_notify_cq(ibv_cq_ex_to_cq(q->cq), 1));
	queue_to_state(q, IBV_QPS_ERR);
	EXPECT_RETURNS(0, ibv_get_cq_event(q->channel, &cq, &ctx));
	EXPECT(cq == ibv_cq_ex_to_cq(q->cq), "another completion queue");
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static const char *channel_is_busy(struct queue *q)
{
	struct pollfd p = {.events = POLLIN};

	EXPECT_RETURNS(EBUSY, ibv_destroy_comp_channel(q->channel));
	p.fd = q->channel->fd;
	EXPECT(!fcntl(p.fd, F_SETFL, O_NONBLOCK) && !poll(&p, 1, 0), "readable without an event");
	EXPECT_ERRNO(EAGAIN, !ibv_get_cq_event(q->channel, &(struct ibv_cq *){NULL}, &(void *){NULL}));
	return NULL;
}

static struct ibv_qp *qp_with_event(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {.send_cq = cq,
	                                .recv_cq = cq,
	                                .qp_type = IBV_QPT_RAW_PACKET,
	                                .cap = {.max_recv_wr = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(shared_queue()->pd, &init);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_recv_wr wr = {}, *bad;

	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT))
		die("no queue pair");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE) || ibv_post_recv(qp, &wr, &bad) || ibv_req_notify_cq(cq, 0))
		die("no queue with an event to come");
	attr.qp_state = IBV_QPS_ERR; /* flushes it */
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		die("ibv_modify_qp");
	return qp;
}

static const char *events_wait(void)
{
	enum { N = 500 };
	static struct ibv_cq *cqs[N];
	static struct ibv_qp *qps[N];
	static bool seen[N];
	struct queue *q = shared_queue();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(q->ctx);

	EXPECT(channel, "no channel");
	for (int i = 0; i < N; i++) {
		cqs[i] = ibv_create_cq(q->ctx, 1, &cqs[i], channel, 0);
		EXPECT(cqs[i], "no CQ");
		qps[i] = qp_with_event(cqs[i]);
	}
	for (int i = 0; i < N; i++) {
		struct pollfd p = {.fd = channel->fd, .events = POLLIN};
		struct ibv_cq *cq;
		void *context;

		EXPECT(poll(&p, 1, 30000) == 1, "an event is lost");
		EXPECT_RETURNS(0, ibv_get_cq_event(channel, &cq, &context));
		EXPECT(!seen[(struct ibv_cq **)context - cqs], "an event twice");
		seen[(struct ibv_cq **)context - cqs] = true;
		ibv_ack_cq_events(cq, 1);
	}
	for (int i = 0; i < N; i++)
		EXPECT(!ibv_destroy_qp(qps[i]) && !ibv_destroy_cq(cqs[i]), "not destroyed");
	EXPECT_RETURNS(0, ibv_destroy_comp_channel(channel));
	return NULL;
}

/* Destroying goes through all that nobody reads. */
static const char *unread_events_go(void)
{
	enum { N = 500 };
	static struct ibv_cq *cqs[N];
	struct queue *q = shared_queue();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(q->ctx);

	EXPECT(channel, "no channel");
	for (int i = 0; i < N; i++) {
		cqs[i] = ibv_create_cq(q->ctx, 1, NULL, channel, 0);
		EXPECT(cqs[i], "no CQ");
		EXPECT_RETURNS(0, ibv_destroy_qp(qp_with_event(cqs[i])));
	}
	for (int i = 0; i < N; i++)
		EXPECT_RETURNS(0, ibv_destroy_cq(cqs[i]));
	EXPECT_RETURNS(0, ibv_destroy_comp_channel(channel));
	return NULL;
}

static const char *cq_limits(void)
{
	struct ibv_context *ctx = shared_queue()->ctx;
	struct ibv_cq *cq;

	EXPECT_ERRNO(EINVAL, ibv_create_cq(ctx, 0, NULL, NULL, 0));
	EXPECT_ERRNO(EINVAL, ibv_create_cq(ctx, 1 << 23, NULL, NULL, 0));
	EXPECT_ERRNO(EINVAL, ibv_create_cq(ctx, 16, NULL, NULL, 1000));
	cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	EXPECT(cq, "no CQ");
	EXPECT(cq->cqe == 511, "256 entries do not become 511"); /* libmlx5 adds one and rounds up */
	EXPECT_RETURNS(0, ibv_destroy_cq(cq));
	return NULL;
}

static const char *moderation_limits(void)
{
	struct ibv_cq *cq = ibv_cq_ex_to_cq(shared_queue()->cq);
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
	                                  .moderate = {.cq_count = 65535, .cq_period = 4095}};
	struct ibv_device_attr_ex device;

	EXPECT_RETURNS(0, ibv_query_device_ex(shared_queue()->ctx, NULL, &device));
	EXPECT(device.cq_mod_caps.max_cq_count == 65535 && device.cq_mod_caps.max_cq_period == 4095, "other limits");
	EXPECT_RETURNS(0, ibv_modify_cq(cq, &attr));
	attr.moderate.cq_period = 4096;
	EXPECT_RETURNS(EINVAL, ibv_modify_cq(cq, &attr));
	attr.attr_mask = 0;
	EXPECT_RETURNS(EINVAL, ibv_modify_cq(cq, &attr));
	return NULL;
}

static const char *vectors_have_bounds(void)
{
	struct ibv_context *ctx = shared_queue()->ctx;
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, ctx->num_comp_vectors - 1);

	EXPECT(cq, "the last completion vector was refused");
	EXPECT_RETURNS(0, ibv_destroy_cq(cq));
	EXPECT_ERRNO(EINVAL, ibv_create_cq(ctx, 16, NULL, NULL, ctx->num_comp_vectors));
	EXPECT_ERRNO(EINVAL, ibv_create_cq(ctx, 16, NULL, NULL, -1));
	return NULL;
}

/* What was there before is there afterwards, in its order, and what comes goes to the new buffer. */
static const char *resize_keeps(struct queue *q)
{
	uint64_t id;

	EXPECT(!queue_add_udp_flow(q, NULL, PORT, true) && !queue_post(q, 0, 8), "no queue");
	ask_for_frames(PORT, 3, 100);
	EXPECT(next_status(q, LONG_MS, &id) == IBV_WC_SUCCESS && id == 0, "no first completion");
	while (queue_matched(q) < 3) /* the other two are there, too, when they are counted */
		wait_a_little();
	EXPECT_RETURNS(0, ibv_resize_cq(ibv_cq_ex_to_cq(q->cq), 200));
	EXPECT(ibv_cq_ex_to_cq(q->cq)->cqe >= 200, "a size that is too small");
	for (unsigned int i = 1; i < 3; i++)
		EXPECT(next_status(q, LONG_MS, &id) == IBV_WC_SUCCESS && id == i, "a completion is lost");
	ask_for_frames(PORT, 2, 100);
	for (unsigned int i = 3; i < 5; i++)
		EXPECT(next_status(q, LONG_MS, &id) == IBV_WC_SUCCESS && id == i, "nothing in the new buffer");
	EXPECT_RETURNS(0, ibv_resize_cq(ibv_cq_ex_to_cq(q->cq), 15));
	ask_for_frames(PORT, 2, 100);
	for (unsigned int i = 5; i < 7; i++)
		EXPECT(next_status(q, LONG_MS, &id) == IBV_WC_SUCCESS && id == i, "nothing in the smaller buffer");
	return NULL;
}

static const char *resize_limits(void)
{
	struct ibv_cq *cq = ibv_cq_ex_to_cq(shared_queue()->cq);

	EXPECT_RETURNS(EINVAL, ibv_resize_cq(cq, 4194304));
	EXPECT_RETURNS(EINVAL, ibv_resize_cq(cq, 0));
	return NULL;
}

const struct rule completion_rules[] = {
	{"cq-resize-limits", "mlx5_ib: mlx5_ib_resize_cq", .check = resize_limits},
	{"cq-extended-reads", "ibv_create_cq_ex(3); PRM: responder CQE", .check = extended_reads},
	{"cq-overrun-stops-wqs", "mlx5_ib: mlx5_ib_wq_event", .check = overrun_of_a_wq},
	{"cq-events-wait", "ib_uverbs: ib_uverbs_comp_handler, event_list", .check = events_wait},
	{"cq-unread-events-go", "ib_uverbs: ib_uverbs_release_ucq", .check = unread_events_go},
	{"cq-limits", "mlx5_ib: mlx5_ib_create_cq", .check = cq_limits},
	{"cq-moderation-limits", "mlx5_ib: mlx5_ib_modify_cq", .check = moderation_limits},
	{"cq-vectors-have-bounds", "ib_uverbs: create_cq, num_comp_vectors", .check = vectors_have_bounds},
	{"cq-resize-keeps", "libmlx5: mlx5_cq_resize_copy_cqes; PRM: RESIZE_CQ", .check_queue = resize_keeps,
         .config = &small},
	{"cq-flush-tells", "PRM: error CQE; 0xf9 in every public log of mlx5", .check_queue = flush_tells,
         .config = &small},
	{"cq-overrun-stops-queues", "verbs-rules: Bring-up; mlx5_ib: mlx5_ib_qp_event", .check_queue = overrun,
         .config = &of_one_completion},
	{"cq-error-wakes-solicited", "ibv_req_notify_cq(3)", .check_queue = error_wakes_solicited,
         .config = &with_channel},
	{"cq-channel-is-busy", "ibv_destroy_comp_channel(3)", .check_queue = channel_is_busy, .config = &with_channel},
	{},
};
