// SPDX-License-Identifier: Apache-2.0
/* Commands of shared receive queues: ib_uverbs_create_srq, mlx5_ib_create_srq. */
#include "command.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>

/* enum ib_srq_attr_mask: kernel-internal names, but ABI. */
enum { SRQ_MAX_WR = 1 << 0, SRQ_LIMIT = 1 << 1 };
#define MIN_WQE_BYTES 32u

static uint32_t usrq_log2_up(uint32_t n)
{
	return n <= 1 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1);
}

static void usrq_destroy(struct object *o)
{
	struct usrq *u = (struct usrq *)o;

	TAILQ_REMOVE(&o->file->device->srqs, &u->srq, link);
	async_events_read(o);
	u->pd->object.n_users--;
}

static int usrq_check(const struct profile *p, const struct ib_uverbs_create_srq *req,
                      const struct mlx5_ib_create_srq *drv)
{
	if (!p->max_srq)
		return -EOPNOTSUPP;
	if (req->max_wr > p->max_srq_wr || req->max_sge > p->max_srq_sge || req->srq_limit > req->max_wr)
		return -EINVAL;
	return drv->flags || drv->reserved0 || drv->reserved1 ? -EINVAL : 0;
}

/* mlx5_ib_create_srq makes these sizes of the request, as libmlx5 does (mlx5_alloc_srq_buf). */
static void usrq_size(struct usrq *u, const struct ib_uverbs_create_srq *req)
{
	uint32_t bytes = (uint32_t)(sizeof(struct hw_srq_next_seg) + req->max_sge * sizeof(struct hw_data_seg));

	u->srq.wqe_shift = usrq_log2_up(bytes < MIN_WQE_BYTES ? MIN_WQE_BYTES : bytes);
	u->srq.n_wqe = 1u << usrq_log2_up(req->max_wr + 1);
	u->max_wr = u->srq.n_wqe - 1;
	u->max_sge = (1u << u->srq.wqe_shift >> 4) - 1;
}

static int usrq_pin(struct memlock *m, struct usrq *u, const struct mlx5_ib_create_srq *drv)
{
	int r = memlock_pin_queue(m, drv->buf_addr, (uint64_t)u->srq.n_wqe << u->srq.wqe_shift, &u->object.n_pinned);

	return r ? r : memlock_pin_doorbell(m, drv->db_addr, &u->object.n_pinned);
}

/* With the lock held. */
static int usrq_enter(struct command *c, struct usrq *u, const struct ib_uverbs_create_srq *req,
                      const struct mlx5_ib_create_srq *drv)
{
	struct device *d = c->file->device;
	int r;

	u->pd = object_find(c->file, req->pd_handle, OBJECT_PD);
	if (!u->pd)
		return -EINVAL;
	r = object_add(c->file, &u->object, OBJECT_SRQ, usrq_destroy);
	if (r)
		return r;
	u->srq.device = d;
	u->srq.pd = u->pd;
	u->srq.buf = (const uint8_t *)(uintptr_t)drv->buf_addr;
	u->srq.dbrec = (const uint32_t *)(uintptr_t)drv->db_addr;
	u->srq.number = d->next_qpn++ & 0xffffff;
	u->srq.limit = req->srq_limit;
	u->srq.owner = u;
	u->object.user_handle = req->user_handle;
	u->pd->object.n_users++;
	TAILQ_INSERT_TAIL(&d->srqs, &u->srq, link);
	return 0;
}

int cmd_create_srq(struct command *c)
{
	struct ib_uverbs_create_srq_resp resp = {};
	struct mlx5_ib_create_srq_resp drv_resp = {};
	struct ib_uverbs_create_srq req;
	struct mlx5_ib_create_srq drv;
	struct usrq *u;
	int r = COMMAND_IN(c, &req);

	if (!r)
		r = command_in(&drv, sizeof(drv), c->drv_in, c->drv_in_bytes);
	if (!r)
		r = usrq_check(c->file->device->config.profile, &req, &drv);
	if (r)
		return r;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	usrq_size(u, &req);
	r = usrq_pin(c->file->memlock, u, &drv);
	if (!r) {
		device_lock(c->file->device);
		r = usrq_enter(c, u, &req, &drv);
		device_unlock(c->file->device);
	}
	if (r) {
		memlock_unpin(c->file->memlock, u->object.n_pinned);
		free(u);
		return r;
	}
	resp.srq_handle = u->object.handle;
	resp.max_wr = u->max_wr;
	resp.max_sge = u->max_sge;
	drv_resp.srqn = u->srq.number;
	COMMAND_OUT(c, &resp);
	command_out(c->drv_out, c->drv_out_bytes, &drv_resp, sizeof(drv_resp));
	return 0;
}

/* mlx5_ib_modify_srq: the size cannot be changed; a limit must be below the size. */
int cmd_modify_srq(struct command *c)
{
	struct ib_uverbs_modify_srq req;
	struct usrq *u;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	device_lock(c->file->device);
	u = object_find(c->file, req.srq_handle, OBJECT_SRQ);
	if (!u || (req.attr_mask & SRQ_MAX_WR) || ((req.attr_mask & SRQ_LIMIT) && req.srq_limit >= u->srq.n_wqe))
		r = -EINVAL;
	else if (req.attr_mask & SRQ_LIMIT)
		u->srq.limit = req.srq_limit;
	device_unlock(c->file->device);
	return r;
}

int cmd_query_srq(struct command *c)
{
	struct ib_uverbs_query_srq_resp resp = {};
	struct ib_uverbs_query_srq req;
	struct usrq *u;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	device_lock(c->file->device);
	u = object_find(c->file, req.srq_handle, OBJECT_SRQ);
	if (u) {
		resp.max_wr = u->max_wr;
		resp.max_sge = u->max_sge;
		resp.srq_limit = u->srq.limit;
	}
	device_unlock(c->file->device);
	if (!u)
		return -EINVAL;
	COMMAND_OUT(c, &resp);
	return 0;
}

int cmd_destroy_srq(struct command *c)
{
	struct ib_uverbs_destroy_srq_resp resp = {};
	struct ib_uverbs_destroy_srq req;
	int r = COMMAND_IN(c, &req);

	if (!r)
		r = object_destroy_handle(c->file, req.srq_handle, OBJECT_SRQ, &resp.events_reported);
	if (!r)
		COMMAND_OUT(c, &resp);
	return r;
}
