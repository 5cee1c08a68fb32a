// SPDX-License-Identifier: Apache-2.0
/*
 * The write commands, in one table. Any other command is refused with EOPNOTSUPP, as ib_uverbs does for a device
 * without the operation.
 */
#include "../device/refuse.h"
#include "command.h"

#include "user_memory.h"
#include "uverbs.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>

struct write_command {
	command_handler *handler;
	const char *name;
	uint16_t req_bytes, resp_bytes; /* of the core structures, without driver payload */
	bool destroys;
	enum object_type type; /* without a handler: the request is a handle of this type, whose object is destroyed */
};

#define EX_FIRST 64 /* rows of extended commands come behind the plain ones */
#define N_ROWS   128
/* Both word counts of an extended command have 16 bits. */
#define MAX_REQUEST_BYTES (2u * 8 * UINT16_MAX + 64)
#define ROW(cmd)          [IB_USER_VERBS_CMD_##cmd]
#define ROW_EX(cmd)       [EX_FIRST + IB_USER_VERBS_EX_CMD_##cmd]
#define NAME(n)           .name = #n
#define REQ(t)            .req_bytes = sizeof(struct ib_uverbs_##t)
#define RESP(t)           .resp_bytes = sizeof(struct ib_uverbs_##t)
/* An extended structure may grow. Up to this field it must be there (kernel: UAPI_DEF_WRITE_IO_EX). */
#define REQ_UP_TO(t, field)  .req_bytes = END_OF(t, field)
#define RESP_UP_TO(t, field) .resp_bytes = END_OF(t, field)
#define END_OF(t, field)     (offsetof(struct ib_uverbs_##t, field) + sizeof(((struct ib_uverbs_##t *)0)->field))

static const struct write_command write_commands[N_ROWS] = {
	ROW(GET_CONTEXT) = {cmd_get_context, NAME(GET_CONTEXT), REQ(get_context), RESP(get_context_resp)},
	ROW(QUERY_DEVICE) = {cmd_query_device, NAME(QUERY_DEVICE), REQ(query_device), RESP(query_device_resp)},
	ROW(QUERY_PORT) = {cmd_query_port, NAME(QUERY_PORT), REQ(query_port), RESP(query_port_resp)},
	ROW(ALLOC_PD) = {cmd_alloc_pd, NAME(ALLOC_PD), REQ(alloc_pd), RESP(alloc_pd_resp)},
	ROW(DEALLOC_PD) = {NAME(DEALLOC_PD), REQ(dealloc_pd), .destroys = true, .type = OBJECT_PD},
	ROW(REG_MR) = {cmd_reg_mr, NAME(REG_MR), REQ(reg_mr), RESP(reg_mr_resp)},
	ROW(DEREG_MR) = {NAME(DEREG_MR), REQ(dereg_mr), .destroys = true, .type = OBJECT_MR},
	ROW(CREATE_COMP_CHANNEL) = {cmd_create_comp_channel, NAME(CREATE_COMP_CHANNEL), REQ(create_comp_channel),
                                    RESP(create_comp_channel_resp)},
	ROW(CREATE_CQ) = {cmd_create_cq, NAME(CREATE_CQ), REQ(create_cq), RESP(create_cq_resp)},
	ROW(RESIZE_CQ) = {cmd_resize_cq, NAME(RESIZE_CQ), REQ(resize_cq), RESP(resize_cq_resp)},
	ROW(DESTROY_CQ) = {cmd_destroy_cq, NAME(DESTROY_CQ), REQ(destroy_cq), RESP(destroy_cq_resp), .destroys = true},
	ROW(CREATE_AH) = {cmd_create_ah, NAME(CREATE_AH), REQ(create_ah), RESP(create_ah_resp)},
	ROW(DESTROY_AH) = {NAME(DESTROY_AH), REQ(destroy_ah), .destroys = true, .type = OBJECT_AH},
	ROW(CREATE_SRQ) = {cmd_create_srq, NAME(CREATE_SRQ), REQ(create_srq), RESP(create_srq_resp)},
	ROW(MODIFY_SRQ) = {cmd_modify_srq, NAME(MODIFY_SRQ), REQ(modify_srq)},
	ROW(QUERY_SRQ) = {cmd_query_srq, NAME(QUERY_SRQ), REQ(query_srq), RESP(query_srq_resp)},
	ROW(DESTROY_SRQ) = {cmd_destroy_srq, NAME(DESTROY_SRQ), REQ(destroy_srq), RESP(destroy_srq_resp),
                            .destroys = true},
	ROW(CREATE_QP) = {cmd_create_qp, NAME(CREATE_QP), REQ(create_qp), RESP(create_qp_resp)},
	ROW(QUERY_QP) = {cmd_query_qp, NAME(QUERY_QP), REQ(query_qp), RESP(query_qp_resp)},
	ROW(MODIFY_QP) = {cmd_modify_qp, NAME(MODIFY_QP), REQ(modify_qp)},
	ROW(DESTROY_QP) = {cmd_destroy_qp, NAME(DESTROY_QP), REQ(destroy_qp), RESP(destroy_qp_resp), .destroys = true},
	ROW(ATTACH_MCAST) = {cmd_attach_mcast, NAME(ATTACH_MCAST), REQ(attach_mcast)},
	ROW(DETACH_MCAST) = {cmd_detach_mcast, NAME(DETACH_MCAST), REQ(detach_mcast)},
	ROW_EX(QUERY_DEVICE) = {cmd_ex_query_device, NAME(EX_QUERY_DEVICE), REQ_UP_TO(ex_query_device, reserved),
                                RESP_UP_TO(ex_query_device_resp, response_length)},
	ROW_EX(CREATE_CQ) = {cmd_ex_create_cq, NAME(EX_CREATE_CQ), REQ_UP_TO(ex_create_cq, reserved),
                             RESP_UP_TO(ex_create_cq_resp, response_length)},
	ROW_EX(MODIFY_CQ) = {cmd_ex_modify_cq, NAME(EX_MODIFY_CQ), REQ(ex_modify_cq)},
	ROW_EX(CREATE_QP) = {cmd_ex_create_qp, NAME(EX_CREATE_QP), REQ_UP_TO(ex_create_qp, comp_mask),
                             RESP_UP_TO(ex_create_qp_resp, response_length)},
	ROW_EX(MODIFY_QP) = {cmd_ex_modify_qp, NAME(EX_MODIFY_QP), REQ_UP_TO(ex_modify_qp, base)},
	ROW_EX(CREATE_WQ) = {cmd_ex_create_wq, NAME(EX_CREATE_WQ), REQ(ex_create_wq), RESP(ex_create_wq_resp)},
	ROW_EX(MODIFY_WQ) = {cmd_ex_modify_wq, NAME(EX_MODIFY_WQ), REQ(ex_modify_wq)},
	ROW_EX(DESTROY_WQ) = {cmd_ex_destroy_wq, NAME(EX_DESTROY_WQ), REQ(ex_destroy_wq), RESP(ex_destroy_wq_resp),
                              .destroys = true},
	ROW_EX(CREATE_RWQ_IND_TBL) = {cmd_ex_create_rwq_ind_table, NAME(EX_CREATE_RWQ_IND_TBL),
                                      REQ(ex_create_rwq_ind_table), RESP(ex_create_rwq_ind_table_resp)},
	ROW_EX(DESTROY_RWQ_IND_TBL) = {cmd_ex_destroy_rwq_ind_table, NAME(EX_DESTROY_RWQ_IND_TBL),
                                       REQ(ex_destroy_rwq_ind_table), .destroys = true},
	ROW_EX(CREATE_FLOW) = {cmd_ex_create_flow, NAME(EX_CREATE_FLOW), REQ(create_flow), RESP(create_flow_resp)},
	ROW_EX(DESTROY_FLOW) = {cmd_ex_destroy_flow, NAME(EX_DESTROY_FLOW), REQ(destroy_flow), .destroys = true},
};

static const struct write_command *write_command_find(uint32_t command)
{
	uint32_t n = command & IB_USER_VERBS_CMD_COMMAND_MASK;
	const struct write_command *row;

	if (command & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		n += EX_FIRST;
	else if (n >= EX_FIRST)
		return NULL;
	row = n < N_ROWS ? &write_commands[n] : NULL;
	return row && row->name ? row : NULL;
}

static int write_command_destroy(const struct command *c, enum object_type type)
{
	uint32_t handle;
	int r = COMMAND_IN(c, &handle);

	return r ? r : object_destroy_handle(c->file, handle, type, NULL);
}

static int write_command_check_and_run(struct command *c, const struct write_command *row)
{
	bool is_get_context = row && row->handler == cmd_get_context;
	int r;

	if (!row)
		return refuse(EOPNOTSUPP, "command", "this device has no such operation", "ib_uverbs: uverbs_uapi");
	/* ib_uverbs: a request or response that is too short for the command is ENOSPC. */
	if (c->in_bytes < row->req_bytes || c->out_bytes < row->resp_bytes)
		return refuse(ENOSPC, "request, response", "too short", "ib_uverbs: UAPI_DEF_WRITE_IO");
	/* Before GET_CONTEXT no other command works, and GET_CONTEXT works once. */
	if (c->file->has_context == is_get_context)
		return refuse(EINVAL, "context", "GET_CONTEXT comes first, and once", "ib_uverbs: ib_uverbs_write");
	/* Only this command needs no firmware. */
	r = row->handler == cmd_create_comp_channel ? 0 : uverbs_ask_firmware(c->file, row->destroys);
	if (r)
		return r;
	return row->handler ? row->handler(c) : write_command_destroy(c, row->type);
}

int command_dispatch(struct command *c, uint32_t command)
{
	const struct write_command *row = write_command_find(command);
	uint64_t began_ns = clock_raw_ns();
	int r = write_command_check_and_run(c, row);

	command_ended(c->file->device, row ? row->name : NULL, command, r, began_ns);
	return r;
}

/* Runs the command and writes its response to the program's memory. */
static int write_run_command(struct command *c, uint32_t command, uint64_t response)
{
	size_t bytes = c->out_bytes + c->drv_out_bytes;
	uint8_t *buffer = calloc(1, bytes + 1);
	int r;

	if (!buffer)
		return -ENOMEM;
	c->out = buffer;
	c->drv_out = buffer + c->out_bytes;
	r = command_dispatch(c, command);
	if (!r)
		r = user_memory_write(response, buffer, bytes);
	free(buffer);
	return r;
}

/* A plain command consists of a header, the core request, which begins with the address of the response, and driver
 * data. */
static int write_plain_command(struct command *c, const struct ib_uverbs_cmd_hdr *hdr, const uint8_t *body,
                               size_t bytes)
{
	const struct write_command *row = write_command_find(hdr->command);
	size_t out = (size_t)hdr->out_words * 4;
	uint64_t response = 0;

	if (!row)
		return -EOPNOTSUPP;
	if (bytes < row->req_bytes || out < row->resp_bytes)
		return -ENOSPC;
	if (row->resp_bytes) {
		memcpy(&response, body, sizeof(response));
		c->out_bytes = row->resp_bytes;
		c->drv_out_bytes = out - row->resp_bytes;
	}
	c->in = body;
	c->in_bytes = row->req_bytes;
	c->drv_in = body + row->req_bytes;
	c->drv_in_bytes = bytes - row->req_bytes;
	return write_run_command(c, hdr->command, response);
}

static int write_extended_command(struct command *c, const struct ib_uverbs_cmd_hdr *hdr, const uint8_t *body,
                                  size_t bytes)
{
	struct ib_uverbs_ex_cmd_hdr ex;

	if (!write_command_find(hdr->command))
		return -EOPNOTSUPP;
	if (bytes < sizeof(ex))
		return -EINVAL;
	memcpy(&ex, body, sizeof(ex));
	c->in = body + sizeof(ex);
	c->in_bytes = (size_t)hdr->in_words * 8;
	c->drv_in_bytes = (size_t)ex.provider_in_words * 8;
	if (c->in_bytes + c->drv_in_bytes != bytes - sizeof(ex) || ex.cmd_hdr_reserved)
		return -EINVAL;
	c->drv_in = (const uint8_t *)c->in + c->in_bytes;
	c->out_bytes = (size_t)hdr->out_words * 8;
	c->drv_out_bytes = (size_t)ex.provider_out_words * 8;
	/* verify_hdr: there must be an address for the response if, and only if, there is a response. */
	if (!ex.response != !(c->out_bytes + c->drv_out_bytes))
		return -EINVAL;
	return write_run_command(c, hdr->command, ex.response);
}

/* The kernel reads as many bytes as the header says, which must be the size of the write(). */
static int write_command_body(struct uverbs_file *file, const struct ib_uverbs_cmd_hdr *hdr, const uint8_t *body,
                              size_t bytes)
{
	struct command c = {.file = file};

	if (hdr->command & ~(uint32_t)(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_CMD_COMMAND_MASK))
		return -EINVAL;
	if (hdr->command & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		return write_extended_command(&c, hdr, body, bytes);
	if ((size_t)hdr->in_words * 4 != bytes + sizeof(*hdr))
		return -EINVAL;
	return write_plain_command(&c, hdr, body, bytes);
}

ssize_t uverbs_write(struct uverbs_file *file, const void *buf, size_t bytes)
{
	struct ib_uverbs_cmd_hdr hdr;
	uint8_t *body;
	int r;

	if (bytes < sizeof(hdr) || bytes > MAX_REQUEST_BYTES)
		return -EINVAL;
	if (user_memory_read(&hdr, (uintptr_t)buf, sizeof(hdr)))
		return -EFAULT;
	body = malloc(bytes);
	if (!body)
		return -ENOMEM;
	r = user_memory_read(body, (uintptr_t)buf + sizeof(hdr), bytes - sizeof(hdr));
	if (!r)
		r = write_command_body(file, &hdr, body, bytes - sizeof(hdr));
	free(body);
	return r ? r : (ssize_t)bytes;
}
