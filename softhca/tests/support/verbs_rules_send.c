// SPDX-License-Identifier: Apache-2.0
/* Rules of sending. The test at the other end of the wire checks the frames themselves. */
#include "verbs_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct queue_config config = {.depth = 8, .n_sge = 2, .payload_bytes = 2048, .send_depth = 8};

static int post(struct queue *q, unsigned int id, uint32_t bytes, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)q->payloads, bytes, q->payload_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id,
	                         .sg_list = &sge,
	                         .num_sge = 1,
	                         .opcode = IBV_WR_SEND,
	                         .send_flags = flags},
			   *bad;

	return ibv_post_send(q->qp, &wr, &bad);
}

/* One completion within a second: its status, or -1. */
static int one(struct queue *q, uint64_t *wr_id)
{
	return next_status(q, 1000, wr_id);
}

/* A request whose key no region has. */
static int post_wrong_key(struct queue *q, unsigned int id)
{
	int r;

	q->payload_mr->lkey ^= 0x5500;
	r = post(q, id, 100, 0);
	q->payload_mr->lkey ^= 0x5500;
	return r;
}

static void frame(struct queue *q)
{
	memset(q->payloads, 0xff, 12);
	q->payloads[6] = 2;
	q->payloads[12] = 0x88;
	q->payloads[13] = 0xb5; /* a type for experiments */
}

static const char *only_signalled_complete(struct queue *q)
{
	uint64_t id = 0;

	frame(q);
	EXPECT_RETURNS(0, post(q, 1, 100, 0));
	EXPECT_RETURNS(0, post(q, 2, 100, 0));
	EXPECT_RETURNS(0, post(q, 3, 100, IBV_SEND_SIGNALED));
	EXPECT(one(q, &id) == IBV_WC_SUCCESS && id == 3, "not one completion, for the third");
	EXPECT(one(q, &id) == -1, "an unsignalled request completed");
	return NULL;
}

static const char *slots_free_at_signalled(struct queue *q)
{
	uint64_t id;
	int n = 0;

	frame(q);
	while (!post(q, 0, 100, 0))
		n++;
	EXPECT(n >= 8, "fewer slots than asked for");
	usleep(50000);
	EXPECT_RETURNS(ENOMEM, post(q, 0, 100, IBV_SEND_SIGNALED));
	EXPECT(one(q, &id) == -1, "a completion from nowhere");
	return NULL;
}

static const char *key_checked(struct queue *q)
{
	uint64_t id;

	frame(q);
	EXPECT_RETURNS(0, post_wrong_key(q, 7));
	EXPECT(one(q, &id) == IBV_WC_LOC_PROT_ERR && id == 7, "no LOC_PROT_ERR");
	return NULL;
}

static const char *not_before_rts(struct queue *q)
{
	queue_to_state(q, IBV_QPS_RESET);
	queue_to_state(q, IBV_QPS_INIT);
	queue_to_state(q, IBV_QPS_RTR);
	EXPECT_RETURNS(ENOMEM, post(q, 0, 100, IBV_SEND_SIGNALED));
	return NULL;
}

/* A whole frame from the test, all of it inline, its checksums left to the device. */
static const char *inline_with_checksums(struct queue *q)
{
	const char *hex = getenv("FRAME");
	unsigned int bytes = 0, b;
	uint64_t id;

	EXPECT(hex, "the test gives no FRAME");
	for (; sscanf(hex + 2 * bytes, "%2x", &b) == 1; bytes++)
		q->payloads[bytes] = (uint8_t)b;
	q->payload_mr->lkey ^= 0x5500; /* inline data needs no key */
	EXPECT_RETURNS(0, post(q, 1, bytes, IBV_SEND_INLINE | IBV_SEND_IP_CSUM | IBV_SEND_SIGNALED));
	q->payload_mr->lkey ^= 0x5500;
	memset(q->payloads, 0, bytes); /* nor the buffer, once posted */
	EXPECT(one(q, &id) == IBV_WC_SUCCESS, "not sent");
	return NULL;
}

static const char *two_segments(struct queue *q)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint64_t id;

	frame(q);
	memcpy(q->headers, q->payloads, 42);
	for (int i = 0; i < 200; i++)
		q->payloads[i] = (uint8_t)i;
	sge[0] = (struct ibv_sge){(uintptr_t)q->headers, 42, q->header_mr->lkey};
	sge[1] = (struct ibv_sge){(uintptr_t)q->payloads, 200, q->payload_mr->lkey};
	for (int i = 0; i < 50; i++) { /* round the queue's end several times */
		EXPECT_RETURNS(0, ibv_post_send(q->qp, &wr, &bad));
		EXPECT(one(q, &id) == IBV_WC_SUCCESS, "not sent");
	}
	return NULL;
}

/* A request of one segment, its fields as given. */
static int post_segment(struct queue *q, uint64_t id, struct ibv_sge sge)
{
	struct ibv_send_wr wr = {.wr_id = id,
	                         .sg_list = &sge,
	                         .num_sge = 1,
	                         .opcode = IBV_WR_SEND,
	                         .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	return ibv_post_send(q->qp, &wr, &bad);
}

/* One request after another: the first is wrong, the others are flushed. */
static const char *error_flushes(struct queue *q)
{
	uint64_t id;

	frame(q);
	EXPECT_RETURNS(0, post_wrong_key(q, 1));
	EXPECT(one(q, &id) == IBV_WC_LOC_PROT_ERR && id == 1, "no LOC_PROT_ERR");
	for (unsigned int i = 2; i < 5; i++) {
		EXPECT_RETURNS(0, post(q, i, 100, 0));
		EXPECT(one(q, &id) == IBV_WC_WR_FLUSH_ERR && id == i,
		       "an unsignalled request behind the error is not flushed");
	}
	return NULL;
}

/* RESET forgets what was posted, and the queue pair works again. */
static const char *reset_revives(struct queue *q)
{
	uint64_t id;

	frame(q);
	EXPECT_RETURNS(0, post_wrong_key(q, 1));
	EXPECT(one(q, &id) == IBV_WC_LOC_PROT_ERR, "no LOC_PROT_ERR");
	revive(q);
	EXPECT_RETURNS(0, post(q, 2, 100, IBV_SEND_SIGNALED));
	EXPECT(one(q, &id) == IBV_WC_SUCCESS && id == 2, "no success after RESET");
	return NULL;
}

static const char *bounds_checked(void)
{
	uint64_t id;

	for (int i = 0; i < 3; i++) {
		struct queue q;
		struct ibv_sge sge;

		queue_open(&q, &config);
		frame(&q);
		uint64_t start = (uintptr_t)q.payloads, bytes = q.payload_mr->length;
		sge = i == 0   ? (struct ibv_sge){start + bytes - 99, 100, q.payload_mr->lkey}
		      : i == 1 ? (struct ibv_sge){start - 1, 100, q.payload_mr->lkey}
		               : (struct ibv_sge){start, 100, q.header_mr->lkey};
		EXPECT_RETURNS(0, post_segment(&q, 5, sge));
		EXPECT(one(&q, &id) == IBV_WC_LOC_PROT_ERR && id == 5, "no LOC_PROT_ERR out of bounds");
		queue_close(&q);
	}
	return NULL;
}

static const char *domain_checked(struct queue *q)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint64_t id;

	frame(q);
	pd = ibv_alloc_pd(q->ctx);
	EXPECT(pd, "ibv_alloc_pd");
	mr = ibv_reg_mr(pd, q->payloads, 4096, 0);
	EXPECT(mr, "ibv_reg_mr");
	EXPECT_RETURNS(0, post_segment(q, 6, (struct ibv_sge){(uintptr_t)q->payloads, 100, mr->lkey}));
	EXPECT(one(q, &id) == IBV_WC_LOC_PROT_ERR && id == 6, "another domain's key is taken");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	EXPECT_RETURNS(0, ibv_dealloc_pd(pd));
	return NULL;
}

/* Sending reads: memory that may only be read will do. */
static const char *read_only_memory(struct queue *q)
{
	struct ibv_mr *mr;
	uint64_t id;

	frame(q);
	mr = ibv_reg_mr(q->pd, q->payloads, 4096, 0);
	EXPECT(mr, "ibv_reg_mr");
	EXPECT_RETURNS(0, post_segment(q, 6, (struct ibv_sge){(uintptr_t)q->payloads, 100, mr->lkey}));
	EXPECT(one(q, &id) == IBV_WC_SUCCESS, "memory without LOCAL_WRITE is not sent");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	return NULL;
}

static const char *wrong_opcode(struct queue *q)
{
	uint64_t id;

	frame(q);
	struct ibv_sge sge = {(uintptr_t)q->payloads, 100, q->payload_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 8, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	EXPECT_RETURNS(0, ibv_post_send(q->qp, &wr, &bad));
	EXPECT(one(q, &id) == IBV_WC_LOC_QP_OP_ERR && id == 8, "no LOC_QP_OP_ERR");
	EXPECT(ibv_wc_read_vendor_err(q->cq) == 0x68, "another vendor syndrome"); /* openucx/ucx issue 3618 */
	return NULL;
}

static const char *no_header(struct queue *q)
{
	uint64_t id;

	frame(q);
	EXPECT_RETURNS(0, post(q, 9, 13, 0));
	EXPECT(one(q, &id) == IBV_WC_LOC_QP_OP_ERR && id == 9, "13 bytes went out as a frame");
	return NULL;
}

/* The capabilities say that there is none, and libmlx5 keeps to them. */
static const char *no_tso(struct queue *q)
{
	struct ibv_device_attr_ex attr = {};
	uint8_t header[42] = {};

	EXPECT_RETURNS(0, ibv_query_device_ex(q->ctx, NULL, &attr));
	EXPECT(!attr.tso_caps.max_tso, "TSO is offered");
	frame(q);
	struct ibv_sge sge = {(uintptr_t)q->payloads, 1000, q->payload_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
	                         .num_sge = 1,
	                         .opcode = IBV_WR_TSO,
	                         .tso = {.hdr = header, .hdr_sz = 42, .mss = 500}},
			   *bad;
	EXPECT_RETURNS(EINVAL, ibv_post_send(q->qp, &wr, &bad));
	return NULL;
}

static const char *limits(struct queue *q)
{
	struct ibv_sge sge[32];
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	frame(q);
	EXPECT_RETURNS(0, ibv_query_qp(q->qp, &attr, IBV_QP_CAP, &init));
	EXPECT(init.cap.max_send_sge < 31, "more segments than the test has");
	for (int i = 0; i < 32; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)q->payloads, 50, q->payload_mr->lkey};
	struct ibv_send_wr first = {.num_sge = 1, .opcode = IBV_WR_SEND, .sg_list = sge};
	struct ibv_send_wr second = {.num_sge = (int)init.cap.max_send_sge + 1, .opcode = IBV_WR_SEND, .sg_list = sge},
			   *bad = NULL;
	first.next = &second;
	EXPECT_RETURNS(ENOMEM, ibv_post_send(q->qp, &first, &bad));
	EXPECT(bad == &second, "bad_wr is not the first that was not posted");
	second.num_sge = 1;
	sge[0].length = init.cap.max_inline_data + 1;
	second.send_flags = IBV_SEND_INLINE;
	EXPECT_RETURNS(ENOMEM, ibv_post_send(q->qp, &second, &bad));
	return NULL;
}

const struct rule send_rules[] = {
	{"send-bounds-checked", "PRM: memory key checks", .check = bounds_checked},
	{"send-only-signalled-complete", "verbs-rules: Posting and polling", .check_queue = only_signalled_complete,
         .config = &config},
	{"send-slots-free-at-signalled", "verbs-rules: Posting and polling", .check_queue = slots_free_at_signalled,
         .config = &config},
	{"send-key-checked", "PRM: memory key checks", .check_queue = key_checked, .config = &config},
	{"send-not-before-rts", "libmlx5: qp_state_max_gs", .check_queue = not_before_rts, .config = &config},
	{"send-inline-with-checksums", "verbs-rules: Posting and polling", .check_queue = inline_with_checksums,
         .config = &config},
	{"send-two-segments", "libmlx5: _mlx5_post_send", .check_queue = two_segments, .config = &config},
	{"send-error-flushes", "PRM: SQ error state, IB 10.3.1: completion in error", .check_queue = error_flushes,
         .config = &config},
	{"send-reset-revives", "verbs-rules: Posting and polling", .check_queue = reset_revives, .config = &config},
	{"send-domain-checked", "PRM: memory key checks", .check_queue = domain_checked, .config = &config},
	{"send-read-only-memory", "ibv_reg_mr(3): local read access is always enabled", .check_queue = read_only_memory,
         .config = &config},
	{"send-wrong-opcode", "PRM: send queue of a TIS, opcodes", .check_queue = wrong_opcode, .config = &config},
	{"send-no-header", "IEEE 802.3, 3.1.1", .check_queue = no_header, .config = &config},
	{"send-no-tso", "libmlx5: _mlx5_post_send, max_tso", .check_queue = no_tso, .config = &config},
	{"send-limits", "verbs-rules: Posting and polling", .check_queue = limits, .config = &config},
	{},
};
