// SPDX-License-Identifier: Apache-2.0
/*
 * verbs_sender [-d DEVICE] [-m METHOD] [-g SEGMENTS] [-r TIMES] [-o]: sends the frames on stdin (each a native 32-bit
 * length and the bytes) through a raw packet queue pair, TIMES times over. Prints "ready" before it reads the frames,
 * and in the end one JSON object with the numbers of completions. METHOD: post, wr; -l: inline; -o: checksum offload.
 * The program knows nothing of softhca.
 */
#include "verbs_common.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FRAMES   1024
#define MAX_BYTES    16384
#define MAX_SEGMENTS 4
#define DEPTH        64
#define INLINE_BYTES 512

struct sender {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
	struct ibv_mr *mr;
	uint8_t *memory;
	uint32_t len[MAX_FRAMES];
	int n_frames, n_segments;
	bool with_wr, is_inline, offload;
	uint64_t posted, completed, by_status[32];
};

static void read_frames(struct sender *s)
{
	while (s->n_frames < MAX_FRAMES && fread(&s->len[s->n_frames], 4, 1, stdin) == 1) {
		uint32_t len = s->len[s->n_frames];

		if (len > MAX_BYTES || fread(s->memory + (size_t)s->n_frames * MAX_BYTES, 1, len, stdin) != len)
			die("a frame is cut");
		s->n_frames++;
	}
}

static void to_state(struct sender *s, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};

	errno = ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));
	if (errno)
		die("ibv_modify_qp");
}

static void open_device(struct sender *s, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name)) {
			s->ctx = ibv_open_device(list[i]);
			break;
		}
	if (!s->ctx)
		die("no device");
	ibv_free_device_list(list);
}

static void open_queue(struct sender *s)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = DEPTH,
	                .max_send_sge = MAX_SEGMENTS,
	                .max_inline_data = s->is_inline ? INLINE_BYTES : 0},
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	s->memory = aligned_alloc(4096, (size_t)MAX_FRAMES * MAX_BYTES);
	if (!s->memory)
		die("memory");
	s->pd = ibv_alloc_pd(s->ctx);
	s->cq = ibv_create_cq(s->ctx, DEPTH, NULL, NULL, 0);
	if (!s->pd || !s->cq)
		die("ibv_create_cq");
	s->mr = ibv_reg_mr(s->pd, s->memory, (size_t)MAX_FRAMES * MAX_BYTES, 0);
	if (!s->mr)
		die("ibv_reg_mr");
	attr.pd = s->pd;
	attr.send_cq = attr.recv_cq = s->cq;
	if (s->with_wr) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	}
	s->qp = ibv_create_qp_ex(s->ctx, &attr);
	if (!s->qp)
		die("ibv_create_qp_ex");
	if (s->with_wr)
		s->qpx = ibv_qp_to_qp_ex(s->qp);
	to_state(s, IBV_QPS_INIT);
	to_state(s, IBV_QPS_RTR);
	to_state(s, IBV_QPS_RTS);
}

/* The frame in so many pieces, the first ones small: they may end within a header. */
static int cut(const struct sender *s, int frame, struct ibv_sge *sge)
{
	uint64_t at = (uintptr_t)s->memory + (size_t)frame * MAX_BYTES;
	uint32_t left = s->len[frame], piece = 20;
	int n = 0;

	for (; left && n < s->n_segments; n++) {
		uint32_t bytes = n + 1 == s->n_segments || piece > left ? left : piece;

		sge[n] = (struct ibv_sge){at, bytes, s->mr->lkey};
		at += bytes;
		left -= bytes;
		piece += 3;
	}
	return n;
}

static int post(struct sender *s, struct ibv_sge *sge, int n)
{
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = n, .opcode = IBV_WR_SEND}, *bad;

	wr.send_flags = IBV_SEND_SIGNALED | (s->is_inline ? IBV_SEND_INLINE : 0) | (s->offload ? IBV_SEND_IP_CSUM : 0);
	return ibv_post_send(s->qp, &wr, &bad);
}

static int post_wr(struct sender *s, struct ibv_sge *sge, int n)
{
	struct ibv_data_buf pieces[MAX_SEGMENTS];

	for (int i = 0; i < n; i++)
		pieces[i] = (struct ibv_data_buf){(void *)(uintptr_t)sge[i].addr, sge[i].length};
	ibv_wr_start(s->qpx);
	s->qpx->wr_flags = IBV_SEND_SIGNALED | (s->offload ? IBV_SEND_IP_CSUM : 0);
	ibv_wr_send(s->qpx);
	if (s->is_inline && n == 1)
		ibv_wr_set_inline_data(s->qpx, pieces[0].addr, pieces[0].length);
	else if (s->is_inline)
		ibv_wr_set_inline_data_list(s->qpx, (size_t)n, pieces);
	else if (n == 1)
		ibv_wr_set_sge(s->qpx, sge->lkey, sge->addr, sge->length);
	else
		ibv_wr_set_sge_list(s->qpx, (size_t)n, sge);
	return ibv_wr_complete(s->qpx);
}

static void reap(struct sender *s, uint64_t outstanding)
{
	uint64_t give_up = now_ns() + 20000000000u;
	struct ibv_wc wc;
	int n;

	while (s->posted - s->completed > outstanding) {
		n = ibv_poll_cq(s->cq, 1, &wc);
		if (n < 0)
			die("ibv_poll_cq");
		if (n) {
			s->completed++;
			s->by_status[wc.status]++;
		} else if (now_ns() > give_up) {
			die("a send does not complete");
		}
	}
}

static void send_all(struct sender *s, uint64_t times)
{
	for (uint64_t i = 0; i < times * (uint64_t)s->n_frames; i++) {
		struct ibv_sge sge[MAX_SEGMENTS];
		int n = cut(s, (int)(i % (uint64_t)s->n_frames), sge);

		reap(s, DEPTH - 1);
		errno = s->with_wr ? post_wr(s, sge, n) : post(s, sge, n);
		if (errno)
			die("post");
		s->posted++;
	}
	reap(s, 0);
}

static void close_all(struct sender *s)
{
	if (ibv_destroy_qp(s->qp) || ibv_destroy_cq(s->cq) || ibv_dereg_mr(s->mr) || ibv_dealloc_pd(s->pd) ||
	    ibv_close_device(s->ctx))
		die("tear-down");
	free(s->memory);
}

int main(int argc, char **argv)
{
	static struct sender s;
	const char *device = NULL;
	uint64_t times = 1;
	int c;

	s.n_segments = 1;
	while ((c = getopt(argc, argv, "d:m:g:r:lo")) != -1) {
		switch (c) {
		case 'd':
			device = optarg;
			break;
		case 'm':
			s.with_wr = !strcmp(optarg, "wr");
			break;
		case 'g':
			s.n_segments = atoi(optarg);
			break;
		case 'r':
			times = strtoull(optarg, NULL, 10);
			break;
		case 'l':
			s.is_inline = true;
			break;
		case 'o':
			s.offload = true;
			break;
		default:
			die("usage: see the source");
		}
	}
	if (s.n_segments < 1 || s.n_segments > MAX_SEGMENTS)
		die("SEGMENTS");
	open_device(&s, device);
	open_queue(&s);
	puts("ready");
	fflush(stdout);
	read_frames(&s);
	send_all(&s, times);
	printf("{\"posted\": %lu, \"success\": %lu, \"length\": %lu, \"protection\": %lu, "
	       "\"operation\": %lu, \"flushed\": %lu}\n",
	       s.posted, s.by_status[IBV_WC_SUCCESS], s.by_status[IBV_WC_LOC_LEN_ERR], s.by_status[IBV_WC_LOC_PROT_ERR],
	       s.by_status[IBV_WC_LOC_QP_OP_ERR], s.by_status[IBV_WC_WR_FLUSH_ERR]);
	close_all(&s);
	return EXIT_SUCCESS;
}
