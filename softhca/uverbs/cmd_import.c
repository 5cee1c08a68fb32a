// SPDX-License-Identifier: Apache-2.0
/*
 * What ibv_import_device() asks: a program makes a second context of an open device. DPDK 24.11 does so at each start.
 * libibverbs creates queue pairs there only by the ioctl method QP.CREATE, which is not there.
 */
#include "../device/refuse.h"
#include "ioctl.h"
#include "uverbs.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

int ioctl_query_context(struct ioctl_call *call)
{
	const uint64_t core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
	const struct device *d = call->file->device;
	const uint32_t n_comp_vectors = device_n_comp_vectors(d);
	const struct ib_uverbs_attr *a = ioctl_attr(call, MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX);
	struct mlx5_ib_alloc_ucontext_resp drv;
	size_t bytes = a && a->len < sizeof(drv) ? a->len : sizeof(drv);
	int r;

	context_fill(d, &drv);
	drv.response_length = (uint32_t)bytes;
	r = ioctl_out(call, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &n_comp_vectors, sizeof(n_comp_vectors));
	if (!r || r == -ENOENT)
		r = ioctl_out(call, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, &core_support, sizeof(core_support));
	if (!r || r == -ENOENT)
		r = ioctl_out(call, MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, &drv, bytes);
	return r == -ENOENT ? -EINVAL : r;
}

/* A file of asynchronous events for a program that has imported the context. */
int ioctl_async_event_alloc(struct ioctl_call *call)
{
	struct ib_uverbs_attr *handle = ioctl_attr(call, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
	int fd, r = handle ? context_open_events(call->file, &fd) : -EINVAL;

	if (!r)
		handle->data_s64 = fd;
	return r;
}

/* The number of a domain, for ibv_import_pd(). */
int ioctl_pd_query(struct ioctl_call *call)
{
	const struct ib_uverbs_attr *handle = ioctl_attr(call, MLX5_IB_ATTR_QUERY_PD_HANDLE);
	const struct pd *pd;
	uint32_t pdn = 0;
	int r;

	if (!handle)
		return -EINVAL;
	device_lock(call->file->device);
	pd = object_find(call->file, (uint32_t)handle->data, OBJECT_PD);
	if (pd)
		pdn = pd->pdn;
	device_unlock(call->file->device);
	if (!pd)
		return refuse(ENOENT, "pd", "no such protection domain", "rdma_core: rdma_lookup_get_uobject");
	r = ioctl_out(call, MLX5_IB_ATTR_QUERY_PD_RESP_PDN, &pdn, sizeof(pdn));
	return r == -ENOENT ? -EINVAL : r;
}

/* The key and the length of a memory region, for ibv_import_mr(). */
int ioctl_query_mr(struct ioctl_call *call)
{
	struct device *d = call->file->device;
	const struct ib_uverbs_attr *handle = ioctl_attr(call, UVERBS_ATTR_QUERY_MR_HANDLE);
	const struct mr *mr;
	struct mkey key = {};
	uint32_t lkey = 0;
	int r;

	if (!handle)
		return -EINVAL;
	device_lock(d);
	mr = object_find(call->file, (uint32_t)handle->data, OBJECT_MR);
	if (mr) {
		lkey = mr->lkey;
		key = d->mkeys.keys[lkey >> 8];
	}
	device_unlock(d);
	if (!mr)
		return refuse(ENOENT, "mr", "no such memory region", "rdma_core: rdma_lookup_get_uobject");
	if ((r = ioctl_out(call, UVERBS_ATTR_QUERY_MR_RESP_LKEY, &lkey, sizeof(lkey))) ||
	    (r = ioctl_out(call, UVERBS_ATTR_QUERY_MR_RESP_RKEY, &lkey, sizeof(lkey))) ||
	    (r = ioctl_out(call, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &key.length, sizeof(key.length))))
		return r == -ENOENT ? -EINVAL : r;
	r = ioctl_out(call, UVERBS_ATTR_QUERY_MR_RESP_IOVA, &key.iova, sizeof(key.iova));
	return r == -ENOENT ? 0 : r; /* libibverbs does not ask for it */
}
