// SPDX-License-Identifier: Apache-2.0
/* Rules of receiving. These need frames from the other end of the wire. */
#include "verbs_rules.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PORT         4100
#define UDP_OVERHEAD 42

static const struct queue_config small = {.depth = 8, .n_sge = 2, .payload_bytes = 1000};
static const struct queue_config with_sending = {.depth = 8, .n_sge = 2, .payload_bytes = 1000, .send_depth = 8};
static const struct queue_config with_channel = {.depth = 8, .n_sge = 2, .payload_bytes = 1000, .use_channel = true};
static const struct queue_config with_null_sink = {.depth = 8, .n_sge = 2, .payload_bytes = 1000, .null_sink = true};

struct seen {
	unsigned int n, good;
	enum ibv_wc_status first_error;
	uint32_t byte_len;
};

/* Polls until `n` completions or a second has passed. */
static struct seen drain(struct queue *q, unsigned int n)
{
	uint64_t end = now_ns() + 1000000000u;
	struct seen s = {};

	while (s.n < n && now_ns() < end) {
		struct ibv_poll_cq_attr attr = {};

		if (ibv_start_poll(q->cq, &attr))
			continue;
		do {
			s.n++;
			if (!q->cq->status) {
				s.good++;
				s.byte_len = ibv_wc_read_byte_len(q->cq);
			} else if (!s.first_error) {
				s.first_error = q->cq->status;
			}
		} while (!ibv_next_poll(q->cq));
		ibv_end_poll(q->cq);
	}
	return s;
}

static uint64_t out_of_buffer(const struct queue *q)
{
	char path[128], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/out_of_buffer",
	         ibv_get_device_name(q->ctx->device));
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		die("%s", path);
	close(fd);
	return strtoull(text, NULL, 10);
}

static bool matched_becomes(struct queue *q, uint64_t n)
{
	for (int i = 0; i < 200 && queue_matched(q) < n; i++)
		usleep(5000);
	return queue_matched(q) == n;
}

static const char *starvation(struct queue *q)
{
	uint64_t before;

	before = out_of_buffer(q);
	EXPECT_RETURNS(0, queue_post(q, 0, 5));
	EXPECT_RETURNS(0, queue_add_udp_flow(q, NULL, PORT, true));
	ask_for_frames(PORT, 12, 500);
	EXPECT(drain(q, 5).good == 5, "not as many received as posted");
	EXPECT(matched_becomes(q, 12), "not every packet was counted at steering");
	EXPECT(out_of_buffer(q) - before == 7, "out_of_buffer is not what was dropped");
	return NULL;
}

static const char *flow_before_rtr(struct queue *q)
{
	uint64_t before;

	queue_to_state(q, IBV_QPS_RESET);
	queue_to_state(q, IBV_QPS_INIT);
	before = out_of_buffer(q);
	EXPECT_RETURNS(0, queue_post(q, 0, 8));
	EXPECT_RETURNS(0, queue_add_udp_flow(q, NULL, PORT, true));
	ask_for_frames(PORT, 3, 500);
	EXPECT(matched_becomes(q, 3), "matches before RTR were not counted");
	EXPECT(drain(q, 1).n == 0, "a completion before RTR");
	EXPECT(out_of_buffer(q) == before, "dropped before RTR with a name");
	queue_to_state(q, IBV_QPS_RTR);
	ask_for_frames(PORT, 2, 500);
	EXPECT(drain(q, 2).good == 2, "RTR does not receive");
	return NULL;
}

static const char *too_long(struct queue *q)
{
	struct seen s;

	EXPECT_RETURNS(0, queue_post(q, 0, 4));
	EXPECT_RETURNS(0, queue_add_udp_flow(q, NULL, PORT, true));
	ask_for_frames(PORT, 1, 1001);
	s = drain(q, 1);
	EXPECT(s.n == 1 && s.first_error == IBV_WC_LOC_LEN_ERR, "no LOC_LEN_ERR");
	ask_for_frames(PORT, 3, 1000);
	s = drain(q, 3);
	EXPECT(s.good == 3 && s.byte_len == 1000 + UDP_OVERHEAD, "the queue stopped");
	return NULL;
}

static const char *null_sink(struct queue *q)
{
	struct seen s;

	EXPECT_RETURNS(0, queue_post(q, 0, 4));
	EXPECT_RETURNS(0, queue_add_udp_flow(q, NULL, PORT, true));
	ask_for_frames(PORT, 1, 1400);
	s = drain(q, 1);
	EXPECT(s.good == 1 && s.byte_len == 1400 + UDP_OVERHEAD, "no success with an excess length");
	return NULL;
}

static const char *post_raw(struct queue *q, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 1}, *bad;

	EXPECT_RETURNS(0, ibv_post_recv(q->qp, &wr, &bad));
	return NULL;
}

static const char *protection(struct queue *q, struct ibv_sge *sge)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pollfd p = {.fd = q->ctx->async_fd, .events = POLLIN};
	struct seen s;

	EXPECT(!post_raw(q, sge) && !queue_post(q, 0, 2), "posting failed");
	EXPECT_RETURNS(0, queue_add_udp_flow(q, NULL, PORT, true));
	ask_for_frames(PORT, 1, 500);
	s = drain(q, 3);
	EXPECT(s.n == 3 && s.first_error == IBV_WC_LOC_PROT_ERR, "no LOC_PROT_ERR and flush");
	EXPECT_RETURNS(0, ibv_query_qp(q->qp, &attr, IBV_QP_STATE, &init));
	EXPECT(attr.qp_state == IBV_QPS_ERR, "the queue pair is not in error");
	/* IB specification 10.10.2: what a completion told needs no asynchronous error. */
	if (!getenv("SOFTHCA_ERROR_EVENTS")) {
		EXPECT(!poll(&p, 1, 0), "an asynchronous event beside the completion");
	} else {
		struct ibv_async_event event;

		EXPECT(!ibv_get_async_event(q->ctx, &event) && event.event_type == IBV_EVENT_QP_FATAL,
		       "another event than QP_FATAL");
		ibv_ack_async_event(&event);
	}
	return NULL;
}

/* Only the receive queue is in error: the kernel calls that a bug of its own. */
static const char *error_beside_ready_send(struct queue *q)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	struct ibv_sge sge = {(uintptr_t)q->payloads, 1000, q->payload_mr->lkey ^ 0x5500};
	EXPECT(!post_raw(q, &sge) && !queue_add_udp_flow(q, NULL, PORT, false), "no queue");
	ask_for_frames(PORT, 1, 500);
	EXPECT(drain(q, 1).first_error == IBV_WC_LOC_PROT_ERR, "no LOC_PROT_ERR");
	EXPECT_RETURNS(EINVAL, ibv_query_qp(q->qp, &attr, IBV_QP_STATE, &init));
	queue_to_state(q, IBV_QPS_RESET);
	EXPECT_RETURNS(0, ibv_query_qp(q->qp, &attr, IBV_QP_STATE, &init));
	EXPECT(attr.qp_state == IBV_QPS_RESET, "RESET does not mend it");
	return NULL;
}

static const char *wrong_key(struct queue *q)
{
	struct ibv_sge sge = {(uintptr_t)q->payloads, 1000, q->payload_mr->lkey ^ 0x5500};

	return protection(q, &sge);
}

static const char *out_of_bounds(struct queue *q)
{
	struct ibv_sge sge = {(uintptr_t)q->payloads + 7900, 1000, q->payload_mr->lkey};

	return protection(q, &sge);
}

static const char *no_local_write(struct queue *q)
{
	const char *r;
	struct ibv_mr *mr;

	mr = ibv_reg_mr(q->pd, q->payloads, 8000, 0);
	struct ibv_sge sge = {(uintptr_t)q->payloads, 1000, mr->lkey};
	r = protection(q, &sge);
	ibv_dereg_mr(mr);
	return r;
}

static const char *other_domain(struct queue *q)
{
	const char *r;
	struct ibv_mr *mr;
	struct ibv_pd *pd;

	pd = ibv_alloc_pd(q->ctx);
	mr = ibv_reg_mr(pd, q->payloads, 8000, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)q->payloads, 1000, mr->lkey};
	r = protection(q, &sge);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	return r;
}

static const char *arm_gives_one_event(struct queue *q)
{
	struct pollfd p = {.events = POLLIN};
	struct ibv_cq *cq;
	void *ctx;

	p.fd = q->channel->fd;
	EXPECT_RETURNS(0, queue_post(q, 0, 8));
	EXPECT_RETURNS(0, queue_add_udp_flow(q, NULL, PORT, true));
	ask_for_frames(PORT, 1, 500);
	EXPECT(drain(q, 1).good == 1, "nothing received");
	EXPECT(poll(&p, 1, 100) == 0, "an event though never armed");
	EXPECT_RETURNS(0, ibv_req_notify_cq(ibv_cq_ex_to_cq(q->cq), 0));
	EXPECT(poll(&p, 1, 100) == 0, "an event though nothing completed");
	ask_for_frames(PORT, 3, 500);
	EXPECT(poll(&p, 1, 1000) == 1, "no event at the next completion");
	EXPECT(!ibv_get_cq_event(q->channel, &cq, &ctx) && cq == ibv_cq_ex_to_cq(q->cq), "wrong CQ");
	EXPECT(poll(&p, 1, 100) == 0, "more than one event for one arming");
	EXPECT(drain(q, 3).good == 3, "completions lost");
	EXPECT_RETURNS(0, ibv_req_notify_cq(ibv_cq_ex_to_cq(q->cq), 1));
	ask_for_frames(PORT, 1, 500);
	EXPECT(poll(&p, 1, 100) == 0, "an unsolicited completion woke a solicited-only arming");
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

/* Only too early is wrong: the machine may be busy. */
static const char *moderation_delays(struct queue *q)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
	                                  .moderate = {.cq_count = 1000, .cq_period = 4095}};
	struct ibv_cq *cq;
	uint64_t start;
	void *ctx;

	EXPECT_RETURNS(0, ibv_modify_cq(ibv_cq_ex_to_cq(q->cq), &attr));
	EXPECT(!queue_post(q, 0, 8) && !queue_add_udp_flow(q, NULL, PORT, false), "no queue");
	EXPECT_RETURNS(0, ibv_req_notify_cq(ibv_cq_ex_to_cq(q->cq), 0));
	start = now_ns();
	ask_for_frames(PORT, 2, 500);
	EXPECT_RETURNS(0, ibv_get_cq_event(q->channel, &cq, &ctx));
	EXPECT(now_ns() - start >= 4095000, "an event before the period, with less than the count");
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

/* A stamp of the wall clock, free-running or as a device in real-time mode. */
static const char *wall_clock(void)
{
	const bool real_time = getenv("SOFTHCA_REAL_TIME");
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
	struct ibv_poll_cq_attr poll_attr = {};
	struct timespec now;
	struct queue q;
	uint64_t stamp;

	queue_open_with(&q, &small, &cq_attr);
	EXPECT(!queue_post(&q, 0, 8) && !queue_add_udp_flow(&q, NULL, PORT, false), "no queue");
	ask_for_frames(PORT, 1, 500);
	while (ibv_start_poll(q.cq, &poll_attr))
		wait_a_little();
	stamp = ibv_wc_read_completion_wallclock_ns(q.cq);
	ibv_end_poll(q.cq);
	clock_gettime(CLOCK_REALTIME, &now);
	stamp = real_time ? stamp >> 32 : stamp / 1000000000u;
	EXPECT(stamp <= (uint64_t)now.tv_sec + 1 && stamp + 60 > (uint64_t)now.tv_sec, "not the time of day");
	queue_close(&q);
	return NULL;
}

static const char *same_rule_two_queues(void)
{
	struct queue a, b;

	queue_open(&a, &small);
	queue_open(&b, &small);
	EXPECT(!queue_post(&a, 0, 4) && !queue_post(&b, 0, 4), "posting failed");
	EXPECT(!queue_add_udp_flow(&a, NULL, PORT, true) && !queue_add_udp_flow(&b, NULL, PORT, true), "flows refused");
	ask_for_frames(PORT, 2, 500);
	EXPECT(drain(&a, 2).good == 2 && drain(&b, 2).good == 2, "not both got a copy");
	queue_close(&a);
	queue_close(&b);
	return NULL;
}

const struct rule receive_rules[] = {
	{"cq-wall-clock", "verbs-rules: Loss and time; mlx5_ib: get_ts_format", .check = wall_clock},
	{"recv-same-rule-two-queues", "mlx5_core: add_rule_fg", .check = same_rule_two_queues},
	{"recv-starvation-counts", "verbs-rules: Loss and time", .check_queue = starvation, .config = &small},
	{"recv-flow-before-rtr", "verbs-rules: Bring-up and tear-down", .check_queue = flow_before_rtr,
         .config = &small},
	{"recv-too-long", "verbs-rules: Posting and polling", .check_queue = too_long, .config = &small},
	{"recv-null-sink", "verbs-rules: Posting and polling", .check_queue = null_sink, .config = &with_null_sink},
	{"recv-wrong-key", "PRM: memory key checks", .check_queue = wrong_key, .config = &small},
	{"recv-out-of-bounds", "PRM: memory key checks", .check_queue = out_of_bounds, .config = &small},
	{"recv-no-local-write", "PRM: memory key checks", .check_queue = no_local_write, .config = &small},
	{"recv-other-domain", "PRM: memory key checks", .check_queue = other_domain, .config = &small},
	{"recv-error-beside-ready-send", "mlx5_ib: sqrq_state_to_qp_state", .check_queue = error_beside_ready_send,
         .config = &with_sending},
	{"recv-arm-gives-one-event", "PRM: completion event request", .check_queue = arm_gives_one_event,
         .config = &with_channel},
	{"cq-moderation-delays", "PRM: CQ context, cq_period", .check_queue = moderation_delays,
         .config = &with_channel},
	{},
};
