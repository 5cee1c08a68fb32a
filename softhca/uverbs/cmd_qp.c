// SPDX-License-Identifier: Apache-2.0
/* Commands that make and destroy queue pairs of the types raw packet, RC and UD. Other types are refused. */
#include "../device/refuse.h"
#include "command.h"

#include "../device/sq.h"
#include "../roce/roce_qp.h"

#include <errno.h>
#include <linux/capability.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>

#define DRV_FLAGS                                                                            \
	(MLX5_QP_FLAG_BFREG_INDEX | MLX5_QP_FLAG_UAR_PAGE_INDEX | MLX5_QP_FLAG_SCATTER_CQE | \
	 MLX5_QP_FLAG_ALLOW_SCATTER_CQE)

/* ib_uverbs: the flags that a program may ask for at all. */
#define CREATE_FLAGS                                                                      \
	(IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK | IB_UVERBS_QP_CREATE_SCATTER_FCS | \
	 IB_UVERBS_QP_CREATE_CVLAN_STRIPPING | IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING | CREATE_FLAGS_OLD)
#define CREATE_FLAGS_OLD (7u << 2 | 1u << 10) /* cross channel, managed queues, source QP number */

static int uqp_check(const struct command *c, const struct ib_uverbs_ex_create_qp *req,
                     const struct mlx5_ib_create_qp *drv)
{
	const struct profile *p = c->file->device->config.profile;
	bool raw = req->qp_type == IB_UVERBS_QPT_RAW_PACKET;
	uint32_t flags = req->create_flags;

	if (req->is_srq && raw)
		return -EOPNOTSUPP;
	/* mlx5_ib: process_vendor_flags. Signatures, tunnels and loopback to itself are not offered. */
	if (drv->flags & ~(uint32_t)DRV_FLAGS)
		return refuse(EINVAL, "flags", "mlx5 flag that is not offered", "mlx5_ib: process_vendor_flags");
	/* mlx5_ib: process_create_flags. A raw packet queue pair accepts the loopback flag, which has no effect. */
	if (raw)
		flags &= ~(uint32_t)IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	if (flags & ~(raw ? (uint32_t)IB_UVERBS_QP_CREATE_CVLAN_STRIPPING : 0))
		return -EOPNOTSUPP;
	if (flags && !p->cvlan_stripping)
		return refuse(EOPNOTSUPP, "create_flags", "the device strips no VLAN tags",
		              "mlx5_ib: process_create_flags");
	/* mlx5_ib create_raw_packet_qp: a queue pair needs at least one queue. */
	if (raw && !drv->rq_wqe_count && !drv->sq_wqe_count)
		return -EINVAL;
	if (req->max_recv_wr > p->max_qp_wr || drv->rq_wqe_count > p->max_qp_wr ||
	    drv->sq_wqe_count > p->max_send_wqebb)
		return refuse(EINVAL, "max_recv_wr, max_send_wr", "more than the device has",
		              "mlx5_ib: create_raw_packet_qp; ibv_query_device(3)");
	if ((drv->rq_wqe_count & (drv->rq_wqe_count - 1)) || (drv->sq_wqe_count & (drv->sq_wqe_count - 1)))
		return refuse(EINVAL, "rq_wqe_count, sq_wqe_count", "not a power of two", "mlx5_ib: set_rq_size");
	if (drv->rq_wqe_count &&
	    (drv->rq_wqe_shift < 4 || drv->rq_wqe_shift > 31 || 1u << drv->rq_wqe_shift > p->max_rq_desc_bytes))
		return refuse(EINVAL, "max_recv_sge", "the work request is longer than the device takes",
		              "mlx5_ib: set_rq_size");
	return 0;
}

/* A request: the core's part and, by the kind of queue pair, one of mlx5's parts. */
struct qp_request {
	const struct ib_uverbs_ex_create_qp *core;
	bool is_rss;
	union {
		struct mlx5_ib_create_qp plain;
		struct mlx5_ib_create_qp_rss rss;
	};
};

static int uqp_read_request(const struct command *c, struct qp_request *q)
{
	bool roce = q->core->qp_type == IB_UVERBS_QPT_RC || q->core->qp_type == IB_UVERBS_QPT_UD;
	int r;

	if (q->core->qp_type != IB_UVERBS_QPT_RAW_PACKET &&
	    !(roce && c->file->device->config.profile->max_rd_atomic && !q->is_rss))
		return -EOPNOTSUPP;
	/* ib_uverbs create_qp: the capability is checked before everything else. */
	if (!roce && !program_has_net_raw())
		return refuse(EPERM, "qp_type", "RAW_PACKET needs CAP_NET_RAW", "ib_uverbs: create_qp");
	if (q->core->create_flags & ~(uint32_t)CREATE_FLAGS)
		return refuse(EINVAL, "create_flags", "unknown flag", "ib_uverbs: create_qp");
	if (q->is_rss)
		return rss_qp_read(c, q->core, &q->rss);
	r = command_in(&q->plain, sizeof(q->plain), c->drv_in, c->drv_in_bytes);
	return r ? r : uqp_check(c, q->core, &q->plain);
}

/* The send queue of RC and UD lies behind the receive queue (libmlx5: create_qp). */
static uint64_t uqp_sq_addr(const struct ib_uverbs_ex_create_qp *req, const struct mlx5_ib_create_qp *drv)
{
	return req->qp_type == IB_UVERBS_QPT_RAW_PACKET
	               ? drv->sq_buf_addr
	               : drv->buf_addr + (drv->rq_wqe_count ? (uint64_t)drv->rq_wqe_count << drv->rq_wqe_shift : 0);
}

static int uqp_pin(const struct command *c, struct uqp *u, const struct ib_uverbs_ex_create_qp *req,
                   const struct mlx5_ib_create_qp *drv)
{
	struct memlock *m = c->file->memlock;
	int r = 0;

	if (drv->rq_wqe_count)
		r = memlock_pin_queue(m, drv->buf_addr, (uint64_t)drv->rq_wqe_count << drv->rq_wqe_shift,
		                      &u->object.n_pinned);
	if (!r)
		r = memlock_pin_queue(m, uqp_sq_addr(req, drv), (uint64_t)drv->sq_wqe_count * HW_SEND_WQE_BB,
		                      &u->object.n_pinned);
	if (!r)
		r = memlock_pin_doorbell(m, drv->db_addr, &u->object.n_pinned);
	return r;
}

static void uqp_fill_queues(struct uqp *u, const struct ib_uverbs_ex_create_qp *req,
                            const struct mlx5_ib_create_qp *drv)
{
	const uint32_t *db = (const uint32_t *)(uintptr_t)drv->db_addr;

	u->qp.qpn = queue_number(u->qp.device);
	u->qp.uidx = drv->uidx;
	u->qp.pd = u->pd;
	u->qp.rq = (struct rq){
		.device = u->qp.device,
		.pd = u->pd,
		.qp = &u->qp,
		.uidx = drv->uidx,
		.number = u->qp.qpn,
		.cq = &u->recv_cq->cq,
		.buf = (const uint8_t *)(uintptr_t)drv->buf_addr,
		.dbrec = &db[HW_DBR_RECV],
		.n_wqe = drv->rq_wqe_count,
		.wqe_shift = drv->rq_wqe_shift,
		.strip_cvlan = req->create_flags & IB_UVERBS_QP_CREATE_CVLAN_STRIPPING,
	};
	u->qp.sq = (struct sq){
		.cq = &u->send_cq->cq,
		.buf = (const uint8_t *)(uintptr_t)uqp_sq_addr(req, drv),
		.dbrec = &db[HW_DBR_SEND],
		.n_bb = drv->sq_wqe_count,
		.signal_all = req->sq_sig_all,
	};
	u->qp.work = sq_work;
}

/* With the lock held. */
static int uqp_find_parts(const struct command *c, struct uqp *u, const struct qp_request *q)
{
	int r = 0;

	u->pd = object_find(c->file, q->core->pd_handle, OBJECT_PD);
	if (!u->pd)
		return refuse(EINVAL, "pd", "no such protection domain", "ib_uverbs: create_qp");
	if (q->is_rss)
		return rss_qp_find(c, u, q->core, &q->rss);
	u->send_cq = object_find(c->file, q->core->send_cq_handle, OBJECT_CQ);
	u->recv_cq = object_find(c->file, q->core->recv_cq_handle, OBJECT_CQ);
	u->srq = q->core->is_srq ? object_find(c->file, q->core->srq_handle, OBJECT_SRQ) : NULL;
	if (!u->send_cq || !u->recv_cq || !u->srq != !q->core->is_srq)
		return -EINVAL;
	if (q->plain.sq_wqe_count)
		r = cq_check_timestamps(u->send_cq);
	return !r && q->plain.rq_wqe_count ? cq_check_timestamps(u->recv_cq) : r;
}

/* The queue pair begins (1) or ceases (-1) to need its parts. */
static void uqp_count_parts(struct uqp *u, uint32_t change)
{
	u->pd->object.n_users += change;
	if (u->ind_table) {
		u->ind_table->object.n_users += change;
	} else {
		u->send_cq->object.n_users += change;
		u->recv_cq->object.n_users += change;
	}
	if (u->srq)
		u->srq->object.n_users += change;
}

static void uqp_destroy(struct object *o)
{
	struct uqp *u = (struct uqp *)o;

	qp_send_posted(&u->qp);
	TAILQ_REMOVE(&o->file->device->qps, &u->qp, link);
	async_events_read(o);
	if (u->qp.roce)
		roce_qp_free(u->qp.roce);
	uqp_count_parts(u, (uint32_t)-1);
}

/* With the lock held. */
static int uqp_enter(struct command *c, struct uqp *u, const struct qp_request *q)
{
	int r = uqp_find_parts(c, u, q); /* again: another thread may have destroyed one */

	if (!r)
		r = object_add(c->file, &u->object, OBJECT_QP, uqp_destroy);
	if (r)
		return r;
	u->qp.device = c->file->device;
	u->qp.owner = u;
	if (!q->is_rss)
		uqp_fill_queues(u, q->core, &q->plain);
	if (q->core->qp_type != IB_UVERBS_QPT_RAW_PACKET)
		r = roce_qp_new(&u->qp, u->srq ? &u->srq->srq : NULL, q->core->qp_type == IB_UVERBS_QPT_UD);
	if (r) {
		object_remove(&u->object);
		return r;
	}
	uqp_count_parts(u, 1);
	TAILQ_INSERT_TAIL(&u->qp.device->qps, &u->qp, link);
	return 0;
}

/* Opening the wire, which is an AF_PACKET socket, is the step that needs CAP_NET_RAW. */
static int uqp_make(struct command *c, struct uqp *u, const struct qp_request *q)
{
	struct device *d = c->file->device;
	int r;

	device_lock(d);
	r = uqp_find_parts(c, u, q);
	device_unlock(d);
	if (!r)
		r = device_get_wire(d);
	if (r == -EPERM)
		return refuse(EPERM, "qp_type", "the wire is an AF_PACKET socket, which needs CAP_NET_RAW",
		              "softhca: afpacket.c");
	if (r)
		return r;
	if (q->core->qp_type != IB_UVERBS_QPT_RAW_PACKET)
		r = roce_open(d);
	if (!r && !q->is_rss)
		r = uqp_pin(c, u, q->core, &q->plain);
	if (!r) {
		device_lock(d);
		r = uqp_enter(c, u, q);
		device_unlock(d);
	}
	if (r) {
		memlock_unpin(c->file->memlock, u->object.n_pinned);
		device_put_wire(d);
	}
	return r;
}

static int uqp_create(struct command *c, const struct ib_uverbs_ex_create_qp *req,
                      struct ib_uverbs_create_qp_resp *resp)
{
	struct qp_request q = {.core = req, .is_rss = req->comp_mask & IB_UVERBS_CREATE_QP_MASK_IND_TABLE};
	struct mlx5_ib_create_qp_resp drv_resp = {};
	struct uqp *u;
	int r = uqp_read_request(c, &q);

	if (r)
		return r;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->object.user_handle = req->user_handle;
	u->max_recv_sge = req->max_recv_sge;
	u->max_inline = req->max_inline_data;
	u->type = (uint8_t)req->qp_type;
	u->qp.max_send_wr = req->max_send_wr;
	r = uqp_make(c, u, &q);
	if (r) {
		free(u);
		return r;
	}
	*resp = (struct ib_uverbs_create_qp_resp){
		.qp_handle = u->object.handle,
		.qpn = u->qp.qpn, /* with RSS 0; mlx5_ib: "qpn is reserved for that QP" */
		.max_send_wr = req->max_send_wr,
		.max_recv_wr = req->max_recv_wr,
		.max_send_sge = req->max_send_sge,
		.max_recv_sge = req->max_recv_sge,
		.max_inline_data = req->max_inline_data,
	};
	command_out(c->drv_out, c->drv_out_bytes, &drv_resp, sizeof(drv_resp));
	return 0;
}

int cmd_create_qp(struct command *c)
{
	struct ib_uverbs_create_qp req;
	struct ib_uverbs_create_qp_resp resp;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	struct ib_uverbs_ex_create_qp ex = {
		.user_handle = req.user_handle,
		.pd_handle = req.pd_handle,
		.send_cq_handle = req.send_cq_handle,
		.recv_cq_handle = req.recv_cq_handle,
		.srq_handle = req.srq_handle,
		.max_send_wr = req.max_send_wr,
		.max_recv_wr = req.max_recv_wr,
		.max_send_sge = req.max_send_sge,
		.max_recv_sge = req.max_recv_sge,
		.max_inline_data = req.max_inline_data,
		.sq_sig_all = req.sq_sig_all,
		.qp_type = req.qp_type,
		.is_srq = req.is_srq,
	};
	r = uqp_create(c, &ex, &resp);
	if (!r)
		COMMAND_OUT(c, &resp);
	return r;
}

int cmd_ex_create_qp(struct command *c)
{
	struct ib_uverbs_ex_create_qp req;
	struct ib_uverbs_ex_create_qp_resp resp = {.response_length = sizeof(resp)};
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	if ((req.comp_mask & ~(uint32_t)IB_UVERBS_CREATE_QP_MASK_IND_TABLE) || req.reserved || req.source_qpn)
		return refuse(EINVAL, "comp_mask, source_qpn", "not supported", "ib_uverbs: ib_uverbs_ex_create_qp");
	r = uqp_create(c, &req, &resp.base);
	if (!r)
		COMMAND_OUT(c, &resp);
	return r;
}

int cmd_destroy_qp(struct command *c)
{
	struct ib_uverbs_destroy_qp_resp resp = {};
	struct ib_uverbs_destroy_qp req;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	r = object_destroy_handle(c->file, req.qp_handle, OBJECT_QP, &resp.events_reported);
	if (r)
		return r;
	device_put_wire(c->file->device);
	COMMAND_OUT(c, &resp);
	return 0;
}
