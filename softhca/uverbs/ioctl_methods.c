// SPDX-License-Identifier: Apache-2.0
/*
 * The ioctl methods, in one table. Any other method is refused with EPROTONOSUPPORT; libibverbs then uses the write
 * command, if there is one.
 */
#include "ioctl.h"

#include "user_memory.h"
#include "uverbs.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <stdlib.h>

#define MAX_METHOD_ATTRS 10

struct ioctl_method {
	const char *name;
	uint16_t object, method;
	ioctl_handler *handler;           /* NULL: the first attribute is the handle of an object to destroy */
	uint16_t attrs[MAX_METHOD_ATTRS]; /* id + 1, of the attributes that the method knows */
	enum object_type type;            /* of an object to destroy */
};

#define ATTR(id) ((uint16_t)((id) + 1))

static const struct ioctl_method ioctl_methods[] = {
	{"INVOKE_WRITE", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, ioctl_invoke_write,
         .attrs = {ATTR(UVERBS_ATTR_CORE_IN), ATTR(UVERBS_ATTR_CORE_OUT), ATTR(UVERBS_ATTR_WRITE_CMD),
                   ATTR(UVERBS_ATTR_UHW_IN), ATTR(UVERBS_ATTR_UHW_OUT)}},
	{"QUERY_CONTEXT", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, ioctl_query_context,
         .attrs = {ATTR(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS), ATTR(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT),
                   ATTR(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX)}},
	{"PD_QUERY", UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY, ioctl_pd_query,
         .attrs = {ATTR(MLX5_IB_ATTR_QUERY_PD_HANDLE), ATTR(MLX5_IB_ATTR_QUERY_PD_RESP_PDN)}},
	{"QUERY_MR", UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, ioctl_query_mr,
         .attrs = {ATTR(UVERBS_ATTR_QUERY_MR_HANDLE), ATTR(UVERBS_ATTR_QUERY_MR_RESP_LKEY),
                   ATTR(UVERBS_ATTR_QUERY_MR_RESP_RKEY), ATTR(UVERBS_ATTR_QUERY_MR_RESP_LENGTH),
                   ATTR(UVERBS_ATTR_QUERY_MR_RESP_IOVA)}},
	{"QUERY_GID_TABLE", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, ioctl_query_gid_table,
         .attrs = {ATTR(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE), ATTR(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS),
                   ATTR(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES), ATTR(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES)}},
	{"QUERY_GID_ENTRY", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, ioctl_query_gid_entry,
         .attrs = {ATTR(UVERBS_ATTR_QUERY_GID_ENTRY_PORT), ATTR(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX),
                   ATTR(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS), ATTR(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY)}},
	{"COUNTERS_CREATE", UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE, ioctl_counters_create,
         .attrs = {ATTR(UVERBS_ATTR_CREATE_COUNTERS_HANDLE)}},
	{"COUNTERS_DESTROY", UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, .type = OBJECT_COUNTERS,
         .attrs = {ATTR(UVERBS_ATTR_DESTROY_COUNTERS_HANDLE)}},
	{"COUNTERS_READ", UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ, ioctl_counters_read,
         .attrs = {ATTR(UVERBS_ATTR_READ_COUNTERS_HANDLE), ATTR(UVERBS_ATTR_READ_COUNTERS_BUFF),
                   ATTR(UVERBS_ATTR_READ_COUNTERS_FLAGS)}},
	{"CQ_CREATE", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, ioctl_cq_create,
         .attrs = {ATTR(UVERBS_ATTR_CREATE_CQ_HANDLE), ATTR(UVERBS_ATTR_CREATE_CQ_CQE),
                   ATTR(UVERBS_ATTR_CREATE_CQ_USER_HANDLE), ATTR(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL),
                   ATTR(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR), ATTR(UVERBS_ATTR_CREATE_CQ_FLAGS),
                   ATTR(UVERBS_ATTR_CREATE_CQ_RESP_CQE), ATTR(UVERBS_ATTR_CREATE_CQ_EVENT_FD), ATTR(UVERBS_ATTR_UHW_IN),
                   ATTR(UVERBS_ATTR_UHW_OUT)}},
	{"ASYNC_EVENT_ALLOC", UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, ioctl_async_event_alloc,
         .attrs = {ATTR(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)}},
	{"REG_DMABUF_MR", UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, ioctl_reg_dmabuf_mr,
         .attrs = {ATTR(UVERBS_ATTR_REG_DMABUF_MR_HANDLE), ATTR(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE),
                   ATTR(UVERBS_ATTR_REG_DMABUF_MR_OFFSET), ATTR(UVERBS_ATTR_REG_DMABUF_MR_LENGTH),
                   ATTR(UVERBS_ATTR_REG_DMABUF_MR_IOVA), ATTR(UVERBS_ATTR_REG_DMABUF_MR_FD),
                   ATTR(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS), ATTR(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY),
                   ATTR(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY)}},
	{"FLOW_MATCHER_CREATE", MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE, ioctl_matcher_create,
         .attrs = {ATTR(MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE), ATTR(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK),
                   ATTR(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE), ATTR(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA),
                   ATTR(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS), ATTR(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE)}},
	{"FLOW_MATCHER_DESTROY", MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY,
         .type = OBJECT_MATCHER, .attrs = {ATTR(MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE)}},
	{"CREATE_FLOW", UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, ioctl_flow_create,
         .attrs = {ATTR(MLX5_IB_ATTR_CREATE_FLOW_HANDLE), ATTR(MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE),
                   ATTR(MLX5_IB_ATTR_CREATE_FLOW_DEST_QP), ATTR(MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX),
                   ATTR(MLX5_IB_ATTR_CREATE_FLOW_MATCHER), ATTR(MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS),
                   ATTR(MLX5_IB_ATTR_CREATE_FLOW_TAG), ATTR(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX),
                   ATTR(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET), ATTR(MLX5_IB_ATTR_CREATE_FLOW_FLAGS)}},
	{"DESTROY_FLOW", UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_DESTROY_FLOW, ioctl_flow_destroy,
         .attrs = {ATTR(MLX5_IB_ATTR_CREATE_FLOW_HANDLE)}},
	{"UAR_OBJ_ALLOC", MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, ioctl_uar_alloc,
         .attrs = {ATTR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE), ATTR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE),
                   ATTR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET), ATTR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH),
                   ATTR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID)}},
	{"UAR_OBJ_DESTROY", MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, .type = OBJECT_UAR,
         .attrs = {ATTR(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE)}},
};

static bool ioctl_method_knows(const struct ioctl_method *m, uint16_t id)
{
	for (unsigned int i = 0; i < MAX_METHOD_ATTRS && m->attrs[i]; i++)
		if (m->attrs[i] == ATTR(id))
			return true;
	return false;
}

static const struct ioctl_method *ioctl_find_method(const struct ib_uverbs_ioctl_hdr *hdr)
{
	for (size_t i = 0; i < sizeof(ioctl_methods) / sizeof(ioctl_methods[0]); i++)
		if (ioctl_methods[i].object == hdr->object_id && ioctl_methods[i].method == hdr->method_id)
			return &ioctl_methods[i];
	return NULL;
}

/* uverbs_set_attr: an unknown attribute must be optional, and a known one must not come twice. */
static int ioctl_check_attrs(struct ioctl_call *call, const struct ioctl_method *m)
{
	for (unsigned int i = 0; i < call->n_attrs; i++) {
		struct ib_uverbs_attr *a = &call->attrs[i];

		if (!ioctl_method_knows(m, a->attr_id)) {
			if (a->flags & UVERBS_ATTR_F_MANDATORY)
				return -EPROTONOSUPPORT;
			continue;
		}
		if (ioctl_attr(call, a->attr_id) != a)
			return -EINVAL;
	}
	return 0;
}

static int ioctl_destroy_object(struct ioctl_call *call, const struct ioctl_method *m)
{
	const struct ib_uverbs_attr *handle = ioctl_attr(call, m->attrs[0] - 1);

	return handle ? object_destroy_handle(call->file, (uint32_t)handle->data, m->type, NULL) : -EINVAL;
}

static int ioctl_run(struct ioctl_call *call, const struct ib_uverbs_ioctl_hdr *hdr, uint64_t user_attrs)
{
	const size_t bytes = call->n_attrs * sizeof(call->attrs[0]);
	uint64_t began_ns = clock_raw_ns();
	const struct ioctl_method *m;
	int r;

	if (hdr->driver_id != RDMA_DRIVER_MLX5)
		return -EINVAL;
	m = ioctl_find_method(hdr);
	if (!m)
		return -EPROTONOSUPPORT;
	if (user_memory_read(call->attrs, user_attrs, bytes))
		return -EFAULT;
	r = ioctl_check_attrs(call, m);
	if (r)
		return r;
	if (!call->file->has_context && m->handler != ioctl_invoke_write)
		return -EINVAL;
	r = m->handler ? m->handler(call) : ioctl_destroy_object(call, m);
	if (m->handler != ioctl_invoke_write) /* which ends the command itself */
		command_ended(call->file->device, m->name, 0, r, began_ns);
	return r ? r : user_memory_write(user_attrs, call->attrs, bytes);
}

int uverbs_ioctl(struct uverbs_file *file, void *arg)
{
	struct ioctl_call call = {.file = file};
	struct ib_uverbs_ioctl_hdr hdr;

	if (user_memory_read(&hdr, (uintptr_t)arg, sizeof(hdr)))
		return -EFAULT;
	if (hdr.length > IOCTL_MAX_BYTES || hdr.length != sizeof(hdr) + hdr.num_attrs * sizeof(call.attrs[0]))
		return -EINVAL;
	if (hdr.reserved1 || hdr.reserved2)
		return -EPROTONOSUPPORT;
	call.n_attrs = hdr.num_attrs;
	return ioctl_run(&call, &hdr, (uintptr_t)arg + sizeof(hdr));
}

/* Copies the bytes of an input attribute to `*at`, which then moves on. No effect without the attribute. */
static int ioctl_take_input(struct ioctl_call *call, uint16_t id, uint8_t **at, const void **in, size_t *bytes)
{
	const struct ib_uverbs_attr *a = ioctl_attr(call, id);

	*in = *at;
	*bytes = a ? a->len : 0;
	*at += (*bytes + 7) & ~7ul;
	return a ? ioctl_read_attr(a, (void *)*in, *bytes) : 0;
}

static void ioctl_make_output(struct ioctl_call *call, uint16_t id, uint8_t **at, void **out, size_t *bytes)
{
	const struct ib_uverbs_attr *a = ioctl_attr(call, id);

	*out = *at;
	*bytes = a ? a->len : 0;
	*at += (*bytes + 7) & ~7ul;
}

int ioctl_invoke_write(struct ioctl_call *call)
{
	struct command c = {.file = call->file};
	uint64_t number = 0;
	uint8_t *buffer, *at;
	int r = ioctl_in(call, UVERBS_ATTR_WRITE_CMD, &number, 4);

	if (r)
		return r;
	at = buffer = calloc(4, UINT16_MAX + 1);
	if (!buffer)
		return -ENOMEM;
	ioctl_make_output(call, UVERBS_ATTR_CORE_OUT, &at, &c.out, &c.out_bytes);
	ioctl_make_output(call, UVERBS_ATTR_UHW_OUT, &at, &c.drv_out, &c.drv_out_bytes);
	r = ioctl_take_input(call, UVERBS_ATTR_CORE_IN, &at, &c.in, &c.in_bytes);
	if (!r)
		r = ioctl_take_input(call, UVERBS_ATTR_UHW_IN, &at, &c.drv_in, &c.drv_in_bytes);
	if (!r)
		r = command_dispatch(&c, (uint32_t)number);
	if (!r && c.out_bytes)
		r = ioctl_out(call, UVERBS_ATTR_CORE_OUT, c.out, c.out_bytes);
	if (!r && c.drv_out_bytes)
		r = ioctl_out(call, UVERBS_ATTR_UHW_OUT, c.drv_out, c.drv_out_bytes);
	free(buffer);
	return r;
}

/* Without this method libibverbs uses CREATE_CQ, which has no flags, if timestamps are the only flag. */
static int ioctl_cq_read_request(struct ioctl_call *call, struct ib_uverbs_ex_create_cq *req)
{
	const struct ib_uverbs_attr *channel = ioctl_attr(call, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL);
	uint32_t cqe = 0;
	int r;

	*req = (struct ib_uverbs_ex_create_cq){.comp_channel = channel ? (int32_t)channel->data_s64 : -1};
	if ((r = ioctl_in(call, UVERBS_ATTR_CREATE_CQ_CQE, &cqe, sizeof(cqe))) ||
	    (r = ioctl_in(call, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, &req->user_handle, sizeof(req->user_handle))) ||
	    (r = ioctl_in(call, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, &req->comp_vector, sizeof(req->comp_vector))))
		return r;
	req->cqe = cqe;
	if (ioctl_attr(call, UVERBS_ATTR_CREATE_CQ_FLAGS))
		return ioctl_in(call, UVERBS_ATTR_CREATE_CQ_FLAGS, &req->flags, sizeof(req->flags));
	return 0;
}

int ioctl_cq_create(struct ioctl_call *call)
{
	struct ib_uverbs_attr *handle = ioctl_attr(call, UVERBS_ATTR_CREATE_CQ_HANDLE);
	struct command c = {.file = call->file};
	struct ib_uverbs_create_cq_resp resp;
	struct ib_uverbs_ex_create_cq req;
	uint8_t *buffer, *at;
	int r = handle ? ioctl_cq_read_request(call, &req) : -EINVAL;

	if (!r)
		r = uverbs_ask_firmware(call->file, false);
	if (r)
		return r;
	at = buffer = calloc(2, UINT16_MAX + 1);
	if (!buffer)
		return -ENOMEM;
	ioctl_make_output(call, UVERBS_ATTR_UHW_OUT, &at, &c.drv_out, &c.drv_out_bytes);
	r = ioctl_take_input(call, UVERBS_ATTR_UHW_IN, &at, &c.drv_in, &c.drv_in_bytes);
	if (!r)
		r = ucq_create(&c, &req, &resp);
	if (!r && c.drv_out_bytes)
		r = ioctl_out(call, UVERBS_ATTR_UHW_OUT, c.drv_out, c.drv_out_bytes);
	if (!r)
		r = ioctl_out(call, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &resp.cqe, sizeof(resp.cqe));
	free(buffer);
	if (!r)
		handle->data = resp.cq_handle;
	return r;
}
