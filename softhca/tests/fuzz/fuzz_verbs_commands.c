// SPDX-License-Identifier: Apache-2.0
/*
 * Commands with arguments of the right kind, unless the input wants another. Each field of a request has a
 * kind; a byte of input says whether it gets a plausible value (which of them), zero, or anything.
 */
#include "fuzz_verbs.h"

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <string.h>

#define PLAUSIBLE_UNTIL 200 /* of 256; then zero, then anything */
#define ZERO_UNTIL      220
#define MAX_REQUEST     1024

enum kind { CONSTANT, HANDLE, BUFFER, DOORBELL, CHANNEL, POWER_OF_2, NEXT_STATE, NEXT_MASK, MR_START, SPECS };

/* `value`: the constant; the type of object; a buffer's size; the power of two to start from. */
struct field {
	uint16_t offset, bytes;
	enum kind kind;
	uint64_t value;
};

#define MAX_FIELDS 16

struct fuzz_command {
	uint32_t number;
	bool extended;
	uint16_t core_bytes, drv_bytes, out_bytes, drv_out_bytes;
	struct field fields[MAX_FIELDS];
};

#define F(type, member, kind_, value_)                                                           \
	{                                                                                        \
		offsetof(struct type, member), sizeof(((struct type *)0)->member), kind_, value_ \
	}
/* A field of the driver's payload behind a core request. */
#define D(core, type, member, kind_, value_)                                                                           \
	{                                                                                                              \
		sizeof(struct core) + offsetof(struct type, member), sizeof(((struct type *)0)->member), kind_, value_ \
	}
#define SIZES(core, resp) .core_bytes = sizeof(struct core), .out_bytes = sizeof(struct resp)
#define DRIVER(in, out)   .drv_bytes = sizeof(struct in), .drv_out_bytes = sizeof(struct out)
#define PLAIN(name)       .number = IB_USER_VERBS_CMD_##name
#define EXTENDED(name)    .number = IB_USER_VERBS_EX_CMD_##name, .extended = true
#define QP_FIELDS(core)                                                                          \
	F(core, pd_handle, HANDLE, OBJECT_PD), F(core, send_cq_handle, HANDLE, OBJECT_CQ),       \
		F(core, recv_cq_handle, HANDLE, OBJECT_CQ), F(core, max_recv_wr, POWER_OF_2, 3), \
		F(core, qp_type, CONSTANT, IB_UVERBS_QPT_RAW_PACKET),                            \
		D(core, mlx5_ib_create_qp, buf_addr, BUFFER, 256),                               \
		D(core, mlx5_ib_create_qp, sq_buf_addr, BUFFER, 512),                            \
		D(core, mlx5_ib_create_qp, db_addr, DOORBELL, 0),                                \
		D(core, mlx5_ib_create_qp, rq_wqe_count, POWER_OF_2, 3),                         \
		D(core, mlx5_ib_create_qp, rq_wqe_shift, CONSTANT, 5),                           \
		D(core, mlx5_ib_create_qp, sq_wqe_count, POWER_OF_2, 3),                         \
		D(core, mlx5_ib_create_qp, flags, CONSTANT, 0)
#define CQ_FIELDS(core)                                                                                               \
	F(core, cqe, CONSTANT, 15), F(core, comp_channel, CHANNEL, 0),                                                \
		D(core, mlx5_ib_create_cq, buf_addr, BUFFER, 1024), D(core, mlx5_ib_create_cq, db_addr, DOORBELL, 0), \
		D(core, mlx5_ib_create_cq, cqe_size, CONSTANT, 64)

static const struct fuzz_command commands[] = {
	{PLAIN(GET_CONTEXT),
         SIZES(ib_uverbs_get_context, ib_uverbs_get_context_resp),
         DRIVER(mlx5_ib_alloc_ucontext_req_v2, mlx5_ib_alloc_ucontext_resp),
         {D(ib_uverbs_get_context, mlx5_ib_alloc_ucontext_req_v2, max_cqe_version, CONSTANT, 1),
          D(ib_uverbs_get_context, mlx5_ib_alloc_ucontext_req_v2, lib_caps, CONSTANT, MLX5_LIB_CAP_DYN_UAR)}},
	{PLAIN(ALLOC_PD), SIZES(ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp), .drv_out_bytes = 8},
	{PLAIN(CREATE_COMP_CHANNEL), SIZES(ib_uverbs_create_comp_channel, ib_uverbs_create_comp_channel_resp)},
	{PLAIN(CREATE_CQ),
         SIZES(ib_uverbs_create_cq, ib_uverbs_create_cq_resp),
         DRIVER(mlx5_ib_create_cq, mlx5_ib_create_cq_resp),
         {CQ_FIELDS(ib_uverbs_create_cq)}},
	{PLAIN(REG_MR), SIZES(ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp),
         .fields = {F(ib_uverbs_reg_mr, start, MR_START, 0), F(ib_uverbs_reg_mr, length, CONSTANT, 4096),
                    F(ib_uverbs_reg_mr, hca_va, MR_START, 0), F(ib_uverbs_reg_mr, pd_handle, HANDLE, OBJECT_PD),
                    F(ib_uverbs_reg_mr, access_flags, CONSTANT, 1)}},
	{PLAIN(CREATE_QP),
         SIZES(ib_uverbs_create_qp, ib_uverbs_create_qp_resp),
         DRIVER(mlx5_ib_create_qp, mlx5_ib_create_qp_resp),
         {QP_FIELDS(ib_uverbs_create_qp)}},
	{PLAIN(MODIFY_QP), .core_bytes = sizeof(struct ib_uverbs_modify_qp),
         .fields = {F(ib_uverbs_modify_qp, qp_handle, HANDLE, OBJECT_QP),
                    F(ib_uverbs_modify_qp, attr_mask, NEXT_MASK, 0), F(ib_uverbs_modify_qp, qp_state, NEXT_STATE, 0),
                    F(ib_uverbs_modify_qp, port_num, CONSTANT, 1)}},
	{EXTENDED(CREATE_FLOW), .core_bytes = sizeof(struct ib_uverbs_create_flow), .out_bytes = 8,
         .fields = {F(ib_uverbs_create_flow, qp_handle, HANDLE, OBJECT_QP),
                    F(ib_uverbs_create_flow, flow_attr.port, CONSTANT, 1),
                    F(ib_uverbs_create_flow, flow_attr.type, CONSTANT, 0),
                    F(ib_uverbs_create_flow, flow_attr.priority, CONSTANT, 0),
                    F(ib_uverbs_create_flow, flow_attr.flags, CONSTANT, 0),
                    F(ib_uverbs_create_flow, flow_attr.num_of_specs, SPECS, 0)}},
	{PLAIN(QUERY_DEVICE), SIZES(ib_uverbs_query_device, ib_uverbs_query_device_resp)},
	{PLAIN(QUERY_PORT), SIZES(ib_uverbs_query_port, ib_uverbs_query_port_resp),
         .fields = {F(ib_uverbs_query_port, port_num, CONSTANT, 1)}},
	{EXTENDED(QUERY_DEVICE), .core_bytes = sizeof(struct ib_uverbs_ex_query_device), .out_bytes = 304,
         .drv_out_bytes = sizeof(struct mlx5_ib_query_device_resp)},
	{PLAIN(DEALLOC_PD), .core_bytes = sizeof(struct ib_uverbs_dealloc_pd),
         .fields = {F(ib_uverbs_dealloc_pd, pd_handle, HANDLE, OBJECT_PD)}},
	{PLAIN(DEREG_MR), .core_bytes = sizeof(struct ib_uverbs_dereg_mr),
         .fields = {F(ib_uverbs_dereg_mr, mr_handle, HANDLE, OBJECT_MR)}},
	{PLAIN(DESTROY_CQ), SIZES(ib_uverbs_destroy_cq, ib_uverbs_destroy_cq_resp),
         .fields = {F(ib_uverbs_destroy_cq, cq_handle, HANDLE, OBJECT_CQ)}},
	{PLAIN(DESTROY_QP), SIZES(ib_uverbs_destroy_qp, ib_uverbs_destroy_qp_resp),
         .fields = {F(ib_uverbs_destroy_qp, qp_handle, HANDLE, OBJECT_QP)}},
	{PLAIN(QUERY_QP), SIZES(ib_uverbs_query_qp, ib_uverbs_query_qp_resp),
         .fields = {F(ib_uverbs_query_qp, qp_handle, HANDLE, OBJECT_QP)}},
	{EXTENDED(DESTROY_FLOW), .core_bytes = sizeof(struct ib_uverbs_destroy_flow),
         .fields = {F(ib_uverbs_destroy_flow, flow_handle, HANDLE, OBJECT_FLOW)}},
	{EXTENDED(CREATE_CQ),
         SIZES(ib_uverbs_ex_create_cq, ib_uverbs_ex_create_cq_resp),
         DRIVER(mlx5_ib_create_cq, mlx5_ib_create_cq_resp),
         {CQ_FIELDS(ib_uverbs_ex_create_cq), F(ib_uverbs_ex_create_cq, flags, CONSTANT, 0),
          D(ib_uverbs_ex_create_cq, mlx5_ib_create_cq, cqe_comp_en, CONSTANT, 1),
          D(ib_uverbs_ex_create_cq, mlx5_ib_create_cq, cqe_comp_res_format, CONSTANT, 1)}},
	{EXTENDED(CREATE_QP),
         SIZES(ib_uverbs_ex_create_qp, ib_uverbs_ex_create_qp_resp),
         DRIVER(mlx5_ib_create_qp, mlx5_ib_create_qp_resp),
         {QP_FIELDS(ib_uverbs_ex_create_qp), F(ib_uverbs_ex_create_qp, comp_mask, CONSTANT, 0),
          F(ib_uverbs_ex_create_qp, create_flags, CONSTANT, 0)}},
	{EXTENDED(MODIFY_QP), SIZES(ib_uverbs_ex_modify_qp, ib_uverbs_ex_modify_qp_resp),
         .fields = {F(ib_uverbs_ex_modify_qp, base.qp_handle, HANDLE, OBJECT_QP),
                    F(ib_uverbs_ex_modify_qp, base.attr_mask, NEXT_MASK, 0),
                    F(ib_uverbs_ex_modify_qp, base.qp_state, NEXT_STATE, 0),
                    F(ib_uverbs_ex_modify_qp, base.port_num, CONSTANT, 1),
                    F(ib_uverbs_ex_modify_qp, rate_limit, CONSTANT, 0)}},
	{EXTENDED(MODIFY_CQ), .core_bytes = sizeof(struct ib_uverbs_ex_modify_cq),
         .fields = {F(ib_uverbs_ex_modify_cq, cq_handle, HANDLE, OBJECT_CQ),
                    F(ib_uverbs_ex_modify_cq, attr_mask, CONSTANT, 1),
                    F(ib_uverbs_ex_modify_cq, attr.cq_count, CONSTANT, 2),
                    F(ib_uverbs_ex_modify_cq, attr.cq_period, CONSTANT, 1)}},
	{EXTENDED(CREATE_WQ),
         SIZES(ib_uverbs_ex_create_wq, ib_uverbs_ex_create_wq_resp),
         DRIVER(mlx5_ib_create_wq, mlx5_ib_create_wq_resp),
         {F(ib_uverbs_ex_create_wq, wq_type, CONSTANT, 0), F(ib_uverbs_ex_create_wq, pd_handle, HANDLE, OBJECT_PD),
          F(ib_uverbs_ex_create_wq, cq_handle, HANDLE, OBJECT_CQ), F(ib_uverbs_ex_create_wq, max_wr, POWER_OF_2, 3),
          F(ib_uverbs_ex_create_wq, max_sge, CONSTANT, 1), F(ib_uverbs_ex_create_wq, create_flags, CONSTANT, 0),
          D(ib_uverbs_ex_create_wq, mlx5_ib_create_wq, buf_addr, BUFFER, 256),
          D(ib_uverbs_ex_create_wq, mlx5_ib_create_wq, db_addr, DOORBELL, 0),
          D(ib_uverbs_ex_create_wq, mlx5_ib_create_wq, rq_wqe_count, POWER_OF_2, 3),
          D(ib_uverbs_ex_create_wq, mlx5_ib_create_wq, rq_wqe_shift, CONSTANT, 5),
          D(ib_uverbs_ex_create_wq, mlx5_ib_create_wq, comp_mask, CONSTANT, 0),
          D(ib_uverbs_ex_create_wq, mlx5_ib_create_wq, single_stride_log_num_of_bytes, CONSTANT, 6),
          D(ib_uverbs_ex_create_wq, mlx5_ib_create_wq, single_wqe_log_num_of_strides, CONSTANT, 9)}},
	{EXTENDED(MODIFY_WQ), .core_bytes = sizeof(struct ib_uverbs_ex_modify_wq),
         .drv_bytes = sizeof(struct mlx5_ib_modify_wq),
         .fields = {F(ib_uverbs_ex_modify_wq, wq_handle, HANDLE, OBJECT_WQ),
                    F(ib_uverbs_ex_modify_wq, attr_mask, CONSTANT, 1), F(ib_uverbs_ex_modify_wq, wq_state, CONSTANT, 1),
                    F(ib_uverbs_ex_modify_wq, flags, CONSTANT, 0)}},
	{EXTENDED(DESTROY_WQ), SIZES(ib_uverbs_ex_destroy_wq, ib_uverbs_ex_destroy_wq_resp),
         .fields = {F(ib_uverbs_ex_destroy_wq, wq_handle, HANDLE, OBJECT_WQ)}},
	{EXTENDED(CREATE_RWQ_IND_TBL), .core_bytes = 16,
         .out_bytes = sizeof(struct ib_uverbs_ex_create_rwq_ind_table_resp),
         .fields = {F(ib_uverbs_ex_create_rwq_ind_table, log_ind_tbl_size, CONSTANT, 1),
                    {8, 4, HANDLE, OBJECT_WQ},
                    {12, 4, HANDLE, OBJECT_WQ}}},
	{EXTENDED(DESTROY_RWQ_IND_TBL), .core_bytes = sizeof(struct ib_uverbs_ex_destroy_rwq_ind_table),
         .fields = {F(ib_uverbs_ex_destroy_rwq_ind_table, ind_tbl_handle, HANDLE, OBJECT_RWQ_IND_TBL)}},
	{EXTENDED(CREATE_QP),
         SIZES(ib_uverbs_ex_create_qp, ib_uverbs_ex_create_qp_resp),
         DRIVER(mlx5_ib_create_qp_rss, mlx5_ib_create_qp_resp),
         {F(ib_uverbs_ex_create_qp, pd_handle, HANDLE, OBJECT_PD),
          F(ib_uverbs_ex_create_qp, rwq_ind_tbl_handle, HANDLE, OBJECT_RWQ_IND_TBL),
          F(ib_uverbs_ex_create_qp, qp_type, CONSTANT, IB_UVERBS_QPT_RAW_PACKET),
          F(ib_uverbs_ex_create_qp, comp_mask, CONSTANT, IB_UVERBS_CREATE_QP_MASK_IND_TABLE),
          D(ib_uverbs_ex_create_qp, mlx5_ib_create_qp_rss, rx_hash_fields_mask, CONSTANT, 0x53),
          D(ib_uverbs_ex_create_qp, mlx5_ib_create_qp_rss, rx_hash_function, CONSTANT, 1),
          D(ib_uverbs_ex_create_qp, mlx5_ib_create_qp_rss, rx_key_len, CONSTANT, 40),
          D(ib_uverbs_ex_create_qp, mlx5_ib_create_qp_rss, rx_hash_key, CONSTANT, 0x6d5a)}},
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))
_Static_assert(N_COMMANDS <= N_OPERATIONS - OP_FIRST_COMMAND, "an operation for each command");

void *some_object(struct run *run, enum object_type type, unsigned int n)
{
	struct object_table *t = &run->file->objects;
	void *found = NULL;

	for (unsigned int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < t->size; i++) {
			if (!t->slots[i] || t->slots[i]->type != type)
				continue;
			found = t->slots[i];
			if (!n--)
				return found;
		}
	return found;
}

/* Ends where the slot ends. */
static uint64_t buffer(struct run *run, uint64_t bytes, uint8_t choice)
{
	unsigned int i = choice ? choice : run->next_slot++;

	return (uintptr_t)slot(run, i) + SLOT_BYTES - (bytes < SLOT_BYTES ? bytes : SLOT_BYTES);
}

static uint64_t some_channel(struct run *run, uint8_t choice)
{
	for (int fd = 0, n = 0; fd < 200; fd++) {
		struct fd_object *o = fdtab_find(&run->fdtab, fd, FD_CHANNEL);

		fd_object_put(o);
		if (o && n++ == 1 + choice)
			return (uint64_t)fd;
	}
	return (uint64_t)-1;
}

/* One step on the way to RTS. */
static uint64_t next_state(struct run *run, uint8_t choice)
{
	struct uqp *u = some_object(run, OBJECT_QP, choice);

	return !u ? QP_INIT : u->qp.state < QP_RTS ? u->qp.state + 1 : QP_RESET;
}

static uint64_t plausible(struct run *run, const struct field *f, uint8_t choice, uint8_t *request)
{
	struct object *o;

	switch (f->kind) {
	case HANDLE:
		o = some_object(run, (enum object_type)f->value, choice);
		return o ? o->handle : choice;
	case BUFFER:
		return buffer(run, f->value, choice);
	case DOORBELL:
		return (uintptr_t)slot(run, 0) + SLOT_BYTES - 64u * (1 + (choice ? choice : run->next_slot) % 64);
	case CHANNEL:
		return some_channel(run, choice);
	case POWER_OF_2:
		return 1ull << (f->value + choice) % 17;
	case NEXT_STATE:
		return next_state(run, choice);
	case NEXT_MASK:
		return next_state(run, choice) == QP_INIT ? 1 | 1 << 5 : 1;
	case MR_START:
		return (uintptr_t)slot(run, 1 + choice);
	case SPECS:
		return request[f->offset];
	default:
		return choice ? choice & 7 : f->value;
	}
}

static bool is_address(enum kind kind)
{
	return kind == BUFFER || kind == DOORBELL || kind == MR_START;
}

/* Of the arena, or none at all: a device that writes over other memory does what the program asked for. */
static uint64_t any_address(struct run *run, struct input *in)
{
	uint8_t how = input_u8(in);

	return how & 1   ? (uint64_t)input_u16(in)
	       : how & 2 ? ~(uint64_t)input_u16(in)
	                 : (uintptr_t)run->arena + input_u64(in) % ARENA_BYTES;
}

static void fill_field(struct run *run, struct input *in, const struct field *f, bool strange, uint8_t *request)
{
	uint8_t choice = strange ? input_u8(in) : 0;
	uint64_t value = 0;

	if (choice < PLAUSIBLE_UNTIL)
		value = plausible(run, f, choice, request);
	else if (choice >= ZERO_UNTIL)
		value = is_address(f->kind) ? any_address(run, in) : input_u64(in);
	memcpy(request + f->offset, &value, f->bytes < sizeof(value) ? f->bytes : sizeof(value));
}

#define IB_FLOW_SPEC_COUNT 0x1003 /* enum ib_flow_spec_type */

static const struct {
	uint16_t type, filter_bytes;
} spec_types[] = {
	{0x20, 16},  {0x30, 12},  {0x41, 4}, {0x31, 40}, {0x40, 4}, {0x1000, 4}, {0x1001, 0}, {IB_FLOW_SPEC_COUNT, 4},
	{0x120, 16}, {0x130, 12}, {0x50, 4}, {0x34, 8},  {0x60, 4}, {0x1002, 4}, {0x51, 12},  {0x32, 12},
};

/* Value and mask are the input's, or zero: matches everything of that type. Bytes used. */
static size_t append_spec(struct run *run, struct input *in, unsigned int which, bool strange, uint8_t *at)
{
	struct object *counters = some_object(run, OBJECT_COUNTERS, 0);
	uint16_t filter = spec_types[which % 16].filter_bytes;
	bool is_action = spec_types[which % 16].type >= 0x1000;
	struct ib_uverbs_flow_spec_hdr hdr = {
		.type = spec_types[which % 16].type,
		.size = (uint16_t)(sizeof(hdr) + (is_action ? 8u * !!filter : 2u * filter)),
	};
	uint8_t how = strange ? input_u8(in) : 0;

	if (how & 1)
		hdr.size = input_u8(in);
	if (how & 2)
		hdr.type = input_u16(in);
	memcpy(at, &hdr, sizeof(hdr));
	if (hdr.type == IB_FLOW_SPEC_COUNT && counters)
		memcpy(at + sizeof(hdr), &counters->handle, sizeof(counters->handle));
	if (how & 4)
		input_bytes(in, at + sizeof(hdr), filter);
	if (how & 8)
		input_bytes(in, at + sizeof(hdr) + filter, filter);
	if (how & 16)
		memset(at + sizeof(hdr) + filter, 0xff, filter);
	return hdr.size < 88 ? hdr.size : 88;
}

/* Ethernet, IPv4 and UDP of any value, or whatever the input says. Returns how many bytes. */
static size_t fill_specs(struct run *run, struct input *in, bool strange, uint8_t *request)
{
	struct ib_uverbs_create_flow *req = (void *)request;
	uint8_t n = strange ? input_u8(in) % 6 : 3;
	size_t bytes = 0;

	for (unsigned int i = 0; i < n; i++)
		bytes += append_spec(run, in, strange ? input_u8(in) : i, strange, request + sizeof(*req) + bytes);
	req->flow_attr.num_of_specs = n;
	req->flow_attr.size = (uint16_t)bytes;
	if (strange && input_u8(in) > ZERO_UNTIL)
		req->flow_attr.size = input_u16(in);
	return (bytes + 7) & ~7ul;
}

/* What the flow's counters object is to count, as the driver's payload. Returns how many bytes. */
static size_t fill_counters(struct run *run, struct input *in, uint8_t *at)
{
	struct mlx5_ib_flow_counters_data data = {.counters_data = (uintptr_t)slot(run, N_SLOTS - 2), .ncounters = 1};
	struct mlx5_ib_create_flow req = {.ncounters_data = 1};
	struct mlx5_ib_flow_counters_desc descs[4] = {};
	uint8_t how = input_u8(in);

	if (!(how & 1))
		return 0;
	for (unsigned int i = 0; i < 4; i++) {
		descs[i].description = how >> 6;
		descs[i].index = how & 2 ? (uint32_t)input_u64(in) : i;
	}
	if (how & 4)
		data.ncounters = input_u16(in);
	if (how & 8)
		data.counters_data = any_address(run, in);
	if (how & 16)
		req.ncounters_data = input_u8(in);
	poke((uintptr_t)slot(run, N_SLOTS - 2), descs, sizeof(descs));
	memcpy(at, &req, sizeof(req));
	memcpy(at + sizeof(req), &data, sizeof(data));
	return sizeof(req) + (how & 32 ? 0 : sizeof(data));
}

/* Header, core and driver payload as libibverbs lays them out; `sizes` may be the input's. */
static size_t frame_request(struct input *in, const struct fuzz_command *c, const uint8_t *request, size_t core,
                            size_t drv, uint64_t response, bool strange, uint8_t *bytes)
{
	struct ib_uverbs_cmd_hdr hdr = {.command = c->number};
	struct ib_uverbs_ex_cmd_hdr ex = {.response = response};
	size_t at = sizeof(hdr);

	if (c->extended) {
		hdr.command |= IB_USER_VERBS_CMD_FLAG_EXTENDED;
		hdr.in_words = (uint16_t)(core / 8);
		hdr.out_words = (uint16_t)(c->out_bytes / 8);
		ex.provider_in_words = (uint16_t)(drv / 8);
		ex.provider_out_words = (uint16_t)(c->drv_out_bytes / 8);
		if (!hdr.out_words && !ex.provider_out_words)
			ex.response = 0;
		if (strange && input_u8(in) > ZERO_UNTIL)
			ex.provider_out_words = input_u16(in);
		memcpy(bytes + at, &ex, sizeof(ex));
		at += sizeof(ex);
	} else {
		hdr.in_words = (uint16_t)((sizeof(hdr) + core + drv) / 4);
		hdr.out_words = (uint16_t)((c->out_bytes + c->drv_out_bytes) / 4);
	}
	if (strange && input_u8(in) > ZERO_UNTIL)
		hdr.out_words = input_u16(in);
	memcpy(bytes, &hdr, sizeof(hdr));
	memcpy(bytes + at, request, core);
	if (!c->extended && c->out_bytes)
		memcpy(bytes + at, &response, sizeof(response));
	memcpy(bytes + at + core, request + core, drv);
	return at + core + drv;
}

void operate_command(struct run *run, struct input *in, unsigned int command, bool strange)
{
	const struct fuzz_command *c = &commands[command % N_COMMANDS];
	uint8_t request[MAX_REQUEST] = {}, bytes[MAX_REQUEST + 32];
	size_t core = c->core_bytes, drv = c->drv_bytes, n;
	uint64_t to = (uintptr_t)slot(run, N_SLOTS - 1); /* what is longer than it should be ends at the slot's end */

	for (const struct field *f = c->fields; f->bytes; f++)
		fill_field(run, in, f, strange, request);
	if (c->extended && c->number == IB_USER_VERBS_EX_CMD_CREATE_FLOW) {
		core += fill_specs(run, in, strange, request);
		drv = strange ? fill_counters(run, in, request + core) : 0;
	}
	if (strange && input_u8(in) > ZERO_UNTIL)
		to = (uintptr_t)slot(run, input_u8(in)) + input_u16(in) % SLOT_STRIDE;
	else if (c->out_bytes + c->drv_out_bytes == 0)
		to = 0;
	n = frame_request(in, c, request, core, drv, to, strange, bytes);
	if (strange && input_u8(in) > ZERO_UNTIL)
		n = input_u8(in);
	uverbs_write(run->file, bytes, n);
}
