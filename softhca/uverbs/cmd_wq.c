// SPDX-License-Identifier: Apache-2.0
/* Commands of work queues, which are receive queues of their own: ib_uverbs_ex_create_wq and mlx5_ib_create_wq. */
#include "../device/refuse.h"
#include "command.h"
#include "pitfalls.h"

#include <errno.h>
#include <linux/capability.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>

/* enum ib_wq_attr_mask, ib_wq_state: kernel-internal names, but ABI. */
enum { WQ_ATTR_STATE = 1 << 0, WQ_ATTR_CUR_STATE = 1 << 1, WQ_ATTR_FLAGS = 1 << 2 };
#define WQ_ATTR_ALL (WQ_ATTR_STATE | WQ_ATTR_CUR_STATE | WQ_ATTR_FLAGS)

static int uwq_check_striding(const struct profile *p, const struct mlx5_ib_create_wq *drv)
{
	if (drv->comp_mask & ~(unsigned int)MLX5_IB_CREATE_WQ_STRIDING_RQ)
		return refuse(EOPNOTSUPP, "comp_mask", "an unknown bit", "mlx5_ib: prepare_user_rq");
	if (!drv->comp_mask)
		return 0;
	if (!p->striding)
		return refuse(EOPNOTSUPP, "comp_mask", "the model has no striding queues", "mlx5_ib: prepare_user_rq");
	if (drv->single_stride_log_num_of_bytes < STRIDING_MIN_LOG_BYTES ||
	    drv->single_stride_log_num_of_bytes > STRIDING_MAX_LOG_BYTES ||
	    drv->single_wqe_log_num_of_strides < STRIDING_MIN_LOG_STRIDES ||
	    drv->single_wqe_log_num_of_strides > STRIDING_MAX_LOG_STRIDES)
		return refuse(EINVAL, "striding_rq_attrs", "outside striding_rq_caps", "mlx5_ib: prepare_user_rq");
	return 0;
}

static int uwq_check(const struct command *c, const struct ib_uverbs_ex_create_wq *req,
                     const struct mlx5_ib_create_wq *drv)
{
	const struct profile *p = c->file->device->config.profile;
	int r;

	if (!p->max_wq)
		return refuse(EOPNOTSUPP, "wq", "the device has no work queues", "mlx5_ib: mlx5_ib_create_wq");
	/* mlx5_ib_create_wq: delay drop affects all queues of the port. */
	if ((req->create_flags & IB_UVERBS_WQ_FLAGS_DELAY_DROP) && !program_has_capability(CAP_SYS_RAWIO))
		return refuse(EPERM, "create_flags", "delay drop affects the whole port, so it needs CAP_SYS_RAWIO",
		              "mlx5_ib: mlx5_ib_create_wq");
	if (req->wq_type != IB_UVERBS_WQT_RQ)
		return refuse(EINVAL, "wq_type", "only receive queues", "mlx5_ib: mlx5_ib_create_wq");
	if (c->drv_in_bytes < offsetof(struct mlx5_ib_create_wq, single_stride_log_num_of_bytes) + 4)
		return refuse(EINVAL, "driver data", "too short", "mlx5_ib: prepare_user_rq");
	r = uwq_check_striding(p, drv);
	if (r)
		return r;
	if (req->max_wr > p->max_qp_wr || !drv->rq_wqe_count)
		return refuse(EINVAL, "max_wr", "0, or more than the device has", "mlx5_ib: set_user_rq_size");
	if ((drv->rq_wqe_count & (drv->rq_wqe_count - 1)) || drv->rq_wqe_count > p->max_qp_wr ||
	    drv->rq_wqe_shift < 4 || drv->rq_wqe_shift > 31 || 1u << drv->rq_wqe_shift > p->max_rq_desc_bytes)
		return refuse(EINVAL, "max_wr, max_sge", "not a power of two, or longer than the device takes",
		              "mlx5_ib: set_user_rq_size");
	if (drv->flags & MLX5_WQ_FLAG_SIGNATURE)
		return refuse(EINVAL, "flags", "signatures are not offered", "mlx5_ib: prepare_user_rq");
	/* mlx5_ib: create_rq checks the capabilities in this order. */
	if (req->create_flags & IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING)
		return refuse(EOPNOTSUPP, "create_flags", "PCI_WRITE_END_PADDING is not offered", "mlx5_ib: create_rq");
	if ((req->create_flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING) && !p->cvlan_stripping)
		return refuse(EOPNOTSUPP, "create_flags", "the device strips no VLAN tags", "mlx5_ib: create_rq");
	if (req->create_flags & IB_UVERBS_WQ_FLAGS_SCATTER_FCS)
		return refuse(EOPNOTSUPP, "create_flags", "SCATTER_FCS is not offered", "mlx5_ib: create_rq");
	if ((req->create_flags & IB_UVERBS_WQ_FLAGS_DELAY_DROP) && !p->delay_drop)
		return refuse(EOPNOTSUPP, "create_flags", "the device delays no drops", "mlx5_ib: create_rq");
	return 0;
}

static int uwq_pin(const struct command *c, struct uwq *u, const struct mlx5_ib_create_wq *drv)
{
	struct memlock *m = c->file->memlock;
	int r = memlock_pin_queue(m, drv->buf_addr, (uint64_t)drv->rq_wqe_count << drv->rq_wqe_shift,
	                          &u->object.n_pinned);

	if (!r)
		r = memlock_pin_doorbell(m, drv->db_addr, &u->object.n_pinned);
	return r;
}

static void uwq_destroy(struct object *o)
{
	struct uwq *u = (struct uwq *)o;

	TAILQ_REMOVE(&o->file->device->wqs, &u->rq, link);
	o->file->device->n_delay_drop -= u->rq.delay_drop;
	async_events_read(o);
	u->pd->object.n_users--;
	u->cq->object.n_users--;
}

/* With the lock held. */
static int uwq_enter(struct command *c, struct uwq *u, const struct ib_uverbs_ex_create_wq *req,
                     const struct mlx5_ib_create_wq *drv)
{
	struct device *d = c->file->device;
	int r;

	u->pd = object_find(c->file, req->pd_handle, OBJECT_PD);
	u->cq = object_find(c->file, req->cq_handle, OBJECT_CQ);
	if (!u->pd || !u->cq)
		return refuse(EINVAL, "pd, cq", "no such object", "ib_uverbs: ib_uverbs_ex_create_wq");
	r = cq_check_timestamps(u->cq);
	if (!r)
		r = object_add(c->file, &u->object, OBJECT_WQ, uwq_destroy);
	if (r)
		return r;
	u->rq = (struct rq){
		.device = d,
		.pd = u->pd,
		.cq = &u->cq->cq,
		.buf = (const uint8_t *)(uintptr_t)drv->buf_addr,
		.dbrec = (const uint32_t *)(uintptr_t)drv->db_addr + HW_DBR_RECV,
		.n_wqe = drv->rq_wqe_count,
		.wqe_shift = drv->rq_wqe_shift,
		.uidx = drv->user_index,
		.number = queue_number(d),
		.strip_cvlan = req->create_flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING,
		.delay_drop = req->create_flags & IB_UVERBS_WQ_FLAGS_DELAY_DROP,
		.owner = u,
	};
	if (drv->comp_mask) {
		u->rq.log_stride_bytes = (uint8_t)drv->single_stride_log_num_of_bytes;
		u->rq.log_strides = (uint8_t)drv->single_wqe_log_num_of_strides;
		u->rq.shift_bytes = drv->two_byte_shift_en ? 2 : 0;
		u->cq->cq.striding = u->cq->cq.asks_more = true;
	}
	u->object.user_handle = req->user_handle;
	u->pd->object.n_users++;
	u->cq->object.n_users++;
	TAILQ_INSERT_TAIL(&d->wqs, &u->rq, link);
	d->n_delay_drop += u->rq.delay_drop;
	return 0;
}

int cmd_ex_create_wq(struct command *c)
{
	struct ib_uverbs_ex_create_wq_resp resp = {.response_length = sizeof(resp)};
	struct mlx5_ib_create_wq_resp drv_resp = {.response_length = offsetof(struct mlx5_ib_create_wq_resp, reserved)};
	struct ib_uverbs_ex_create_wq req;
	struct mlx5_ib_create_wq drv;
	struct uwq *u;
	int r = COMMAND_IN(c, &req);

	if (!r)
		r = command_in(&drv, sizeof(drv), c->drv_in, c->drv_in_bytes);
	if (!r)
		r = req.comp_mask ? -EOPNOTSUPP : uwq_check(c, &req, &drv);
	if (r)
		return r;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	r = uwq_pin(c, u, &drv);
	if (!r) {
		device_lock(c->file->device);
		r = uwq_enter(c, u, &req, &drv);
		device_unlock(c->file->device);
	}
	if (r) {
		memlock_unpin(c->file->memlock, u->object.n_pinned);
		free(u);
		return r;
	}
	resp.wq_handle = u->object.handle;
	resp.max_wr = req.max_wr;
	resp.max_sge = req.max_sge;
	resp.wqn = u->rq.number;
	COMMAND_OUT(c, &resp);
	command_out(c->drv_out, c->drv_out_bytes, &drv_resp, sizeof(drv_resp));
	return 0;
}

/* Checks that both states exist and that the queue is in the state that the program believes: the firmware checks
 * that (PRM, MODIFY_RQ: BAD_RES_STATE). From ERR the only way is to RST. */
static int uwq_check_states(const struct uwq *u, const struct ib_uverbs_ex_modify_wq *req, enum wq_state *to)
{
	enum wq_state from = u->rq.state;

	if (req->attr_mask & WQ_ATTR_CUR_STATE) {
		if (req->curr_wq_state > WQ_ERR || req->curr_wq_state != (uint32_t)from)
			return refuse(EINVAL, "curr_wq_state", "the queue is in another state",
			              "PRM: MODIFY_RQ, BAD_RES_STATE");
	}
	*to = from;
	if (req->attr_mask & WQ_ATTR_STATE) {
		if (req->wq_state > WQ_ERR)
			return refuse(EINVAL, "wq_state", "no such state", "mlx5_ib: mlx5_ib_modify_wq");
		*to = (enum wq_state)req->wq_state;
	}
	return from == WQ_ERR && *to == WQ_RDY
	               ? refuse(EINVAL, "wq_state", "the only way out of ERR is RST", "PRM: MODIFY_RQ")
	               : 0;
}

/* With the lock held. */
static int uwq_modify(struct uwq *u, const struct ib_uverbs_ex_modify_wq *req)
{
	uint32_t changed = req->attr_mask & WQ_ATTR_FLAGS ? req->flags_mask : 0;
	enum wq_state to;
	int r = uwq_check_states(u, req, &to);

	if (r)
		return r;
	if ((changed & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING) && !u->rq.device->config.profile->cvlan_stripping)
		return refuse(EOPNOTSUPP, "flags", "the device strips no VLAN tags", "mlx5_ib: mlx5_ib_modify_wq");
	if (changed & IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING)
		return refuse(EOPNOTSUPP, "flags", "PCI_WRITE_END_PADDING cannot be changed",
		              "mlx5_ib: mlx5_ib_modify_wq");
	if (changed & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING)
		u->rq.strip_cvlan = req->flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING;
	if (to == WQ_RST && u->rq.state != WQ_RST)
		pitfall_of_reset(u->rq.cq, u->rq.uidx, u->rq.number);
	if (to != u->rq.state)
		rq_set_state(&u->rq, to);
	return 0;
}

int cmd_ex_modify_wq(struct command *c)
{
	struct ib_uverbs_ex_modify_wq req;
	struct mlx5_ib_modify_wq drv;
	struct uwq *u;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	if (!req.attr_mask || req.attr_mask > WQ_ATTR_ALL)
		return refuse(EINVAL, "attr_mask", "nothing to change, or an unknown attribute",
		              "ib_uverbs: ib_uverbs_ex_modify_wq");
	if (c->drv_in_bytes < sizeof(drv))
		return refuse(EINVAL, "driver data", "too short", "mlx5_ib: mlx5_ib_modify_wq");
	r = command_in(&drv, sizeof(drv), c->drv_in, c->drv_in_bytes);
	if (r)
		return r;
	if (drv.comp_mask || drv.reserved)
		return refuse(EOPNOTSUPP, "driver data", "comp_mask or reserved is not 0",
		              "mlx5_ib: mlx5_ib_modify_wq");
	device_lock(c->file->device);
	u = object_find(c->file, req.wq_handle, OBJECT_WQ);
	r = u ? uwq_modify(u, &req) : refuse(EINVAL, "wq", "no such work queue", "ib_uverbs: ib_uverbs_ex_modify_wq");
	device_unlock(c->file->device);
	return r;
}

int cmd_ex_destroy_wq(struct command *c)
{
	struct ib_uverbs_ex_destroy_wq_resp resp = {.response_length = sizeof(resp)};
	struct ib_uverbs_ex_destroy_wq req;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	if (req.comp_mask)
		return -EOPNOTSUPP;
	r = object_destroy_handle(c->file, req.wq_handle, OBJECT_WQ, &resp.events_reported);
	if (!r)
		COMMAND_OUT(c, &resp);
	return r;
}
