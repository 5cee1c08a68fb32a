// SPDX-License-Identifier: Apache-2.0
/* Commands of completion channels and completion queues. */
#include "../device/refuse.h"
#include "command.h"
#include "pitfalls.h"
#include "user_memory.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>

#define COMP_RECORD sizeof(struct ib_uverbs_comp_event_desc)
#define CQ_MODERATE 1u /* enum ib_cq_attr_mask: kernel-internal names, but ABI */

int cmd_create_comp_channel(struct command *c)
{
	struct ib_uverbs_create_comp_channel_resp resp = {};
	struct event_channel *channel;
	int fd, r;

	r = event_channel_open(c->file->fdtab, c->file->fd_object.ino, COMP_RECORD, &channel, &fd);
	if (r)
		return r;
	fd_object_put(&channel->fd_object);
	resp.fd = (uint32_t)fd;
	COMMAND_OUT(c, &resp);
	return 0;
}

static uint32_t ucq_round_up(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

/* create_cq_user, mini_cqe_res_format_to_hw */
static int ucq_set_compression(struct cq *cq, const struct profile *p, const struct mlx5_ib_create_cq *drv)
{
	if (drv->cqe_comp_en != 1)
		return 0;
	if (!p->max_compressed || drv->cqe_size != 64)
		return refuse(EOPNOTSUPP, "cqe_comp_en", "the model compresses no completions of this size",
		              "mlx5_ib: create_cq_user");
	switch (drv->cqe_comp_res_format) {
	case MLX5_IB_CQE_RES_FORMAT_HASH:
		cq->mini_format = HW_MINI_HASH;
		break;
	case MLX5_IB_CQE_RES_FORMAT_CSUM:
		cq->mini_format = HW_MINI_CSUM;
		break;
	case MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX:
		if (!p->striding)
			return refuse(EOPNOTSUPP, "cqe_comp_res_format", "the model has no index of the stride",
			              "mlx5_ib: mini_cqe_res_format_to_hw");
		cq->mini_format = HW_MINI_CSUM_STRIDE;
		break;
	default:
		return refuse(EINVAL, "cqe_comp_res_format", "not one of the formats",
		              "mlx5_ib: mini_cqe_res_format_to_hw");
	}
	cq->max_compressed = p->max_compressed;
	return 0;
}

static int ucq_check(const struct command *c, const struct ib_uverbs_ex_create_cq *req,
                     const struct mlx5_ib_create_cq *drv)
{
	const struct profile *p = c->file->device->config.profile;

	if (req->comp_mask || req->reserved ||
	    (req->flags & ~(uint32_t)(IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)))
		return refuse(EOPNOTSUPP, "flags, comp_mask", "unknown flag", "ib_uverbs: create_cq");
	if (!req->cqe || req->cqe > p->max_cqe || req->comp_vector >= device_n_comp_vectors(c->file->device))
		return refuse(EINVAL, "cqe, comp_vector", "0, or more than the device has",
		              "mlx5_ib: mlx5_ib_create_cq; ib_uverbs: create_cq");
	if (drv->flags & ~(MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX | MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS))
		return refuse(EINVAL, "flags", "mlx5 flag that is not offered (CQE padding)",
		              "mlx5_ib: create_cq_user");
	if ((drv->cqe_size != 64 && drv->cqe_size != 128) || drv->reserved0 || drv->reserved1)
		return refuse(EINVAL, "cqe_size", "neither 64 nor 128", "mlx5_ib: create_cq_user");
	return 0;
}

static int ucq_pin(const struct command *c, struct ucq *u, const struct mlx5_ib_create_cq *drv)
{
	const uint32_t never = CQ_NEVER_ARMED;
	struct memlock *m = c->file->memlock;
	int r = memlock_pin_queue(m, drv->buf_addr, (uint64_t)u->cq.n_cqe * drv->cqe_size, &u->object.n_pinned);

	u->n_buffer_pages = u->object.n_pinned;
	if (!r)
		r = memlock_pin_doorbell(m, drv->db_addr, &u->object.n_pinned);
	if (!r)
		r = user_memory_write(drv->db_addr + HW_DBR_CQ_ARM * sizeof(never), &never, sizeof(never));
	return r;
}

/* Finds a completion channel and takes a reference. -EBADF for a descriptor of another kind or of another context
 * (rdma_core: lookup_get_fd_uobject). */
static int ucq_find_channel(const struct command *c, int fd, struct event_channel **channel)
{
	*channel = NULL;
	if (fd < 0)
		return 0;
	*channel = (struct event_channel *)fdtab_find(c->file->fdtab, fd, FD_CHANNEL);
	if (*channel && (*channel)->record_bytes == COMP_RECORD && (*channel)->file_ino == c->file->fd_object.ino)
		return 0;
	if (*channel)
		fd_object_put(&(*channel)->fd_object);
	*channel = NULL;
	return refuse(EBADF, "comp_channel", "not a completion channel of this context",
	              "rdma_core: lookup_get_fd_uobject");
}

static void ucq_destroy(struct object *o)
{
	struct ucq *u = (struct ucq *)o;

	cq_deinit(&u->cq);
	if (u->channel) {
		event_channel_purge(u->channel, o->user_handle);
		fd_object_put(&u->channel->fd_object);
	}
	async_events_read(o);
}

int ucq_create(struct command *c, const struct ib_uverbs_ex_create_cq *req, struct ib_uverbs_create_cq_resp *resp)
{
	struct device *d = c->file->device;
	struct mlx5_ib_create_cq_resp drv_resp = {};
	struct mlx5_ib_create_cq drv;
	struct ucq *u;
	int r = command_in(&drv, sizeof(drv), c->drv_in, c->drv_in_bytes);

	if (!r)
		r = ucq_check(c, req, &drv);
	if (r)
		return r;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	r = ucq_find_channel(c, req->comp_channel, &u->channel);
	if (r)
		goto fail;
	u->cq = (struct cq){
		.device = d,
		.buf = (uint8_t *)(uintptr_t)drv.buf_addr,
		.cqe_bytes = drv.cqe_size,
		.n_cqe = ucq_round_up(req->cqe + 1),
		.dbrec = (uint32_t *)(uintptr_t)drv.db_addr,
		.real_time = drv.flags & MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS || d->config.real_time == REAL_TIME_ONLY,
		.ignore_overrun = req->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN,
		.owner = u,
	};
	u->real_time = drv.flags & MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS;
	u->cycles = req->flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
	u->object.user_handle = req->user_handle;
	r = ucq_set_compression(&u->cq, d->config.profile, &drv);
	u->cq.asks_more = u->cq.real_time || u->cq.mini_format != HW_MINI_HASH;
	if (!r)
		r = ucq_pin(c, u, &drv);
	if (r)
		goto fail;
	device_lock(d);
	r = object_add(c->file, &u->object, OBJECT_CQ, ucq_destroy);
	if (!r) {
		u->cq.cqn = d->next_cqn++;
		cq_init(&u->cq);
		if (u->cycles && !d->config.profile->core_clock_khz)
			warning_give(d, WARNING_NO_STAMPS, u->cq.cqn);
	}
	device_unlock(d);
	if (r)
		goto fail;
	resp->cq_handle = u->object.handle;
	resp->cqe = u->cq.n_cqe - 1;
	drv_resp.cqn = u->cq.cqn;
	command_out(c->drv_out, c->drv_out_bytes, &drv_resp, sizeof(drv_resp));
	return 0;
fail:
	memlock_unpin(c->file->memlock, u->object.n_pinned);
	if (u->channel)
		fd_object_put(&u->channel->fd_object);
	free(u);
	return r;
}

int cmd_create_cq(struct command *c)
{
	struct ib_uverbs_create_cq req;
	struct ib_uverbs_create_cq_resp resp;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	struct ib_uverbs_ex_create_cq ex = {
		.user_handle = req.user_handle,
		.cqe = req.cqe,
		.comp_vector = req.comp_vector,
		.comp_channel = req.comp_channel,
	};
	r = ucq_create(c, &ex, &resp);
	if (!r)
		COMMAND_OUT(c, &resp);
	return r;
}

int cmd_ex_create_cq(struct command *c)
{
	struct ib_uverbs_ex_create_cq req;
	struct ib_uverbs_ex_create_cq_resp resp = {.response_length = sizeof(resp)};
	int r = COMMAND_IN(c, &req);

	if (!r)
		r = ucq_create(c, &req, &resp.base);
	if (!r)
		COMMAND_OUT(c, &resp);
	return r;
}

int cq_check_timestamps(const struct ucq *u)
{
	enum real_time has = u->cq.device->config.real_time;

	if (u->real_time)
		return has == REAL_TIME_OFF ? -EOPNOTSUPP : 0;
	return u->cycles && has == REAL_TIME_ONLY ? -EOPNOTSUPP : 0;
}

int cmd_destroy_cq(struct command *c)
{
	struct ib_uverbs_destroy_cq_resp resp = {};
	struct ib_uverbs_destroy_cq req;
	struct ucq *u;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	device_lock(c->file->device);
	u = object_find_unused(c->file, req.cq_handle, OBJECT_CQ, &r);
	if (u) {
		/* libibverbs waits until the program has acknowledged as many events as it has read. Events that it
		 * never read must not count. */
		if (u->channel)
			u->n_comp_events -= event_channel_purge(u->channel, u->object.user_handle);
		pitfall_of_events(u);
		resp.comp_events_reported = u->n_comp_events;
		resp.async_events_reported = async_events_read(&u->object);
		object_destroy(&u->object);
	}
	device_unlock(c->file->device);
	if (!r)
		COMMAND_OUT(c, &resp);
	return r;
}

/* mlx5_ib_resize_cq: the new buffer is pinned, then the firmware moves the queue to it. With the lock held. */
static int ucq_resize(struct command *c, struct ucq *u, const struct mlx5_ib_resize_cq *drv, uint32_t n_cqe)
{
	uint64_t pages = 0;
	int r = memlock_pin_queue(c->file->memlock, drv->buf_addr, (uint64_t)n_cqe * drv->cqe_size, &pages);

	if (!r && !cq_move(&u->cq, (uint8_t *)(uintptr_t)drv->buf_addr, drv->cqe_size, n_cqe))
		r = refuse(EINVAL, "cqe", "no room for the completions that are there", "PRM: RESIZE_CQ");
	if (r) {
		memlock_unpin(c->file->memlock, pages);
		return r;
	}
	memlock_unpin(c->file->memlock, u->n_buffer_pages);
	u->object.n_pinned += pages - u->n_buffer_pages;
	u->n_buffer_pages = pages;
	return 0;
}

int cmd_resize_cq(struct command *c)
{
	const struct profile *p = c->file->device->config.profile;
	struct ib_uverbs_resize_cq_resp resp = {};
	struct mlx5_ib_resize_cq drv;
	struct ib_uverbs_resize_cq req;
	struct ucq *u;
	int r = COMMAND_IN(c, &req);

	if (!r)
		r = command_in(&drv, sizeof(drv), c->drv_in, c->drv_in_bytes);
	if (r)
		return r;
	/* mlx5_core: the bit cq_resize of the device's capabilities. */
	if (!p->max_moderation_count)
		return refuse(ENOSYS, "cqe", "the model cannot resize", "mlx5_ib: mlx5_ib_resize_cq");
	if (!req.cqe || req.cqe > p->max_cqe || drv.reserved0 || drv.reserved1 ||
	    (drv.cqe_size != 64 && drv.cqe_size != 128))
		return refuse(EINVAL, "cqe, cqe_size", "0, more than the device has, or neither 64 nor 128",
		              "mlx5_ib: mlx5_ib_resize_cq");
	device_lock(c->file->device);
	u = object_find(c->file, req.cq_handle, OBJECT_CQ);
	if (!u)
		r = -EINVAL;
	else if (ucq_round_up(req.cqe + 1) != u->cq.n_cqe)
		r = ucq_resize(c, u, &drv, ucq_round_up(req.cqe + 1));
	if (!r)
		resp.cqe = u->cq.n_cqe - 1;
	device_unlock(c->file->device);
	if (!r)
		COMMAND_OUT(c, &resp);
	return r;
}

/* rdma_set_cq_moderation, mlx5_ib_modify_cq: the count has 16 bits, the period 12. */
int cmd_ex_modify_cq(struct command *c)
{
	const struct profile *p = c->file->device->config.profile;
	struct ib_uverbs_ex_modify_cq req;
	struct ucq *u;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	if (!req.attr_mask || req.reserved)
		return refuse(EINVAL, "attr_mask", "nothing to change", "ib_uverbs: ib_uverbs_ex_modify_cq");
	if (req.attr_mask > CQ_MODERATE)
		return refuse(EOPNOTSUPP, "attr_mask", "unknown attribute", "ib_uverbs: ib_uverbs_ex_modify_cq");
	device_lock(c->file->device);
	u = object_find(c->file, req.cq_handle, OBJECT_CQ);
	if (!u)
		r = refuse(EINVAL, "cq", "no such completion queue", "ib_uverbs: ib_uverbs_ex_modify_cq");
	else if (!p->max_moderation_count)
		r = refuse(EOPNOTSUPP, "moderation", "the device has none", "mlx5_ib: mlx5_ib_modify_cq");
	else if (req.attr.cq_period > p->max_moderation_us)
		r = refuse(EINVAL, "cq_period", "more than 12 bits", "mlx5_ib: mlx5_ib_modify_cq");
	else
		cq_moderate(&u->cq, req.attr.cq_count, req.attr.cq_period);
	device_unlock(c->file->device);
	return r;
}
