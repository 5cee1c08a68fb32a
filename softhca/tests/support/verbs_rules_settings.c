// SPDX-License-Identifier: Apache-2.0
/* Rules that a device keeps under one setting of softhca: real-time stamps only, small flow tables, switchdev mode. */
#include "verbs_rules.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct queue_config small = {.depth = 8, .n_sge = 2, .payload_bytes = 2048};

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq_ex *send_cq, struct ibv_cq_ex *recv_cq,
                                unsigned int n_send)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = ibv_cq_ex_to_cq(send_cq),
		.recv_cq = ibv_cq_ex_to_cq(recv_cq),
		.cap = {.max_recv_wr = 4, .max_recv_sge = 1, .max_send_wr = n_send, .max_send_sge = !!n_send},
		.qp_type = IBV_QPT_RAW_PACKET,
	};

	return ibv_create_qp(pd, &attr);
}

static struct ibv_cq_ex *create_cq(struct ibv_context *ctx, uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | wc_flags};

	return ibv_create_cq_ex(ctx, &attr);
}

/* The CQ can be had, but no queue that completes there. */
static const char *only_real_time(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
	struct queue q;
	struct ibv_cq_ex *plain, *raw, *both;
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1};
	struct ibv_qp *qp;

	queue_open_with(&q, &small, &attr); /* the wall clock alone */
	plain = create_cq(q.ctx, 0);
	raw = create_cq(q.ctx, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
	both = create_cq(q.ctx, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	EXPECT(plain && raw && both, "a CQ was refused");
	EXPECT_ERRNO(EOPNOTSUPP, create_qp(q.pd, plain, raw, 0));
	EXPECT_ERRNO(EOPNOTSUPP, create_qp(q.pd, plain, both, 0));
	EXPECT_ERRNO(EOPNOTSUPP, create_qp(q.pd, raw, plain, 4));
	qp = create_qp(q.pd, raw, plain, 0);
	EXPECT(qp, "the CQ of a send queue that is not there was looked at");
	EXPECT_RETURNS(0, ibv_destroy_qp(qp));
	qp = create_qp(q.pd, plain, q.cq, 4);
	EXPECT(qp, "CQs without raw timestamps were refused");
	EXPECT_RETURNS(0, ibv_destroy_qp(qp));
	wq.pd = q.pd;
	wq.cq = ibv_cq_ex_to_cq(raw);
	EXPECT_ERRNO(EOPNOTSUPP, ibv_create_wq(q.ctx, &wq));
	EXPECT_RETURNS(0, ibv_destroy_cq(ibv_cq_ex_to_cq(plain)));
	EXPECT_RETURNS(0, ibv_destroy_cq(ibv_cq_ex_to_cq(raw)));
	EXPECT_RETURNS(0, ibv_destroy_cq(ibv_cq_ex_to_cq(both)));
	queue_close(&q);
	return NULL;
}

const struct rule real_time_rules[] = {
	{"only-real-time", "mlx5_ib: get_ts_format", .check = only_real_time},
	{},
};

static struct ibv_flow *create_flow(struct queue *q, uint16_t port)
{
	struct flow_rule f;

	flow_init(&f);
	flow_add_eth(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	flow_add_udp(&f, port);
	return ibv_create_flow(q->qp, &f.attr);
}

/* 70 entries. */
static const char *flow_table_is_full(void)
{
	struct ibv_flow *flows[70];

	for (uint16_t i = 0; i < 70; i++) {
		flows[i] = create_flow(shared_queue(), 1000 + i);
		EXPECT(flows[i], "fewer flows than entries");
	}
	EXPECT_ERRNO(ENOSPC, create_flow(shared_queue(), 2000));
	EXPECT_RETURNS(0, ibv_destroy_flow(flows[35]));
	flows[35] = create_flow(shared_queue(), 2000);
	EXPECT(flows[35], "an entry that is free again was not used");
	for (unsigned int i = 0; i < 70; i++)
		EXPECT_RETURNS(0, ibv_destroy_flow(flows[i]));
	return NULL;
}

const struct rule flow_entries_rules[] = {
	{"flow-table-is-full", "mlx5_core: alloc_auto_flow_group", .check = flow_table_is_full},
	{},
};

/* The uplink is the last port. The first is the physical function, which has no representor. */
static const char *uplink_is_the_last_port(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid gid;

	EXPECT_RETURNS(0, ibv_query_device(ctx, &device));
	EXPECT(device.phys_port_cnt == 2, "not two ports");
	EXPECT_RETURNS(0, ibv_query_port(ctx, 1, &port));
	EXPECT(port.state == IBV_PORT_DOWN, "a port without a representor is up");
	EXPECT_RETURNS(0, ibv_query_port(ctx, 2, &port));
	EXPECT(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET, "the uplink is down");
	EXPECT(!port.gid_tbl_len && !port.port_cap_flags, "a representor has GIDs");
	EXPECT(ibv_query_gid(ctx, 2, 0, &gid), "a representor has a GID");
	EXPECT_RETURNS(0, ibv_close_device(ctx));
	ibv_free_device_list(list);
	return NULL;
}

static const char *only_the_uplink_has_flows(void)
{
	static const struct queue_config sends = {
		.depth = 8, .n_sge = 2, .payload_bytes = 2048, .send_depth = 4, .port = 2};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_flow *flow;
	struct flow_rule f;
	struct queue q;

	queue_open(&q, &sends);
	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	f.attr.port = 1;
	EXPECT_ERRNO(EINVAL, ibv_create_flow(q.qp, &f.attr));
	f.attr.port = 2;
	flow = ibv_create_flow(q.qp, &f.attr);
	EXPECT(flow, "a flow of the uplink was refused");
	EXPECT_RETURNS(0, ibv_destroy_flow(flow));
	queue_to_state(&q, IBV_QPS_RESET);
	EXPECT_RETURNS(0, ibv_modify_qp(q.qp, &attr, IBV_QP_STATE | IBV_QP_PORT));
	attr.qp_state = IBV_QPS_RTR;
	EXPECT_RETURNS(0, ibv_modify_qp(q.qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	EXPECT_RETURNS(EINVAL, ibv_modify_qp(q.qp, &attr, IBV_QP_STATE));
	queue_close(&q);
	return NULL;
}

const struct rule switchdev_rules[] = {
	{"uplink-is-the-last-port", "mlx5_ib: mlx5_ib_vport_rep_load, mlx5_query_port_roce",
         .check = uplink_is_the_last_port},
	{"only-the-uplink-has-flows", "mlx5_ib: _create_flow_rule, create_flow_rule_vport_sq",
         .check = only_the_uplink_has_flows},
	{},
};

static const char *no_gids_without_roce(void)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	EXPECT_RETURNS(0, ibv_query_port(shared_queue()->ctx, 1, &port));
	EXPECT(!port.gid_tbl_len && !port.port_cap_flags, "GIDs without RoCE");
	EXPECT(ibv_query_gid(shared_queue()->ctx, 1, 0, &gid), "a GID without RoCE");
	return NULL;
}

const struct rule roce_rules[] = {
	{"no-gids-without-roce", "mlx5_ib: mlx5_query_port_roce", .check = no_gids_without_roce},
	{},
};

/* 20 objects. */
static const char *objects_are_charged(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	struct ibv_pd *pds[21];
	unsigned int n = 0;

	while (n < 21 && (pds[n] = ibv_alloc_pd(ctx)))
		n++;
	EXPECT(n && n <= 20 && errno == EAGAIN, "no limit, or another error");
	EXPECT_ERRNO(EAGAIN, ibv_create_cq(ctx, 1, NULL, NULL, 0));
	while (n)
		EXPECT_RETURNS(0, ibv_dealloc_pd(pds[--n]));
	EXPECT_RETURNS(0, ibv_close_device(ctx));
	ibv_free_device_list(list);
	return NULL;
}

const struct rule objects_rules[] = {
	{"objects-are-charged", "ib_core: rdmacg_try_charge", .check = objects_are_charged},
	{},
};

static const char *vectors_as_set(void)
{
	struct ibv_cq *cq;

	EXPECT(shared_queue()->ctx->num_comp_vectors == 63, "another number");
	cq = ibv_create_cq(shared_queue()->ctx, 1, NULL, NULL, 62);
	EXPECT(cq, "the last vector was refused");
	EXPECT_RETURNS(0, ibv_destroy_cq(cq));
	EXPECT_ERRNO(EINVAL, ibv_create_cq(shared_queue()->ctx, 1, NULL, NULL, 63));
	return NULL;
}

const struct rule comp_vectors_rules[] = {
	{"cq-vectors-as-set", "ib_uverbs: num_comp_vectors", .check = vectors_as_set},
	{},
};

/* The rule itself makes the directory that SOFTHCA_FAULTS names. */
static void switch_fault(const char *name, bool on)
{
	const char *directory = getenv("SOFTHCA_FAULTS");
	char path[256];

	mkdir(directory, 0755);
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (on)
		close(open(path, O_CREAT | O_WRONLY, 0644));
	else
		unlink(path);
	if (!on)
		rmdir(directory);
}

static const char *dead_context(struct queue *q)
{
	struct ibv_async_event event;
	struct ibv_port_attr port;

	EXPECT_RETURNS(0, ibv_get_async_event(q->ctx, &event));
	EXPECT(event.event_type == IBV_EVENT_DEVICE_FATAL, "another event");
	ibv_ack_async_event(&event);
	EXPECT_ERRNO(EIO, ibv_alloc_pd(q->ctx));
	EXPECT(ibv_query_port(q->ctx, 1, &port) == EIO, "a dead device has a port");
	EXPECT(queue_add_udp_flow(q, "10.1.2.3", 4003, false) == EIO, "a dead device takes flows");
	return NULL;
}

static const char *device_fatal(void)
{
	const char *seen;
	struct queue q, anew;
	struct ibv_flow *flow;

	queue_open(&q, &small);
	EXPECT(!queue_post(&q, 0, 8) && !queue_add_udp_flow(&q, "10.1.2.3", 4002, false), "no queue");
	flow = q.flow;
	switch_fault("fatal", true);
	seen = dead_context(&q);
	if (seen)
		return seen;
	EXPECT(next_status(&q, 100, NULL) == -1, "a completion of a dead device");
	switch_fault("fatal", false);
	EXPECT_ERRNO(EIO, ibv_alloc_pd(q.ctx));
	EXPECT_RETURNS(0, ibv_destroy_flow(flow));
	EXPECT_RETURNS(0, ibv_destroy_qp(q.qp));
	EXPECT_RETURNS(0, ibv_close_device(q.ctx));
	queue_open(&anew, &small);
	queue_close(&anew);
	return NULL;
}

/* The file of asynchronous events of an imported context is one of its own. */
static const char *import_gets_events(void)
{
	struct queue q;
	struct ibv_context *imported;
	struct ibv_async_event event;
	const char *seen;

	queue_open(&q, &small);
	imported = ibv_import_device(dup(q.ctx->cmd_fd));
	EXPECT(imported, "no import");
	switch_fault("fatal", true);
	EXPECT_RETURNS(0, ibv_get_async_event(imported, &event));
	EXPECT(event.event_type == IBV_EVENT_DEVICE_FATAL, "another event");
	ibv_ack_async_event(&event);
	seen = dead_context(&q);
	switch_fault("fatal", false);
	if (seen)
		return seen;
	EXPECT_RETURNS(0, ibv_close_device(imported));
	EXPECT_RETURNS(0, ibv_close_device(q.ctx));
	return NULL;
}

const struct rule faults_rules[] = {
	{"import-gets-events", "ib_core: ib_dispatch_event; ib_uverbs: UVERBS_METHOD_ASYNC_EVENT_ALLOC",
         .check = import_gets_events},
	{"device-fatal", "mlx5_core: mlx5_internal_err_ret_value; mlx5_ib: MLX5_DEV_EVENT_SYS_ERROR",
         .check = device_fatal},
	{},
};
