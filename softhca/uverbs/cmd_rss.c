// SPDX-License-Identifier: Apache-2.0
/*
 * Commands of indirection tables, and the part of CREATE_QP that is about queue pairs which spread packets over such
 * a table.
 */
#include "../device/refuse.h"
#include "command.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>

/* ib_uverbs_ex_create_rwq_ind_table checks this limit before the device's own. */
#define MAX_LOG_TABLE_SIZE 0x0d

static void ind_table_free_arrays(struct uind_table *t)
{
	free(t->wqs);
	free(t->rqs);
}

static struct uind_table *ind_table_new(uint32_t n_wqs)
{
	struct uind_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->n_wqs = n_wqs;
	t->wqs = calloc(n_wqs, sizeof(struct uwq *));
	t->rqs = calloc(n_wqs, sizeof(struct rq *));
	if (t->wqs && t->rqs)
		return t;
	ind_table_free_arrays(t);
	free(t);
	return NULL;
}

static void ind_table_destroy(struct object *o)
{
	struct uind_table *t = (struct uind_table *)o;

	for (uint32_t i = 0; i < t->n_wqs; i++)
		t->wqs[i]->object.n_users--;
	ind_table_free_arrays(t);
}

/* With the lock held. */
static int ind_table_enter(struct uverbs_file *file, struct uind_table *t, const uint32_t *handles)
{
	int r;

	for (uint32_t i = 0; i < t->n_wqs; i++) {
		t->wqs[i] = object_find(file, handles[i], OBJECT_WQ);
		if (!t->wqs[i])
			return refuse(EINVAL, "wq", "no such work queue",
			              "ib_uverbs: ib_uverbs_ex_create_rwq_ind_table");
		t->rqs[i] = &t->wqs[i]->rq;
	}
	r = object_add(file, &t->object, OBJECT_RWQ_IND_TBL, ind_table_destroy);
	for (uint32_t i = 0; !r && i < t->n_wqs; i++)
		t->wqs[i]->object.n_users++;
	return r;
}

static int ind_table_check(const struct command *c, const struct ib_uverbs_ex_create_rwq_ind_table *req)
{
	const struct profile *p = c->file->device->config.profile;

	if (!p->log_max_rss_table)
		return refuse(EOPNOTSUPP, "table", "the device has no RSS", "mlx5_ib: mlx5_ib_create_rwq_ind_table");
	if (req->comp_mask)
		return -EOPNOTSUPP;
	if (req->log_ind_tbl_size > MAX_LOG_TABLE_SIZE)
		return refuse(EINVAL, "log_ind_tbl_size", "too large", "ib_uverbs: ib_uverbs_ex_create_rwq_ind_table");
	/* uverbs_request_next: the request must contain all handles. */
	if (c->in_bytes < sizeof(*req) + (sizeof(uint32_t) << req->log_ind_tbl_size))
		return -ENOSPC;
	/* mlx5_ib_create_rwq_ind_table: log_max_rqt_size. */
	return req->log_ind_tbl_size > p->log_max_rss_table
	               ? refuse(EINVAL, "log_ind_tbl_size", "more than max_rwq_indirection_table_size",
	                        "mlx5_ib: mlx5_ib_create_rwq_ind_table")
	               : 0;
}

int cmd_ex_create_rwq_ind_table(struct command *c)
{
	struct ib_uverbs_ex_create_rwq_ind_table_resp resp = {.response_length = sizeof(resp)};
	struct mlx5_ib_create_rwq_ind_tbl_resp drv_resp = {
		.response_length = offsetof(struct mlx5_ib_create_rwq_ind_tbl_resp, reserved)};
	struct ib_uverbs_ex_create_rwq_ind_table req;
	const uint32_t *handles = (const void *)((const uint8_t *)c->in + sizeof(req));
	struct uind_table *t;
	int r;

	memcpy(&req, c->in, sizeof(req));
	r = ind_table_check(c, &req);
	if (r)
		return r;
	t = ind_table_new(1u << req.log_ind_tbl_size);
	if (!t)
		return -ENOMEM;
	device_lock(c->file->device);
	r = ind_table_enter(c->file, t, handles);
	resp.ind_tbl_num = queue_number(c->file->device);
	device_unlock(c->file->device);
	if (r) {
		ind_table_free_arrays(t);
		free(t);
		return r;
	}
	resp.ind_tbl_handle = t->object.handle;
	COMMAND_OUT(c, &resp);
	command_out(c->drv_out, c->drv_out_bytes, &drv_resp, sizeof(drv_resp));
	return 0;
}

int cmd_ex_destroy_rwq_ind_table(struct command *c)
{
	struct ib_uverbs_ex_destroy_rwq_ind_table req;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	if (req.comp_mask)
		return -EOPNOTSUPP;
	return object_destroy_handle(c->file, req.ind_tbl_handle, OBJECT_RWQ_IND_TBL, NULL);
}

/* mlx5_ib: process_udata_size, process_vendor_flags, process_create_flags, check_qp_attr. */
int rss_qp_read(const struct command *c, const struct ib_uverbs_ex_create_qp *req, struct mlx5_ib_create_qp_rss *drv)
{
	int r = command_in(drv, sizeof(*drv), c->drv_in, c->drv_in_bytes);

	if (r)
		return r;
	if (req->max_recv_wr || req->max_recv_sge || req->is_srq)
		return refuse(EINVAL, "max_recv_wr, srq", "a queue pair with RSS has no receive queue of its own",
		              "mlx5_ib: check_qp_attr");
	if (c->drv_in_bytes < sizeof(*drv) || c->drv_out_bytes < 4)
		return refuse(EINVAL, "driver data", "too short", "mlx5_ib: process_udata_size");
	if (drv->flags) /* tunnels and loopback to itself are not offered */
		return refuse(EINVAL, "flags", "tunnels and loopback to itself are not offered",
		              "mlx5_ib: process_vendor_flags");
	/* A send queue needs a queue pair of its own. */
	return req->create_flags || req->max_send_wr
	               ? refuse(EINVAL, "max_send_wr, create_flags", "a queue pair with RSS cannot send",
	                        "mlx5_ib: create_rss_raw_qp_tir")
	               : 0;
}

/* mlx5_ib: create_rss_raw_qp_tir. */
static int rss_qp_check_hash(const struct mlx5_ib_create_qp_rss *drv, uint32_t n_wqs)
{
	if (drv->comp_mask)
		return -EOPNOTSUPP;
	if (drv->rx_hash_fields_mask & MLX5_RX_HASH_INNER)
		return refuse(EOPNOTSUPP, "rx_hash_fields_mask", "inner headers are not offered",
		              "mlx5_ib: create_rss_raw_qp_tir");
	if (drv->rx_hash_function != MLX5_RX_HASH_FUNC_TOEPLITZ)
		return refuse(EOPNOTSUPP, "rx_hash_function", "only Toeplitz", "mlx5_ib: create_rss_raw_qp_tir");
	if (drv->rx_key_len != RSS_KEY_BYTES)
		return refuse(EINVAL, "rx_hash_key_len", "not 40 bytes", "mlx5_ib: create_rss_raw_qp_tir");
	return rss_check_fields(drv->rx_hash_fields_mask, n_wqs);
}

int rss_qp_find(const struct command *c, struct uqp *u, const struct ib_uverbs_ex_create_qp *req,
                const struct mlx5_ib_create_qp_rss *drv)
{
	int r;

	u->ind_table = object_find(c->file, req->rwq_ind_tbl_handle, OBJECT_RWQ_IND_TBL);
	if (!u->ind_table)
		return refuse(EINVAL, "rwq_ind_tbl", "no such table", "ib_uverbs: create_qp");
	r = rss_qp_check_hash(drv, u->ind_table->n_wqs);
	if (r)
		return r;
	u->rss = (struct rss){
		.fields = (uint32_t)drv->rx_hash_fields_mask, .n_rqs = u->ind_table->n_wqs, .rqs = u->ind_table->rqs};
	memcpy(u->rss.key, drv->rx_hash_key, RSS_KEY_BYTES);
	u->qp.rss = &u->rss;
	return 0;
}
