// SPDX-License-Identifier: Apache-2.0
/*
 * libibverbs: see fail_calls.c. Half of its calls are inline functions that go through the open context's table, so
 * that table is what gets our own. Objects are counted as memory is: the library frees theirs with them.
 */
#include "tests/support/fail_calls.h"

#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr

FAILING_AND(GIVEN, struct ibv_device **, NULL, ENOMEM, ibv_get_device_list, (int *n), (n))
FAILING_AND(GIVEN, struct ibv_pd *, NULL, ENOMEM, ibv_alloc_pd, (struct ibv_context * context), (context))
FAILING_AND(GIVEN, struct ibv_mr *, NULL, ENOMEM, ibv_reg_mr,
            (struct ibv_pd * pd, void *address, size_t bytes, int access), (pd, address, bytes, access))
FAILING_AND(GIVEN, struct ibv_mr *, NULL, ENOMEM, ibv_reg_mr_iova2,
            (struct ibv_pd * pd, void *address, size_t bytes, uint64_t iova, unsigned access),
            (pd, address, bytes, iova, access))
FAILING_AND(GIVEN, struct ibv_comp_channel *, NULL, ENOMEM, ibv_create_comp_channel, (struct ibv_context * context),
            (context))
FAILING_AND(GIVEN, struct ibv_qp *, NULL, ENOMEM, ibv_create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr *init),
            (pd, init))
FAILING(int, EIO, EIO, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask))
FAILING(int, EIO, EIO, ibv_query_qp,
        (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init), (qp, attr, mask, init))
FAILING(int, -1, EIO, ibv_get_async_event, (struct ibv_context * context, struct ibv_async_event *event),
        (context, event))
FAILING(int, -1, EIO, ibv_get_cq_event, (struct ibv_comp_channel * channel, struct ibv_cq **cq, void **context),
        (channel, cq, context))

/* It stands in the middle of its memory. */
int ibv_destroy_qp(struct ibv_qp *qp)
{
	static int (*_Atomic next)(struct ibv_qp *);

	if (!next)
		next = (int (*)(struct ibv_qp *))dlsym(RTLD_NEXT, "ibv_destroy_qp");
	fail_calls_forget(qp);
	return next(qp);
}

/* ---- the open context's table -------------------------------------------------------------------- */

/* The same for every context of a provider. */
static struct verbs_context table;

/* One of table's functions, failing. */
#define FAILING_TABLE(...) FAILING_TABLE_AND(, __VA_ARGS__)
#define FAILING_TABLE_AND(take, result, failure, error, field, parameters, arguments) \
	static result fail_##field parameters                                         \
	{                                                                             \
		if (FAILS()) {                                                        \
			errno = error;                                                \
			return failure;                                               \
		}                                                                     \
		return take(table.field arguments);                                   \
	}

FAILING_TABLE(int, EIO, EIO, query_port,
              (struct ibv_context * context, uint8_t port, struct ibv_port_attr *attr, size_t bytes),
              (context, port, attr, bytes))
FAILING_TABLE(int, EIO, EIO, query_device_ex,
              (struct ibv_context * context, const struct ibv_query_device_ex_input *input,
               struct ibv_device_attr_ex *attr, size_t bytes),
              (context, input, attr, bytes))
FAILING_TABLE_AND(GIVEN, struct ibv_mr *, NULL, ENOMEM, alloc_null_mr, (struct ibv_pd * pd), (pd))
FAILING_TABLE_AND(GIVEN, struct ibv_td *, NULL, ENOMEM, alloc_td,
                  (struct ibv_context * context, struct ibv_td_init_attr *init), (context, init))
FAILING_TABLE_AND(GIVEN, struct ibv_pd *, NULL, ENOMEM, alloc_parent_domain,
                  (struct ibv_context * context, struct ibv_parent_domain_init_attr *init), (context, init))
FAILING_TABLE_AND(GIVEN, struct ibv_cq_ex *, NULL, ENOMEM, create_cq_ex,
                  (struct ibv_context * context, struct ibv_cq_init_attr_ex *init), (context, init))
FAILING_TABLE_AND(GIVEN, struct ibv_counters *, NULL, ENOMEM, create_counters,
                  (struct ibv_context * context, struct ibv_counters_init_attr *init), (context, init))
FAILING_TABLE(int, ENOMEM, ENOMEM, attach_counters_point_flow,
              (struct ibv_counters * counters, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow),
              (counters, attr, flow))
FAILING_TABLE(int, EIO, EIO, read_counters,
              (struct ibv_counters * counters, uint64_t *values, uint32_t n, uint32_t flags),
              (counters, values, n, flags))
FAILING_TABLE_AND(GIVEN, struct ibv_flow *, NULL, ENOMEM, ibv_create_flow,
                  (struct ibv_qp * qp, struct ibv_flow_attr *attr), (qp, attr))

/* The device's clock: it is read until two readings are close together. */
static int fail_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	static _Atomic int64_t row = -1;

	return fail_calls_row_now(CALLER, &row) ? EIO : table.query_rt_values(context, values);
}

static int fail_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
	if (!fail_calls_now(CALLER, true))
		return table.context.ops.post_recv(qp, work, bad);
	*bad = work;
	return ENOMEM;
}

static void replace_table(struct verbs_context *open)
{
	table = *open;
	open->query_port = fail_query_port;
	open->query_device_ex = fail_query_device_ex;
	open->query_rt_values = fail_query_rt_values;
	open->alloc_null_mr = fail_alloc_null_mr;
	open->alloc_td = fail_alloc_td;
	open->alloc_parent_domain = fail_alloc_parent_domain;
	open->create_cq_ex = fail_create_cq_ex;
	open->create_counters = fail_create_counters;
	open->attach_counters_point_flow = fail_attach_counters_point_flow;
	open->read_counters = fail_read_counters;
	open->ibv_create_flow = fail_ibv_create_flow;
	open->context.ops.post_recv = fail_post_recv;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	static struct ibv_context *(*_Atomic next)(struct ibv_device *);
	struct ibv_context *context;
	struct verbs_context *open;

	if (FAILS()) {
		errno = EIO;
		return NULL;
	}
	if (!next)
		next = (struct ibv_context * (*)(struct ibv_device *)) dlsym(RTLD_NEXT, "ibv_open_device");
	context = next(device);
	open = context ? verbs_get_ctx(context) : NULL;
	if (open)
		replace_table(open);
	return context;
}
