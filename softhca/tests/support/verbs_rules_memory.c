// SPDX-License-Identifier: Apache-2.0
/* Rules of registered memory beyond those of verbs_rules_object.c, looked at as the device does. */
#include "verbs_rules.h"

#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u

static const struct queue_config both = {.depth = 8, .n_sge = 1, .payload_bytes = 2048, .send_depth = 8};

static uint8_t *map(int protection)
{
	return mmap(NULL, 2 * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static const char *iova_is_what_the_device_sees(struct queue *q)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr;

	mr = ibv_reg_mr_iova(q->pd, p + 16, PAGE, 16, IBV_ACCESS_LOCAL_WRITE);
	EXPECT(mr, "not registered");
	EXPECT(send_from(q, 16, mr->lkey) == IBV_WC_SUCCESS, "its first byte is not there");
	EXPECT(send_from(q, 16 + PAGE - 100, mr->lkey) == IBV_WC_SUCCESS, "its last is not there");
	EXPECT(send_from(q, 15, mr->lkey) == IBV_WC_LOC_PROT_ERR, "below it is something");
	EXPECT(send_from(q, 16 + PAGE - 99, mr->lkey) == IBV_WC_LOC_PROT_ERR, "it is longer");
	EXPECT(send_from(q, (uintptr_t)p + 16, mr->lkey) == IBV_WC_LOC_PROT_ERR, "it is at its address, too");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	return NULL;
}

static const char *zero_based_is_for_device_memory(struct queue *q)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr;

	mr = ibv_reg_mr(q->pd, p, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	EXPECT(mr, "not registered");
	EXPECT(send_from(q, (uintptr_t)p, mr->lkey) == IBV_WC_SUCCESS, "not at its address");
	EXPECT(send_from(q, 0, mr->lkey) == IBV_WC_LOC_PROT_ERR, "at zero");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	return NULL;
}

static const char *old_key_is_wrong(struct queue *q)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE);
	uint32_t old;
	struct ibv_mr *mr;

	mr = ibv_reg_mr(q->pd, p, PAGE, IBV_ACCESS_LOCAL_WRITE);
	old = mr->lkey;
	EXPECT(mr->rkey == old, "lkey and rkey differ");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	mr = ibv_reg_mr(q->pd, p, PAGE, IBV_ACCESS_LOCAL_WRITE);
	EXPECT(mr->lkey != old, "the same key again");
	EXPECT(send_from(q, (uintptr_t)p, old) == IBV_WC_LOC_PROT_ERR, "the old key still works");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	return NULL;
}

static const char *other_context(void)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr;
	struct queue q, other;

	queue_open(&q, &both);
	queue_open(&other, &both);
	mr = ibv_reg_mr(other.pd, p, PAGE, IBV_ACCESS_LOCAL_WRITE);
	EXPECT(send_from(&q, (uintptr_t)p, mr->lkey) == IBV_WC_LOC_PROT_ERR, "another context's key");
	EXPECT(send_from(&other, (uintptr_t)p, mr->lkey) == IBV_WC_SUCCESS, "not the context's own");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	queue_close(&q);
	queue_close(&other);
	return NULL;
}

static const char *access_flags(void)
{
	struct ibv_pd *pd = shared_queue()->pd;
	uint8_t *writable = map(PROT_READ | PROT_WRITE), *readable = map(PROT_READ);
	struct ibv_mr *mr;

	EXPECT_ERRNO(EINVAL, ibv_reg_mr(pd, writable, PAGE, IBV_ACCESS_REMOTE_ATOMIC));
	EXPECT_ERRNO(EOPNOTSUPP, ibv_reg_mr(pd, writable, PAGE, IBV_ACCESS_ON_DEMAND));
	EXPECT_ERRNO(EFAULT, ibv_reg_mr(pd, readable, PAGE, IBV_ACCESS_MW_BIND));
	EXPECT_ERRNO(EINVAL, ibv_reg_mr(pd, writable, 0, IBV_ACCESS_LOCAL_WRITE));
	mr = ibv_reg_mr(pd, writable, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	EXPECT(mr, "relaxed ordering was refused");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	mr = ibv_reg_mr(pd, writable, PAGE,
	                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                        IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_HUGETLB);
	EXPECT(mr, "all of the ordinary flags were refused");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	return NULL;
}

static const char *region_keeps_its_domain(void)
{
	struct queue *q = shared_queue();
	struct ibv_pd *pd = ibv_alloc_pd(q->ctx);
	struct ibv_mr *mr = ibv_reg_mr(pd, q->payloads, PAGE, IBV_ACCESS_LOCAL_WRITE);

	EXPECT_RETURNS(EBUSY, ibv_dealloc_pd(pd));
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	EXPECT_RETURNS(0, ibv_dealloc_pd(pd));
	return NULL;
}

/* ibv_import_device(3): the context's objects by another context of the same file. */
static const char *mr_is_imported(void)
{
	struct queue *q = shared_queue();
	struct ibv_context *ctx = ibv_import_device(dup(q->ctx->cmd_fd));
	struct ibv_pd *pd = ctx ? ibv_import_pd(ctx, q->pd->handle) : NULL;
	struct ibv_mr *mr = pd ? ibv_import_mr(pd, q->payload_mr->handle) : NULL;

	EXPECT(mr && mr->lkey == q->payload_mr->lkey && mr->length == q->payload_mr->length, "not the same region");
	EXPECT(ctx->async_fd != q->ctx->async_fd, "the events' file is the same");
	EXPECT_ERRNO(ENOENT, ibv_import_mr(pd, 12345));
	EXPECT_ERRNO(ENOENT, ibv_import_pd(ctx, 12345));
	EXPECT_ERRNO(EPROTONOSUPPORT, ibv_import_dm(ctx, 0)); /* no model has device memory */
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	EXPECT_RETURNS(0, ibv_close_device(ctx));
	EXPECT_ERRNO(EINVAL, ibv_import_device(STDERR_FILENO));
	mr = ibv_reg_mr(q->pd, q->payloads, 2048, 0);
	EXPECT(mr && !ibv_dereg_mr(mr), "the domain has gone with the imported context");
	return NULL;
}

const struct rule memory_rules[] = {
	{"mr-is-imported", "ib_uverbs: UVERBS_METHOD_QUERY_MR; libibverbs: ibv_import_device", .check = mr_is_imported},
	{"mr-other-context", "PRM: memory key checks", .check = other_context},
	{"mr-access-flags", "ib_core: ib_check_mr_access, ib_access_writable, ib_umem_get", .check = access_flags},
	{"mr-keeps-its-domain", "ib_core: usecnt of PD", .check = region_keeps_its_domain},
	{"mr-iova", "mlx5_ib: reg_create", .check_queue = iova_is_what_the_device_sees, .config = &both},
	{"mr-zero-based", "mlx5_ib: reg_create; for device memory only", .check_queue = zero_based_is_for_device_memory,
         .config = &both},
	{"mr-old-key", "PRM: memory key checks", .check_queue = old_key_is_wrong, .config = &both},
	{},
};
