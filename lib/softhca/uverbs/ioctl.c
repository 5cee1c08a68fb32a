// SPDX-License-Identifier: Apache-2.0
/*
 * The ioctl methods: one table. To any other the answer is EPROTONOSUPPORT, upon which libibverbs
 * falls back to the write command, where there is one.
 */
#include "ioctl.h"

#include "uverbs.h"

#include <errno.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#define MAX_METHOD_ATTRS 6

struct ioctl_method {
	uint16_t object, method;
	ioctl_handler *handler;
	uint16_t attrs[MAX_METHOD_ATTRS]; /* id + 1; the attributes it knows */
};

#define ATTR(id) ((uint16_t)((id) + 1))

static const struct ioctl_method ioctl_methods[] = {
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, ioctl_invoke_write,
	 {ATTR(UVERBS_ATTR_CORE_IN), ATTR(UVERBS_ATTR_CORE_OUT), ATTR(UVERBS_ATTR_WRITE_CMD),
	  ATTR(UVERBS_ATTR_UHW_IN), ATTR(UVERBS_ATTR_UHW_OUT)}},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, ioctl_query_gid_table,
	 {ATTR(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE), ATTR(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS),
	  ATTR(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES),
	  ATTR(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES)}},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, ioctl_query_gid_entry,
	 {ATTR(UVERBS_ATTR_QUERY_GID_ENTRY_PORT), ATTR(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX),
	  ATTR(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS), ATTR(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY)}},
	{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE, ioctl_counters_create,
	 {ATTR(UVERBS_ATTR_CREATE_COUNTERS_HANDLE)}},
	{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, ioctl_counters_destroy,
	 {ATTR(UVERBS_ATTR_DESTROY_COUNTERS_HANDLE)}},
	{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ, ioctl_counters_read,
	 {ATTR(UVERBS_ATTR_READ_COUNTERS_HANDLE), ATTR(UVERBS_ATTR_READ_COUNTERS_BUFF),
	  ATTR(UVERBS_ATTR_READ_COUNTERS_FLAGS)}},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, ioctl_uar_alloc,
	 {ATTR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE), ATTR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE),
	  ATTR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET), ATTR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH),
	  ATTR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID)}},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, ioctl_uar_destroy,
	 {ATTR(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE)}},
};

struct ib_uverbs_attr *ioctl_attr(const struct ioctl_call *call, uint16_t id)
{
	for (unsigned int i = 0; i < call->hdr->num_attrs; i++)
		if (call->hdr->attrs[i].attr_id == id)
			return &call->hdr->attrs[i];
	return NULL;
}

int ioctl_in(const struct ioctl_call *call, uint16_t id, void *to, size_t bytes)
{
	const struct ib_uverbs_attr *a = ioctl_attr(call, id);

	if (!a)
		return -ENOENT;
	if (a->len < bytes)
		return -EINVAL;
	memcpy(to, a->len <= sizeof(a->data) ? (const void *)&a->data
					     : (const void *)(uintptr_t)a->data,
	       bytes);
	return 0;
}

int ioctl_out(const struct ioctl_call *call, uint16_t id, const void *from, size_t bytes)
{
	struct ib_uverbs_attr *a = ioctl_attr(call, id);

	if (!a)
		return -ENOENT;
	if (a->len < bytes)
		return -ENOSPC;
	memcpy((void *)(uintptr_t)a->data, from, bytes);
	a->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return 0;
}

static bool knows_attr(const struct ioctl_method *m, uint16_t id)
{
	for (unsigned int i = 0; i < MAX_METHOD_ATTRS && m->attrs[i]; i++)
		if (m->attrs[i] == ATTR(id))
			return true;
	return false;
}

static const struct ioctl_method *find(const struct ib_uverbs_ioctl_hdr *hdr)
{
	for (size_t i = 0; i < sizeof(ioctl_methods) / sizeof(ioctl_methods[0]); i++)
		if (ioctl_methods[i].object == hdr->object_id &&
		    ioctl_methods[i].method == hdr->method_id)
			return &ioctl_methods[i];
	return NULL;
}

int uverbs_ioctl(struct uverbs_file *file, void *arg)
{
	struct ioctl_call call = {.file = file, .hdr = arg};
	const struct ioctl_method *m;

	if (call.hdr->length != sizeof(*call.hdr) + call.hdr->num_attrs * sizeof(call.hdr->attrs[0]))
		return -EINVAL;
	if (call.hdr->reserved1 || call.hdr->reserved2)
		return -EPROTONOSUPPORT;
	m = find(call.hdr);
	if (!m)
		return -EPROTONOSUPPORT;
	for (unsigned int i = 0; i < call.hdr->num_attrs; i++)
		if ((call.hdr->attrs[i].flags & UVERBS_ATTR_F_MANDATORY) &&
		    !knows_attr(m, call.hdr->attrs[i].attr_id))
			return -EPROTONOSUPPORT;
	if (!file->has_context && m->handler != ioctl_invoke_write)
		return -EINVAL;
	return m->handler(&call);
}

int ioctl_invoke_write(struct ioctl_call *call)
{
	struct command c = {.file = call->file};
	const struct ib_uverbs_attr *a;
	uint64_t number = 0;
	int r = ioctl_in(call, UVERBS_ATTR_WRITE_CMD, &number, 4);

	if (r)
		return r;
	a = ioctl_attr(call, UVERBS_ATTR_CORE_IN);
	if (a) {
		c.in = a->len <= sizeof(a->data) ? (const void *)&a->data
						 : (const void *)(uintptr_t)a->data;
		c.in_bytes = a->len;
	}
	a = ioctl_attr(call, UVERBS_ATTR_UHW_IN);
	if (a) {
		c.drv_in = a->len <= sizeof(a->data) ? (const void *)&a->data
						     : (const void *)(uintptr_t)a->data;
		c.drv_in_bytes = a->len;
	}
	a = ioctl_attr(call, UVERBS_ATTR_CORE_OUT);
	if (a) {
		c.out = (void *)(uintptr_t)a->data;
		c.out_bytes = a->len;
		memset(c.out, 0, c.out_bytes);
	}
	a = ioctl_attr(call, UVERBS_ATTR_UHW_OUT);
	if (a) {
		c.drv_out = (void *)(uintptr_t)a->data;
		c.drv_out_bytes = a->len;
		memset(c.drv_out, 0, c.drv_out_bytes);
	}
	return command_dispatch(&c, (uint32_t)number);
}
