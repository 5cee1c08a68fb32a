// SPDX-License-Identifier: Apache-2.0
/* Two queue pairs of one device that are connected with each other. */
#include "rdma_pair.h"
#include "verbs_common.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define ALL_ACCESS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static int pair_access(int wish, int all)
{
	return wish < 0 ? 0 : wish ? wish : all;
}

static struct ibv_qp *pair_new_qp(struct pair *p, unsigned int end, const struct pair_config *config)
{
	uint32_t depth = config->depth ? config->depth : 8;
	bool srq = config->srq && end;
	struct ibv_qp_init_attr attr = {
		.send_cq = p->cq[end],
		.recv_cq = p->cq[end],
		.srq = srq ? p->srq : NULL,
		.cap = {.max_send_wr = depth,
	                .max_recv_wr = srq ? 0 : depth,
	                .max_send_sge = 2,
	                .max_recv_sge = 2,
	                .max_inline_data = 64},
		.qp_type = config->type ? config->type : IBV_QPT_RC,
	};

	return ibv_create_qp(p->pd, &attr);
}

static int pair_to_init(struct pair *p, unsigned int end, const struct pair_config *config)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = PAIR_QKEY,
		.qp_access_flags = (unsigned int)pair_access(config->access, ALL_ACCESS & ~IBV_ACCESS_LOCAL_WRITE),
	};

	return ibv_modify_qp(p->qp[end], &attr,
	                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	                             (config->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int pair_connect(struct pair *p, unsigned int end, const struct pair_config *config, uint32_t dest)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.rq_psn = 0xfffffe, /* it wraps within the first messages */
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = PAIR_GID, .hop_limit = 1}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0xfffffe,
		.max_rd_atomic = 4,
		.timeout = config->timeout ? config->timeout : 14,
		.retry_cnt = config->retry_cnt ? config->retry_cnt : 7,
		.rnr_retry = config->rnr_retry ? config->rnr_retry : 7,
	};
	bool ud = config->type == IBV_QPT_UD;
	int r = pair_to_init(p, end, config);

	ibv_query_gid(p->ctx, 1, PAIR_GID, &rtr.ah_attr.grh.dgid);
	if (!r)
		r = ibv_modify_qp(p->qp[end], &rtr,
		                  ud ? IBV_QP_STATE
		                     : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (!r)
		r = ibv_modify_qp(p->qp[end], &rts,
		                  ud ? IBV_QP_STATE | IBV_QP_SQ_PSN
		                     : IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		                                  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	return r;
}

static void pair_open_end(struct pair *p, unsigned int end, const struct pair_config *config)
{
	p->cq[end] = ibv_create_cq(p->ctx, 64, NULL, NULL, 0);
	p->memory[end] = aligned_alloc(4096, PAIR_BYTES);
	if (!p->cq[end] || !p->memory[end])
		die("a completion queue or memory");
	memset(p->memory[end], (int)end + 1, PAIR_BYTES);
	p->mr[end] = ibv_reg_mr(p->pd, p->memory[end], PAIR_BYTES,
	                        end ? pair_access(config->mr_access, ALL_ACCESS) : ALL_ACCESS);
	p->qp[end] = pair_new_qp(p, end, config);
	if (!p->mr[end] || !p->qp[end])
		die("memory region or queue pair: %s", strerror(errno));
}

void pair_open(struct pair *p, const struct pair_config *config)
{
	struct ibv_ah_attr av = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = PAIR_GID, .hop_limit = 1}};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 2}};
	struct ibv_device **list = ibv_get_device_list(NULL);

	*p = (struct pair){.ctx = list && *list ? ibv_open_device(*list) : NULL};
	if (!p->ctx)
		die("no device");
	ibv_free_device_list(list);
	fcntl(p->ctx->async_fd, F_SETFL, O_NONBLOCK);
	p->pd = ibv_alloc_pd(p->ctx);
	p->srq = config->srq ? ibv_create_srq(p->pd, &srq) : NULL;
	pair_open_end(p, 0, config);
	pair_open_end(p, 1, config);
	ibv_query_gid(p->ctx, 1, PAIR_GID, &av.grh.dgid);
	p->ah = config->type == IBV_QPT_UD ? ibv_create_ah(p->pd, &av) : NULL;
	if (pair_connect(p, 0, config, p->qp[1]->qp_num) || pair_connect(p, 1, config, p->qp[0]->qp_num))
		die("the queue pairs do not connect: %s", strerror(errno));
}

void pair_close(struct pair *p)
{
	if (p->ah)
		ibv_destroy_ah(p->ah);
	for (unsigned int end = 0; end < 2; end++) {
		ibv_destroy_qp(p->qp[end]);
		ibv_dereg_mr(p->mr[end]);
		ibv_destroy_cq(p->cq[end]);
		free(p->memory[end]);
	}
	if (p->srq)
		ibv_destroy_srq(p->srq);
	ibv_dealloc_pd(p->pd);
	ibv_close_device(p->ctx);
}

int pair_receive(struct pair *p, unsigned int end, uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)p->memory[end], .length = bytes, .lkey = p->mr[end]->lkey};
	struct ibv_recv_wr wr = {.wr_id = 77, .sg_list = &sge, .num_sge = 1}, *bad;

	return end && p->srq ? ibv_post_srq_recv(p->srq, &wr, &bad) : ibv_post_recv(p->qp[end], &wr, &bad);
}

struct ibv_send_wr *pair_request(struct pair *p, enum ibv_wr_opcode opcode, uint32_t bytes, unsigned int flags)
{
	static struct ibv_sge sge;
	static struct ibv_send_wr wr;

	sge = (struct ibv_sge){.addr = (uintptr_t)p->memory[0], .length = bytes, .lkey = p->mr[0]->lkey};
	wr = (struct ibv_send_wr){.wr_id = 33,
	                          .sg_list = &sge,
	                          .num_sge = bytes ? 1 : 0,
	                          .opcode = opcode,
	                          .send_flags = flags,
	                          .imm_data = 0x01020304};
	if (p->ah) {
		wr.wr.ud.ah = p->ah;
		wr.wr.ud.remote_qpn = p->qp[1]->qp_num;
		wr.wr.ud.remote_qkey = PAIR_QKEY;
	} else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)p->memory[1];
		wr.wr.atomic.rkey = p->mr[1]->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)p->memory[1];
		wr.wr.rdma.rkey = p->mr[1]->rkey;
	}
	return &wr;
}

int pair_post(struct pair *p, enum ibv_wr_opcode opcode, uint32_t bytes, unsigned int flags)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(p->qp[0], pair_request(p, opcode, bytes, flags), &bad);
}

struct ibv_wc pair_poll(struct pair *p, unsigned int end, unsigned int ms)
{
	uint64_t until = now_ns() + ms * 1000000ull;
	struct ibv_wc wc = {.status = (enum ibv_wc_status) - 1};

	while (!ibv_poll_cq(p->cq[end], 1, &wc) && now_ns() < until)
		;
	return wc;
}

int pair_event(struct pair *p, unsigned int ms)
{
	struct pollfd fd = {.fd = p->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event event;
	int type;

	if (poll(&fd, 1, (int)ms) != 1 || ibv_get_async_event(p->ctx, &event))
		return -1;
	type = (int)event.event_type;
	ibv_ack_async_event(&event);
	return type;
}

enum ibv_qp_state pair_state(struct pair *p, unsigned int end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(p->qp[end], &attr, IBV_QP_STATE, &init) ? IBV_QPS_UNKNOWN : attr.qp_state;
}
