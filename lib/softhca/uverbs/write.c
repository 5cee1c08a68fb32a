// SPDX-License-Identifier: Apache-2.0
/*
 * The write commands: one table. What is not in it is refused with EOPNOTSUPP, as ib_uverbs does
 * for a device without the operation.
 */
#include "command.h"
#include "uverbs.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>

struct write_command {
	command_handler *handler;
	uint16_t req_bytes, resp_bytes; /* of the core structures, without driver payload */
};

#define EX_FIRST 64 /* rows of extended commands follow the plain ones */
#define N_ROWS 128
#define ROW(cmd) [IB_USER_VERBS_CMD_##cmd]
#define ROW_EX(cmd) [EX_FIRST + IB_USER_VERBS_EX_CMD_##cmd]
#define REQ(t) .req_bytes = sizeof(struct ib_uverbs_##t)
#define RESP(t) .resp_bytes = sizeof(struct ib_uverbs_##t)

static const struct write_command write_commands[N_ROWS] = {
	ROW(GET_CONTEXT) = {cmd_get_context, REQ(get_context), RESP(get_context_resp)},
	ROW(QUERY_DEVICE) = {cmd_query_device, REQ(query_device), RESP(query_device_resp)},
	ROW(QUERY_PORT) = {cmd_query_port, REQ(query_port), RESP(query_port_resp)},
	ROW(ALLOC_PD) = {cmd_alloc_pd, REQ(alloc_pd), RESP(alloc_pd_resp)},
	ROW(DEALLOC_PD) = {cmd_dealloc_pd, REQ(dealloc_pd)},
	ROW(REG_MR) = {cmd_reg_mr, REQ(reg_mr), RESP(reg_mr_resp)},
	ROW(DEREG_MR) = {cmd_dereg_mr, REQ(dereg_mr)},
	ROW(CREATE_COMP_CHANNEL) = {cmd_create_comp_channel, REQ(create_comp_channel),
				    RESP(create_comp_channel_resp)},
	ROW(CREATE_CQ) = {cmd_create_cq, REQ(create_cq), RESP(create_cq_resp)},
	ROW(DESTROY_CQ) = {cmd_destroy_cq, REQ(destroy_cq), RESP(destroy_cq_resp)},
	ROW(CREATE_QP) = {cmd_create_qp, REQ(create_qp), RESP(create_qp_resp)},
	ROW(QUERY_QP) = {cmd_query_qp, REQ(query_qp), RESP(query_qp_resp)},
	ROW(MODIFY_QP) = {cmd_modify_qp, REQ(modify_qp)},
	ROW(DESTROY_QP) = {cmd_destroy_qp, REQ(destroy_qp), RESP(destroy_qp_resp)},
	ROW_EX(QUERY_DEVICE) = {cmd_ex_query_device, REQ(ex_query_device)},
	ROW_EX(CREATE_CQ) = {cmd_ex_create_cq, REQ(ex_create_cq), RESP(ex_create_cq_resp)},
	ROW_EX(CREATE_QP) = {.handler = cmd_ex_create_qp},
	ROW_EX(MODIFY_QP) = {.handler = cmd_ex_modify_qp},
	ROW_EX(CREATE_FLOW) = {cmd_ex_create_flow, REQ(create_flow), RESP(create_flow_resp)},
	ROW_EX(DESTROY_FLOW) = {cmd_ex_destroy_flow, REQ(destroy_flow)},
};

static const struct write_command *find(uint32_t command)
{
	uint32_t n = command & IB_USER_VERBS_CMD_COMMAND_MASK;
	const struct write_command *row;

	if (command & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		n += EX_FIRST;
	else if (n >= EX_FIRST)
		return NULL;
	row = n < N_ROWS ? &write_commands[n] : NULL;
	return row && row->handler ? row : NULL;
}

int command_dispatch(struct command *c, uint32_t command)
{
	const struct write_command *row = find(command);
	bool is_get_context = row && row->handler == cmd_get_context;

	if (!row)
		return -EOPNOTSUPP;
	/* ib_uverbs: a request or response too short for the command is ENOSPC. */
	if (c->in_bytes < row->req_bytes || c->out_bytes < row->resp_bytes)
		return -ENOSPC;
	/* Before GET_CONTEXT nothing else works, and it works once. */
	if (c->file->has_context == is_get_context)
		return -EINVAL;
	return row->handler(c);
}

/* A plain command: header, core request starting with where the response goes, driver data. */
static int write_plain(struct command *c, const struct ib_uverbs_cmd_hdr *hdr, const uint8_t *body,
		       size_t bytes)
{
	const struct write_command *row = find(hdr->command);
	size_t out = (size_t)hdr->out_words * 4;
	uint64_t response = 0;

	if (!row)
		return -EOPNOTSUPP;
	if (bytes < row->req_bytes || out < row->resp_bytes)
		return -ENOSPC;
	if (row->resp_bytes) {
		memcpy(&response, body, sizeof(response));
		if (!response)
			return -EFAULT;
		c->out = (void *)(uintptr_t)response;
		c->out_bytes = row->resp_bytes;
		c->drv_out = (uint8_t *)c->out + row->resp_bytes;
		c->drv_out_bytes = out - row->resp_bytes;
	}
	c->in = body;
	c->in_bytes = row->req_bytes;
	c->drv_in = body + row->req_bytes;
	c->drv_in_bytes = bytes - row->req_bytes;
	return command_dispatch(c, hdr->command);
}

static int write_extended(struct command *c, const struct ib_uverbs_cmd_hdr *hdr,
			  const uint8_t *body, size_t bytes)
{
	struct ib_uverbs_ex_cmd_hdr ex;

	if (bytes < sizeof(ex))
		return -EINVAL;
	memcpy(&ex, body, sizeof(ex));
	c->in = body + sizeof(ex);
	c->in_bytes = (size_t)hdr->in_words * 8;
	c->drv_in_bytes = (size_t)ex.provider_in_words * 8;
	if (c->in_bytes + c->drv_in_bytes != bytes - sizeof(ex) || ex.cmd_hdr_reserved)
		return -EINVAL;
	c->drv_in = (const uint8_t *)c->in + c->in_bytes;
	c->out = (void *)(uintptr_t)ex.response;
	c->out_bytes = (size_t)hdr->out_words * 8;
	c->drv_out = (uint8_t *)c->out + c->out_bytes;
	c->drv_out_bytes = (size_t)ex.provider_out_words * 8;
	if (!c->out && c->out_bytes + c->drv_out_bytes)
		return -EINVAL;
	return command_dispatch(c, hdr->command);
}

ssize_t uverbs_write(struct uverbs_file *file, const void *buf, size_t bytes)
{
	struct command c = {.file = file};
	const uint8_t *body = (const uint8_t *)buf + sizeof(struct ib_uverbs_cmd_hdr);
	struct ib_uverbs_cmd_hdr hdr;
	int r;

	if (bytes < sizeof(hdr))
		return -EINVAL;
	memcpy(&hdr, buf, sizeof(hdr));
	if (hdr.command & ~(uint32_t)(IB_USER_VERBS_CMD_FLAG_EXTENDED |
				      IB_USER_VERBS_CMD_COMMAND_MASK))
		return -EINVAL;
	if (hdr.command & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		r = write_extended(&c, &hdr, body, bytes - sizeof(hdr));
	else if ((size_t)hdr.in_words * 4 != bytes)
		r = -EINVAL;
	else
		r = write_plain(&c, &hdr, body, bytes - sizeof(hdr));
	return r ? r : (ssize_t)bytes;
}
