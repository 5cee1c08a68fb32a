// SPDX-License-Identifier: Apache-2.0
/* What the parts of softhca_stress share: the device, and commands as libibverbs lays them out. */
#ifndef TESTS_SOFTHCA_STRESS_H
#define TESTS_SOFTHCA_STRESS_H

#include "softhca/device/clock.h"
#include "softhca/device/hw.h"
#include "softhca/settings.h"
#include "softhca/uverbs/uverbs.h"

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#define FRAME_BYTES 64u /* of the wire's */
#define N_CQE       16u

struct stress {
	struct fdtab fdtab;
	struct memlock memlock;
	struct clock clock;
	struct device device;
	atomic_bool stop;
};

#define must(condition) must_(condition, #condition, __LINE__)
void must_(bool good, const char *what, int line);

/* 0, or -1: the descriptor is closed, or the command was refused. `core` begins with where the response
 * goes, if there is one. */
int command(struct stress *s, int fd, uint32_t number, const void *core, size_t core_bytes, const void *drv,
            size_t drv_bytes, size_t out_bytes);
int extended(struct stress *s, int fd, uint32_t number, const void *core, size_t core_bytes, void *resp,
             size_t resp_bytes);

#define COMMAND(s, fd, name, core, drv, resp)    \
	((core).response = (uintptr_t) & (resp), \
	 command(s, fd, IB_USER_VERBS_CMD_##name, &(core), sizeof(core), &(drv), sizeof(drv), sizeof(resp)))
#define COMMAND_NO_DRIVER(s, fd, name, core, resp) \
	((core).response = (uintptr_t) & (resp),   \
	 command(s, fd, IB_USER_VERBS_CMD_##name, &(core), sizeof(core), NULL, 0, sizeof(resp)))
#define COMMAND_SILENT(s, fd, name, core) command(s, fd, IB_USER_VERBS_CMD_##name, &(core), sizeof(core), NULL, 0, 0)

int alloc_pd(struct stress *s, int fd, uint32_t *handle);
int reg_mr(struct stress *s, int fd, uint32_t pd, void *start, uint64_t bytes, uint32_t *handle, uint32_t *lkey);
int create_cq(struct stress *s, int fd, struct hw_cqe *cqes, uint32_t *record, uint32_t *handle);
int destroy_cq(struct stress *s, int fd, uint32_t cq);
int dereg_mr(struct stress *s, int fd, uint32_t mr);
int dealloc_pd(struct stress *s, int fd, uint32_t pd);

#endif
