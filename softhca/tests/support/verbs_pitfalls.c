// SPDX-License-Identifier: Apache-2.0
/*
 * verbs_pitfalls NAME provoke|avoid: a small program for each warning of softhca, which runs into the pitfall, or does
 * the same without it. In the end it waits for the end of stdin. It knows nothing of softhca.
 */
#include "verbs_common.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAME_BYTES 60
#define GID_INDEX   3      /* RoCE v2 by the IPv4 address */
#define LOOK_US     200000 /* so long that the device has seen what was posted */

static const struct queue_config both = {.depth = 8, .n_sge = 1, .payload_bytes = 2048, .cqe = 64, .send_depth = 8};
static const struct queue_config with_channel = {
	.depth = 8, .n_sge = 1, .payload_bytes = 2048, .cqe = 64, .send_depth = 8, .use_channel = true};

static void send_one(struct queue *q, unsigned int flags)
{
	static const uint8_t head[14] = {255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 7, 0x88, 0xb5};
	struct ibv_sge sge = {.addr = (uintptr_t)q->payloads, .length = FRAME_BYTES, .lkey = q->payload_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags}, *bad;

	memcpy(q->payloads, head, sizeof(head));
	errno = ibv_post_send(q->qp, &wr, &bad);
	if (errno)
		die("ibv_post_send");
}

static struct ibv_cq *cq_of(struct queue *q)
{
	return ibv_cq_ex_to_cq(q->cq);
}

static void poll_all(struct queue *q)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq_of(q), 1, &wc) > 0)
		;
}

static void unsignalled_sends(bool provoke)
{
	struct queue q;

	queue_open(&q, &both);
	for (unsigned int i = 0; i < both.send_depth; i++)
		send_one(&q, !provoke && i == both.send_depth - 1 ? IBV_SEND_SIGNALED : 0);
}

static void *destroy(void *arg)
{
	struct queue *q = arg;

	errno = ibv_destroy_cq(cq_of(q));
	if (errno)
		die("ibv_destroy_cq");
	return NULL;
}

static void get_event(struct queue *q)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(q->channel, &cq, &context))
		die("ibv_get_cq_event");
}

static void unacked_events(bool provoke)
{
	struct queue q;
	pthread_t thread;

	queue_open(&q, &with_channel);
	ibv_req_notify_cq(cq_of(&q), 0);
	send_one(&q, IBV_SEND_SIGNALED);
	get_event(&q);
	if (ibv_destroy_qp(q.qp))
		die("ibv_destroy_qp");
	if (!provoke)
		ibv_ack_cq_events(cq_of(&q), 1);
	pthread_create(&thread, NULL, destroy, &q);
	usleep(LOOK_US);
	if (provoke)
		ibv_ack_cq_events(cq_of(&q), 1);
	pthread_join(thread, NULL);
}

static void *wait_for_event(void *arg)
{
	get_event(arg);
	return NULL;
}

static void unarmed_wait(bool provoke)
{
	struct queue q;
	pthread_t thread;

	queue_open(&q, &with_channel);
	if (!provoke)
		ibv_req_notify_cq(cq_of(&q), 0);
	pthread_create(&thread, NULL, wait_for_event, &q);
	usleep(LOOK_US);
	if (provoke)
		ibv_req_notify_cq(cq_of(&q), 0);
	send_one(&q, IBV_SEND_SIGNALED);
	pthread_join(thread, NULL);
}

static void add_flow(struct queue *q, const char *dst, uint16_t port, uint16_t priority)
{
	struct flow_rule rule;

	flow_init(&rule);
	rule.attr.priority = priority;
	flow_add_ipv4(&rule, dst);
	if (port)
		flow_add_udp(&rule, port);
	if (!ibv_create_flow(q->qp, &rule.attr))
		die("ibv_create_flow");
}

static void flow_order(bool provoke)
{
	struct queue q[2];

	queue_open(&q[0], &both);
	queue_open(&q[1], &both);
	add_flow(&q[0], "10.1.2.3", 4000, 0);
	add_flow(&q[1], "10.1.2.3", 0, provoke ? 0 : 1);
}

static void same_rule(bool provoke)
{
	struct queue q[2];

	queue_open(&q[0], &both);
	queue_open(&q[1], &both);
	add_flow(&q[0], "10.1.2.3", 4000, 0);
	add_flow(&q[1], "10.1.2.3", provoke ? 4000 : 4001, 0);
}

static void late_counter(bool provoke)
{
	struct queue q;

	queue_open(&q, &both);
	if (provoke && queue_add_udp_flow(&q, "10.1.2.3", 4000, false))
		die("a flow");
	if (queue_add_udp_flow(&q, "10.1.2.3", 4000, true))
		die("a flow with counters");
}

static void post_in_error(bool provoke)
{
	struct queue q;

	queue_open(&q, &both);
	queue_to_state(&q, IBV_QPS_ERR);
	if (!provoke) {
		queue_to_state(&q, IBV_QPS_RESET);
		queue_to_state(&q, IBV_QPS_INIT);
	}
	if (queue_post(&q, 0, 2))
		die("post");
}

static void slow_poll(bool provoke)
{
	struct queue_config config = both;
	struct queue q;

	config.depth = config.send_depth = 16;
	config.cqe = provoke ? 15 : 255; /* and one more */
	queue_open(&q, &config);
	for (unsigned int i = 0; i < 13; i++)
		send_one(&q, IBV_SEND_SIGNALED);
}

static void lost_by_reset(bool provoke)
{
	struct queue q;

	queue_open(&q, &both);
	send_one(&q, IBV_SEND_SIGNALED);
	usleep(LOOK_US);
	if (!provoke)
		poll_all(&q);
	queue_to_state(&q, IBV_QPS_RESET);
}

static void no_timestamps(bool provoke)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN};
	struct queue q;

	if (provoke)
		attr.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	queue_open_with(&q, &(struct queue_config){.depth = 4, .n_sge = 1, .payload_bytes = 2048}, &attr);
}

static struct ibv_qp *rc_new(struct queue *q)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq_of(q),
		.recv_cq = cq_of(q),
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = ibv_create_qp(q->pd, &init);

	if (!qp)
		die("ibv_create_qp");
	errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (errno)
		die("INIT");
	return qp;
}

static void rc_connect(struct ibv_qp *qp, const struct ibv_qp *peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
	                           .path_mtu = IBV_MTU_1024,
	                           .dest_qp_num = peer->qp_num,
	                           .max_dest_rd_atomic = 1,
	                           .min_rnr_timer = 14,
	                           .ah_attr = {.is_global = 1,
	                                       .port_num = 1,
	                                       .grh = {.dgid = *gid, .sgid_index = GID_INDEX, .hop_limit = 1}}};

	errno = ibv_modify_qp(qp, &attr,
	                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (errno)
		die("RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 7; /* without end */
	attr.max_rd_atomic = 1;
	errno = ibv_modify_qp(qp, &attr,
	                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	                              IBV_QP_MAX_QP_RD_ATOMIC);
	if (errno)
		die("RTS");
}

static void rc_receive(struct queue *q, struct ibv_qp *qp)
{
	struct ibv_sge sge = {.addr = (uintptr_t)q->payloads, .length = 2048, .lkey = q->payload_mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	errno = ibv_post_recv(qp, &wr, &bad);
	if (errno)
		die("ibv_post_recv");
}

/* Two queue pairs of one device, connected with each other. */
static void receiver_not_ready(bool provoke)
{
	struct queue q;
	struct ibv_qp *reader, *writer;
	union ibv_gid gid;

	queue_open(&q, &both);
	if (ibv_query_gid(q.ctx, 1, GID_INDEX, &gid))
		die("ibv_query_gid");
	reader = rc_new(&q);
	writer = rc_new(&q);
	rc_connect(reader, writer, &gid);
	rc_connect(writer, reader, &gid);
	if (!provoke)
		rc_receive(&q, reader);
	q.qp = writer;
	send_one(&q, IBV_SEND_SIGNALED);
	usleep(LOOK_US);
	if (provoke)
		rc_receive(&q, reader);
}

static void fork_after_registration(bool provoke)
{
	struct queue q;
	int status;
	pid_t child;

	errno = provoke ? 0 : ibv_fork_init();
	if (errno)
		die("ibv_fork_init");
	queue_open(&q, &both);
	child = fork();
	if (!child)
		_exit(0);
	if (waitpid(child, &status, 0) != child || status)
		die("child");
}

/* The entry of a striding queue, as libmlx5's ibv_post_wq_recv() writes it, or as it has to be. */
static void striding_post(bool provoke)
{
	struct ibv_rwq_ind_table_init_attr table = {.log_ind_tbl_size = 0};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct mlx5dv_wq_init_attr dv = {
		.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
		.striding_rq_attrs = {.single_stride_log_num_of_bytes = 6, .single_wqe_log_num_of_strides = 9}};
	struct ibv_sge sge = {.length = 64 << 9};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct mlx5dv_rwq rwq;
	struct mlx5dv_obj obj = {.rwq = {.out = &rwq}};
	struct queue q;

	queue_open(&q, &(struct queue_config){.depth = 1, .n_sge = 1, .payload_bytes = 64 << 9, .cqe = 1023});
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = q.pd, .cq = cq_of(&q)};
	obj.rwq.in = mlx5dv_create_wq(q.ctx, &init, &dv);
	table.ind_tbl = &obj.rwq.in;
	if (!obj.rwq.in || ibv_modify_wq(obj.rwq.in, &ready) || !ibv_create_rwq_ind_table(q.ctx, &table) ||
	    mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ))
		die("a striding queue");
	sge.addr = (uintptr_t)q.payloads;
	sge.lkey = q.payload_mr->lkey;
	if (provoke) {
		if (ibv_post_wq_recv(obj.rwq.in, &wr, &bad))
			die("ibv_post_wq_recv");
		return;
	}
	mlx5dv_set_data_seg(&((struct mlx5_mprq_wqe *)rwq.buf)->dseg, sge.length, sge.lkey, sge.addr);
	__atomic_store_n(rwq.dbrec, htobe32(1), __ATOMIC_RELEASE);
}

static const struct {
	const char *name;
	void (*run)(bool provoke);
} pitfalls[] = {
	{"unsignalled-sends", unsignalled_sends},
	{"unacked-events", unacked_events},
	{"unarmed-wait", unarmed_wait},
	{"flow-order", flow_order},
	{"same-rule", same_rule},
	{"late-counter", late_counter},
	{"post-in-error", post_in_error},
	{"slow-poll", slow_poll},
	{"lost-by-reset", lost_by_reset},
	{"no-timestamps", no_timestamps},
	{"receiver-not-ready", receiver_not_ready},
	{"fork-after-registration", fork_after_registration},
	{"striding-post", striding_post},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 3 && i < sizeof(pitfalls) / sizeof(pitfalls[0]); i++)
		if (!strcmp(argv[1], pitfalls[i].name)) {
			pitfalls[i].run(!strcmp(argv[2], "provoke"));
			usleep(LOOK_US);
			puts("done");
			fflush(stdout);
			while (getchar() != EOF)
				;
			return EXIT_SUCCESS;
		}
	die("verbs_pitfalls NAME provoke|avoid");
}
