// SPDX-License-Identifier: Apache-2.0
/*
 * What ibv_import_device() asks: a program makes a second context of an open device. DPDK 24.11 does so at each start.
 * libibverbs creates queue pairs there only by the ioctl method QP.CREATE, which is not there.
 */
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
