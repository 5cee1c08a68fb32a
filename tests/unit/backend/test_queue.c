// SPDX-License-Identifier: Apache-2.0
/* What the verbs backend asks of a device, and what it says of the device's errors, with a device that only records. */
#include "daemon/backend/verbs/verbs.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct verbs_context context;
static struct ibv_device device = {.name = "mlx5_7"};
static struct verbs_backend backend;
static struct ibv_cq_ex cq;
static uint32_t vectors[8];
static unsigned n_cqs;
static int cq_error;
static uint32_t broken_vector; /* 0: none */

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *of, struct ibv_cq_init_attr_ex *init)
{
	cr_assert(eq(ptr, of, &context.context));
	errno = broken_vector && init->comp_vector == broken_vector ? ENOENT : cq_error;
	if (errno)
		return NULL;
	vectors[n_cqs++] = init->comp_vector;
	return &cq;
}

static void set_up(void)
{
	context.sz = sizeof(context);
	context.create_cq_ex = create_cq_ex;
	context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	context.context.device = &device;
	context.context.num_comp_vectors = 3;
	backend = (struct verbs_backend){.base = {.ops = &verbs_backend_ops}, .context = &context.context};
}

TestSuite(queue, .init = set_up);

static int create_cq(struct failure *failure)
{
	struct verbs_queue queue = {.backend = &backend};

	return verbs_queue_create_cq(&queue, 64, 0, false, failure);
}

Test(queue, completion_queues_take_the_vectors_in_turn)
{
	static const uint32_t wanted[] = {0, 1, 2, 0, 1};

	for (unsigned i = 0; i < 5; i++)
		cr_assert(eq(int, create_cq(NULL), 0));
	cr_expect(eq(int, memcmp(vectors, wanted, sizeof(wanted)), 0));
}

Test(queue, a_vector_that_is_refused_is_replaced_by_the_first)
{
	static const uint32_t wanted[] = {0, 0, 2, 0, 0};

	broken_vector = 1;
	for (unsigned i = 0; i < 5; i++)
		cr_assert(eq(int, create_cq(NULL), 0));
	cr_expect(eq(int, memcmp(vectors, wanted, sizeof(wanted)), 0));
	/* The next is vector 2. */
	cq_error = ENOMEM;
	cr_expect(eq(int, create_cq(NULL), -ENOMEM));
	cr_expect(eq(uint, n_cqs, 5));
}

Test(queue, a_device_with_one_vector_gives_it_to_all)
{
	context.context.num_comp_vectors = 1;
	for (unsigned i = 0; i < 3; i++)
		cr_assert(eq(int, create_cq(NULL), 0));
	cr_expect(eq(u32, vectors[0] | vectors[1] | vectors[2], 0));
}

/* ---- texts ---------------------------------------------------------------------------------------- */

static void expect_cq_text(int error, const char *says, const char *does_not_say)
{
	struct failure failure = {0};

	cq_error = error;
	cr_assert(eq(int, create_cq(&failure), -error));
	cr_expect(ne(ptr, strstr(failure.text, says), NULL), "%s", failure.text);
	cr_expect(eq(ptr, strstr(failure.text, does_not_say), NULL), "%s", failure.text);
}

Test(queue, a_limit_of_the_cgroup_is_not_told_as_an_old_library)
{
	expect_cq_text(EAGAIN, "rdma.max", "libibverbs");
	expect_cq_text(ETIMEDOUT, "dmesg", "libibverbs");
	expect_cq_text(EOPNOTSUPP, "libibverbs 1.7", "rdma.max");
	expect_cq_text(ENOMEM, "Cannot allocate memory", "libibverbs");
}

Test(queue, a_full_flow_table_is_explained)
{
	cr_expect(
		ne(ptr, (void *)strstr(verbs_explain_flow(ENOSPC, NULL), "the flow table of the port is full"), NULL));
	cr_expect(ne(ptr, (void *)strstr(verbs_explain_flow(ENOSPC, NULL), "fewer flows"), NULL));
	cr_expect(ne(ptr, (void *)strstr(verbs_explain_flow(EAGAIN, NULL), "rdma.max"), NULL));
	cr_expect(ne(ptr, (void *)strstr(verbs_explain_flow(EINVAL, NULL), "kernel log"), NULL));
}

/* ---- timestamps ----------------------------------------------------------------------------------- */

static uint64_t real_time;

static int start_poll(struct ibv_cq_ex *of, struct ibv_poll_cq_attr *attr)
{
	(void)of, (void)attr;
	return 0;
}

static int next_poll(struct ibv_cq_ex *of)
{
	(void)of;
	return ENOENT;
}

static void end_poll(struct ibv_cq_ex *of)
{
	(void)of;
}

static uint32_t read_byte_len(struct ibv_cq_ex *of)
{
	(void)of;
	return 100;
}

static uint64_t read_wallclock(struct ibv_cq_ex *of)
{
	(void)of;
	return real_time;
}

Test(queue, real_time_of_a_completion_becomes_nanoseconds)
{
	struct verbs_receive_queue receive = {.queue = {.backend = &backend, .cq = &cq},
	                                      .timestamps = VERBS_TIMESTAMPS_REAL_TIME};
	struct backend_event event;

	cq = (struct ibv_cq_ex){.status = IBV_WC_SUCCESS,
	                        .start_poll = start_poll,
	                        .next_poll = next_poll,
	                        .end_poll = end_poll,
	                        .read_byte_len = read_byte_len,
	                        .read_completion_wallclock_ns = read_wallclock};
	real_time = UINT64_C(1795000000) << 32 | 999999999;
	cr_assert(eq(int, verbs_poll(&receive.queue.base, &event, 1), 1));
	cr_expect(eq(u64, event.timestamp_raw, UINT64_C(1795000000999999999)));
}

/* ---- offloads -------------------------------------------------------------------------------------- */

static struct ibv_modify_cq_attr modified;
static unsigned access_flags;
static int modify_error;

static int modify_cq(struct ibv_cq *of, struct ibv_modify_cq_attr *attr)
{
	cr_assert(eq(ptr, of, ibv_cq_ex_to_cq(&cq)));
	modified = *attr;
	return modify_error;
}

static int expect_moderation(uint32_t slots, uint32_t max_count, struct failure *failure)
{
	struct verbs_queue queue = {.backend = &backend, .cq = &cq};
	const struct backend_queue_options options = {.slots = slots, .moderation_us = 50};

	ibv_cq_ex_to_cq(&cq)->context = &context.context;
	context.modify_cq = modify_cq;
	backend.attr.cq_mod_caps.max_cq_count = (uint16_t)max_count;
	return verbs_moderate(&queue, &options, failure);
}

Test(queue, events_wait_for_a_quarter_of_the_slots_or_less)
{
	struct failure failure = {0};

	cr_assert(eq(int, expect_moderation(4096, 65535, NULL), 0));
	cr_expect(eq(u32, modified.attr_mask, IBV_CQ_ATTR_MODERATE));
	cr_expect(eq(u32, modified.moderate.cq_count, 1024));
	cr_expect(eq(u32, modified.moderate.cq_period, 50));
	cr_assert(eq(int, expect_moderation(4096, 100, NULL), 0));
	cr_expect(eq(u32, modified.moderate.cq_count, 100));
	modify_error = EOPNOTSUPP;
	cr_assert(eq(int, expect_moderation(4096, 0, &failure), -EOPNOTSUPP));
	cr_expect(ne(ptr, strstr(failure.text, "mlx5_7 refuses events"), NULL), "%s", failure.text);
	cr_expect(ne(ptr, strstr(failure.text, "moderation_us = 0"), NULL), "%s", failure.text);
}

static struct ibv_mr mr;

/* The library passes optional flags on by its own call, if the kernel knows such. */
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova, unsigned access);

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova, unsigned access)
{
	(void)pd, (void)address, (void)bytes, (void)iova;
	access_flags = access;
	return &mr;
}

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access);

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access)
{
	return __wrap_ibv_reg_mr_iova2(pd, address, bytes, 0, (unsigned)access);
}

static unsigned access_of_memory(void)
{
	struct backend_memory *memory;

	cr_assert(eq(int, verbs_register_memory(&backend.base, &mr, sizeof(mr), &memory, NULL), 0));
	free(memory);
	return access_flags;
}

Test(queue, memory_has_relaxed_ordering_unless_the_configuration_forbids_it)
{
	cr_expect(eq(u32, access_of_memory(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
	backend.strict_ordering = true;
	cr_expect(eq(u32, access_of_memory(), IBV_ACCESS_LOCAL_WRITE));
}
