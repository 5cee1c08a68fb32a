// SPDX-License-Identifier: Apache-2.0
/* Builds and sends the commands of the stress test as libibverbs lays them out. */
#include "softhca_stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void must_(bool good, const char *what, int line)
{
	if (!good) {
		fprintf(stderr, "line %d: not so: %s\n", line, what);
		abort();
	}
}

struct message {
	uint8_t bytes[512] __attribute__((aligned(8)));
	size_t n;
};

static void add(struct message *m, const void *data, size_t bytes)
{
	must(m->n + bytes <= sizeof(m->bytes));
	memcpy(m->bytes + m->n, data, bytes);
	m->n += bytes;
}

/* 0, or -1: the descriptor is closed, or the command was refused. */
static int submit(struct stress *s, int fd, const struct message *m)
{
	struct fd_object *o = fdtab_find(&s->fdtab, fd, FD_UVERBS);
	ssize_t r = o ? uverbs_write((struct uverbs_file *)o, m->bytes, m->n) : -1;

	fd_object_put(o);
	return r < 0 ? -1 : 0;
}

int command(struct stress *s, int fd, uint32_t number, const void *core, size_t core_bytes, const void *drv,
            size_t drv_bytes, size_t out_bytes)
{
	struct ib_uverbs_cmd_hdr hdr = {
		.command = number,
		.in_words = (uint16_t)((sizeof(hdr) + core_bytes + drv_bytes) / 4),
		.out_words = (uint16_t)(out_bytes / 4),
	};
	struct message m = {};

	add(&m, &hdr, sizeof(hdr));
	add(&m, core, core_bytes);
	if (drv_bytes)
		add(&m, drv, drv_bytes);
	return submit(s, fd, &m);
}

int extended(struct stress *s, int fd, uint32_t number, const void *core, size_t core_bytes, void *resp,
             size_t resp_bytes)
{
	struct ib_uverbs_cmd_hdr hdr = {
		.command = number | IB_USER_VERBS_CMD_FLAG_EXTENDED,
		.in_words = (uint16_t)(core_bytes / 8),
		.out_words = (uint16_t)(resp_bytes / 8),
	};
	struct ib_uverbs_ex_cmd_hdr ex = {.response = (uintptr_t)resp};
	struct message m = {};

	add(&m, &hdr, sizeof(hdr));
	add(&m, &ex, sizeof(ex));
	add(&m, core, core_bytes);
	return submit(s, fd, &m);
}

int alloc_pd(struct stress *s, int fd, uint32_t *handle)
{
	struct ib_uverbs_alloc_pd core = {};
	union {
		struct ib_uverbs_alloc_pd_resp core;
		uint64_t room[2]; /* for the driver's, too */
	} resp = {};
	int r = COMMAND_NO_DRIVER(s, fd, ALLOC_PD, core, resp);

	*handle = resp.core.pd_handle;
	return r;
}

int reg_mr(struct stress *s, int fd, uint32_t pd, void *start, uint64_t bytes, uint32_t *handle, uint32_t *lkey)
{
	struct ib_uverbs_reg_mr core = {.start = (uintptr_t)start,
	                                .length = bytes,
	                                .hca_va = (uintptr_t)start,
	                                .pd_handle = pd,
	                                .access_flags = 1};
	struct ib_uverbs_reg_mr_resp resp = {};
	int r = COMMAND_NO_DRIVER(s, fd, REG_MR, core, resp);

	*handle = resp.mr_handle;
	*lkey = resp.lkey;
	return r;
}

int create_cq(struct stress *s, int fd, struct hw_cqe *cqes, uint32_t *record, uint32_t *handle)
{
	struct ib_uverbs_create_cq core = {.cqe = N_CQE - 1, .comp_channel = -1};
	struct mlx5_ib_create_cq drv = {
		.buf_addr = (uintptr_t)cqes, .db_addr = (uintptr_t)record, .cqe_size = sizeof(*cqes)};
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct mlx5_ib_create_cq_resp drv;
	} resp = {};
	int r = COMMAND(s, fd, CREATE_CQ, core, drv, resp);

	*handle = resp.core.cq_handle;
	return r;
}

int destroy_cq(struct stress *s, int fd, uint32_t cq)
{
	struct ib_uverbs_destroy_cq core = {.cq_handle = cq};
	struct ib_uverbs_destroy_cq_resp resp = {};

	return COMMAND_NO_DRIVER(s, fd, DESTROY_CQ, core, resp);
}

int dereg_mr(struct stress *s, int fd, uint32_t mr)
{
	struct ib_uverbs_dereg_mr core = {.mr_handle = mr};

	return COMMAND_SILENT(s, fd, DEREG_MR, core);
}

int dealloc_pd(struct stress *s, int fd, uint32_t pd)
{
	struct ib_uverbs_dealloc_pd core = {.pd_handle = pd};

	return COMMAND_SILENT(s, fd, DEALLOC_PD, core);
}
