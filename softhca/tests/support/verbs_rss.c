// SPDX-License-Identifier: Apache-2.0
/*
 * verbs_rss LOG_SIZE FIELDS_HEX COUNT [strip]: a queue pair over an indirection table of 2^LOG_SIZE work
 * queues takes all UDP frames. Says "ready", then of each frame the work queue it came to and its
 * bytes 26 to 37 (IPv4 addresses and UDP ports): "QUEUE HEX". Ends after COUNT frames. strip: the
 * work queues take VLAN tags out, which they are told while they are ready.
 */
#include "verbs_common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_QUEUES  64
#define DEPTH       64
#define FRAME_BYTES 2048

struct rss {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq[MAX_QUEUES];
	struct ibv_wq *wq[MAX_QUEUES];
	struct rss_pair pair;
	uint8_t *memory;
	unsigned int n;
	bool strip;
};

static uint8_t *slot(struct rss *r, unsigned int queue, unsigned int i)
{
	return r->memory + (size_t)(queue * DEPTH + i) * FRAME_BYTES;
}

static void post(struct rss *r, unsigned int queue, unsigned int i)
{
	struct ibv_sge sge = {(uintptr_t)slot(r, queue, i), FRAME_BYTES, r->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	errno = ibv_post_wq_recv(r->wq[queue], &wr, &bad);
	if (errno)
		die("ibv_post_wq_recv");
}

static void open_queue(struct rss *r, unsigned int i)
{
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = DEPTH, .max_sge = 1, .pd = r->pd};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};

	init.cq = r->cq[i] = ibv_create_cq(r->ctx, DEPTH, NULL, NULL, 0);
	if (!init.cq)
		die("ibv_create_cq");
	r->wq[i] = ibv_create_wq(r->ctx, &init);
	if (!r->wq[i])
		die("ibv_create_wq");
	errno = ibv_modify_wq(r->wq[i], &ready);
	if (errno)
		die("ibv_modify_wq");
	ready = (struct ibv_wq_attr){.attr_mask = IBV_WQ_ATTR_FLAGS,
	                             .flags = IBV_WQ_FLAGS_CVLAN_STRIPPING,
	                             .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING};
	errno = r->strip ? ibv_modify_wq(r->wq[i], &ready) : 0;
	if (errno)
		die("ibv_modify_wq, stripping");
	for (unsigned int k = 0; k < DEPTH; k++)
		post(r, i, k);
}

static unsigned int take(struct rss *r, unsigned int queue)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(r->cq[queue], 1, &wc) != 1)
		return 0;
	if (wc.status)
		die("completion with status %d", wc.status);
	printf("%u ", queue);
	for (int i = 26; i < 38; i++)
		printf("%02x", slot(r, queue, (unsigned int)wc.wr_id)[i]);
	printf("\n");
	post(r, queue, (unsigned int)wc.wr_id);
	return 1;
}

static void check(int error, const char *what)
{
	errno = error;
	if (error)
		die("%s", what);
}

static void close_all(struct rss *r)
{
	check(ibv_destroy_flow(r->pair.flow), "ibv_destroy_flow");
	check(ibv_destroy_qp(r->pair.qp), "ibv_destroy_qp");
	check(ibv_destroy_rwq_ind_table(r->pair.table), "ibv_destroy_rwq_ind_table");
	for (unsigned int i = 0; i < r->n; i++) {
		check(ibv_destroy_wq(r->wq[i]), "ibv_destroy_wq");
		check(ibv_destroy_cq(r->cq[i]), "ibv_destroy_cq");
	}
	check(ibv_dereg_mr(r->mr), "ibv_dereg_mr");
	check(ibv_dealloc_pd(r->pd), "ibv_dealloc_pd");
	check(ibv_close_device(r->ctx), "ibv_close_device");
	free(r->memory);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct rss r = {};
	unsigned long left;
	size_t bytes;

	if (argc < 4 || !list || !list[0])
		die("usage: verbs_rss LOG_SIZE FIELDS_HEX COUNT [strip], with a device");
	r.strip = argc > 4;
	r.n = 1u << atoi(argv[1]);
	r.ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	r.pd = ibv_alloc_pd(r.ctx);
	bytes = (size_t)r.n * DEPTH * FRAME_BYTES;
	r.memory = aligned_alloc(4096, bytes);
	r.mr = ibv_reg_mr(r.pd, r.memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!r.mr)
		die("ibv_reg_mr");
	for (unsigned int i = 0; i < r.n; i++)
		open_queue(&r, i);
	rss_pair_open(&r.pair, r.pd, r.wq, (uint32_t)atoi(argv[1]), strtoull(argv[2], NULL, 16));
	puts("ready");
	fflush(stdout);
	left = strtoul(argv[3], NULL, 10);
	while (left)
		for (unsigned int i = 0; i < r.n; i++)
			left -= take(&r, i);
	close_all(&r);
	return 0;
}
