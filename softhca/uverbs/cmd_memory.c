// SPDX-License-Identifier: Apache-2.0
/* Commands of protection domains, memory regions and doorbell pages. */
#include "../device/refuse.h"
#include "dmabuf.h"
#include "ioctl.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <stdlib.h>

/* Pages for doorbells lie behind the fixed mmap() commands of mlx5-abi.h. */
#define UAR_FIRST_PAGE 4096u
#define UAR_MAX        4096u

/* ib_check_mr_access: remote write or atomic needs local write. */
#define ACCESS_REMOTE_WRITERS (IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC)
/* ib_access_writable: flags that need memory that can be written to. */
#define ACCESS_WRITERS (IB_UVERBS_ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITERS | IB_UVERBS_ACCESS_MW_BIND)
#define ACCESS_KNOWN                                                                                   \
	(IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_READ | \
	 IB_UVERBS_ACCESS_REMOTE_ATOMIC | IB_UVERBS_ACCESS_MW_BIND | IB_UVERBS_ACCESS_ZERO_BASED |     \
	 IB_UVERBS_ACCESS_ON_DEMAND | IB_UVERBS_ACCESS_HUGETLB | IB_UVERBS_ACCESS_OPTIONAL_RANGE)

/* UVERBS_METHOD_REG_DMABUF_MR: the flags that it takes. */
#define ACCESS_OF_DMABUF                                                                               \
	(IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_READ | \
	 IB_UVERBS_ACCESS_REMOTE_ATOMIC | IB_UVERBS_ACCESS_RELAXED_ORDERING)

int cmd_alloc_pd(struct command *c)
{
	struct ib_uverbs_alloc_pd_resp resp = {};
	struct mlx5_ib_alloc_pd_resp drv = {};
	struct pd *pd = calloc(1, sizeof(*pd));
	int r;

	if (!pd)
		return -ENOMEM;
	device_lock(c->file->device);
	r = object_add(c->file, &pd->object, OBJECT_PD, NULL);
	if (!r) {
		pd->pdn = c->file->device->next_pdn++;
		resp.pd_handle = pd->object.handle;
		drv.pdn = pd->pdn;
	}
	device_unlock(c->file->device);
	if (r) {
		free(pd);
		return r;
	}
	COMMAND_OUT(c, &resp);
	command_out(c->drv_out, c->drv_out_bytes, &drv, sizeof(drv));
	return 0;
}

static int mr_check_writers(uint32_t access)
{
	return (access & ACCESS_REMOTE_WRITERS) && !(access & IB_UVERBS_ACCESS_LOCAL_WRITE)
	               ? refuse(EINVAL, "access", "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE",
	                        "ib_core: ib_check_mr_access; ibv_reg_mr(3)")
	               : 0;
}

static int mr_check(const struct profile *p, const struct ib_uverbs_reg_mr *req)
{
	uint32_t access = req->access_flags;

	/* ib_uverbs_reg_mr: address and I/O virtual address must have the same offset in their page. */
	if ((req->start & 4095) != (req->hca_va & 4095))
		return refuse(EINVAL, "addr, iova", "different offsets in their page", "ib_uverbs: ib_uverbs_reg_mr");
	if (access & ~(uint32_t)ACCESS_KNOWN)
		return refuse(EINVAL, "access", "unknown flag", "ib_core: ib_check_mr_access");
	if (mr_check_writers(access))
		return -EINVAL;
	if (access & IB_UVERBS_ACCESS_ON_DEMAND)
		return refuse(EOPNOTSUPP, "access", "ON_DEMAND is not offered; odp_caps say so",
		              "ib_core: ib_check_mr_access");
	if (!req->length || req->length > p->max_mr_size)
		return refuse(EINVAL, "length", "0, or more than max_mr_size", "mlx5_ib: mlx5_ib_reg_user_mr");
	return 0;
}

/* The key becomes invalid even while work requests name it; these complete with LOC_PROT_ERR. */
static void mr_destroy(struct object *o)
{
	struct mr *mr = (struct mr *)o;

	mkey_destroy(&o->file->device->mkeys, mr->lkey);
	if (mr->dmabuf)
		dmabuf_unmap(mr->dmabuf, mr->dmabuf_bytes);
	mr->pd->object.n_users--;
}

/* Makes the key and enters the region. With the lock held. */
static int mr_enter(struct uverbs_file *file, struct mr *mr, uint32_t pd_handle, uint32_t access, struct mkey *key)
{
	struct device *d = file->device;
	int r;

	mr->pd = object_find(file, pd_handle, OBJECT_PD);
	if (!mr->pd)
		return refuse(EINVAL, "pd", "no such protection domain", "ib_uverbs: ib_uverbs_reg_mr");
	key->pd = mr->pd;
	key->local_write = access & IB_UVERBS_ACCESS_LOCAL_WRITE;
	key->remote = (uint8_t)access & (MKEY_REMOTE_WRITE | MKEY_REMOTE_READ | MKEY_REMOTE_ATOMIC);
	mr->lkey = mkey_create(&d->mkeys, key, d->config.profile->max_mr, injection_is_on(d, FAULT_REUSE, NULL));
	if (!mr->lkey)
		return -ENOMEM;
	r = object_add(file, &mr->object, OBJECT_MR, mr_destroy);
	if (r)
		mkey_destroy(&d->mkeys, mr->lkey);
	else
		mr->pd->object.n_users++;
	return r;
}

int cmd_reg_mr(struct command *c)
{
	struct ib_uverbs_reg_mr req;
	struct ib_uverbs_reg_mr_resp resp = {};
	struct device *d = c->file->device;
	struct mkey key;
	struct mr *mr;
	int r = COMMAND_IN(c, &req);

	if (!r)
		r = mr_check(d->config.profile, &req);
	if (r)
		return r;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	/* Without the lock: pinning gigabytes must not stop the device thread. */
	r = memlock_pin(c->file->memlock, req.start, req.length, req.access_flags & ACCESS_WRITERS,
	                &mr->object.n_pinned);
	if (r) {
		free(mr);
		return r;
	}
	/* mlx5_ib: reg_create looks at the address only, not at ZERO_BASED. */
	key = (struct mkey){
		.start = (uint8_t *)(uintptr_t)req.start,
		.iova = req.hca_va,
		.length = req.length,
	};
	device_lock(d);
	r = mr_enter(c->file, mr, req.pd_handle, req.access_flags, &key);
	device_unlock(d);
	if (r) {
		memlock_unpin(c->file->memlock, mr->object.n_pinned);
		free(mr);
		return r;
	}
	resp.mr_handle = mr->object.handle;
	resp.lkey = resp.rkey = mr->lkey;
	COMMAND_OUT(c, &resp);
	return 0;
}

struct dmabuf_request {
	uint64_t offset, length, iova;
	uint32_t fd, access;
};

static int dmabuf_read_request(struct ioctl_call *call, struct dmabuf_request *req)
{
	int r;

	if ((r = ioctl_in(call, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, &req->offset, 8)) ||
	    (r = ioctl_in(call, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, &req->length, 8)) ||
	    (r = ioctl_in(call, UVERBS_ATTR_REG_DMABUF_MR_IOVA, &req->iova, 8)) ||
	    (r = ioctl_in(call, UVERBS_ATTR_REG_DMABUF_MR_FD, &req->fd, 4)) ||
	    (r = ioctl_in(call, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, &req->access, 4)))
		return r;
	if ((req->offset & 4095) != (req->iova & 4095))
		return refuse(EINVAL, "offset, iova", "different offsets in their page",
		              "ib_uverbs: UVERBS_METHOD_REG_DMABUF_MR");
	if (req->access & ~(uint32_t)ACCESS_OF_DMABUF)
		return refuse(EINVAL, "access", "a flag that a dma-buf cannot have",
		              "ib_uverbs: UVERBS_METHOD_REG_DMABUF_MR");
	return mr_check_writers(req->access);
}

/* The memory counts against no limit (ib_umem_dmabuf_get does not look at RLIMIT_MEMLOCK). */
int ioctl_reg_dmabuf_mr(struct ioctl_call *call)
{
	struct ib_uverbs_attr *handle = ioctl_attr(call, UVERBS_ATTR_REG_DMABUF_MR_HANDLE);
	struct ib_uverbs_attr *pd = ioctl_attr(call, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE);
	struct dmabuf_request req = {};
	struct mkey key;
	struct mr *mr;
	int r = handle && pd ? dmabuf_read_request(call, &req) : -EINVAL;

	if (r)
		return r;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	r = dmabuf_map(call->file->fdtab, (int)req.fd, req.offset, req.length, req.access & ACCESS_WRITERS,
	               &mr->dmabuf);
	if (r) {
		free(mr);
		return r;
	}
	mr->dmabuf_bytes = req.length;
	key = (struct mkey){.start = mr->dmabuf, .iova = req.iova, .length = req.length};
	device_lock(call->file->device);
	r = mr_enter(call->file, mr, (uint32_t)pd->data, req.access, &key);
	device_unlock(call->file->device);
	if (r) {
		dmabuf_unmap(mr->dmabuf, mr->dmabuf_bytes);
		free(mr);
		return r;
	}
	handle->data = mr->object.handle;
	r = ioctl_out(call, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr->lkey, 4);
	return r ? r : ioctl_out(call, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr->lkey, 4);
}

/* The lowest page that is not used; UAR_MAX if there is none. */
static uint32_t uar_free_page(const struct uverbs_file *file)
{
	bool used[UAR_MAX] = {};
	uint32_t page = 0;

	for (uint32_t i = 0; i < file->objects.size; i++) {
		const struct object *o = file->objects.slots[i];

		if (o && o->type == OBJECT_UAR)
			used[((const struct uar *)o)->page] = true;
	}
	while (page < UAR_MAX && used[page])
		page++;
	return page;
}

int ioctl_uar_alloc(struct ioctl_call *call)
{
	struct ib_uverbs_attr *handle = ioctl_attr(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE);
	uint64_t type = 0, offset;
	uint32_t length = 4096, page;
	struct uar *uar;
	int r = ioctl_in(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, &type, 4);

	if (r)
		return r;
	if (!handle || (type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC))
		return -EOPNOTSUPP;
	uar = calloc(1, sizeof(*uar));
	if (!uar)
		return -ENOMEM;
	device_lock(call->file->device);
	uar->page = uar_free_page(call->file);
	r = uar->page < UAR_MAX ? object_add(call->file, &uar->object, OBJECT_UAR, NULL) : -ENOMEM;
	device_unlock(call->file->device);
	if (r) {
		free(uar);
		return r;
	}
	page = uar->page + 1;
	offset = (uint64_t)(UAR_FIRST_PAGE + uar->page) * 4096;
	if ((r = ioctl_out(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset, 8)) ||
	    (r = ioctl_out(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &length, 4)) ||
	    (r = ioctl_out(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &page, 4)))
		return r;
	handle->data = uar->object.handle;
	return 0;
}
