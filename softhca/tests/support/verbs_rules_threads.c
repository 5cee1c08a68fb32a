// SPDX-License-Identifier: Apache-2.0
/* Opening and closing the device: failures half-way, and several threads at once. */
#include "verbs_rules.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#define N_CLOSES 100
#define N_OPENS  100

struct closing {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	atomic_uint n_done, n_left;
	struct ibv_mr *left[2];
};

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	ibv_free_device_list(list);
	if (!ctx)
		die("cannot open the device");
	return ctx;
}

static void *register_until_closed(void *arg)
{
	static uint8_t memory[65536];
	struct closing *c = arg;
	struct ibv_mr *mr;

	while ((mr = ibv_reg_mr(c->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE)) && !ibv_dereg_mr(mr))
		atomic_fetch_add(&c->n_done, 1);
	c->left[atomic_fetch_add(&c->n_left, 1)] = mr; /* the close came between the two */
	return NULL;
}

/* A system call holds the file it works on: its end is the end of the last call. */
static const char *close_under_commands(void)
{
	static struct closing all[N_CLOSES]; /* libibverbs cannot free them any more */

	mallopt(M_PERTURB, 0x55); /* what is freed too early shows */
	for (int i = 0; i < N_CLOSES; i++) {
		struct closing *c = &all[i];
		pthread_t threads[2];

		c->ctx = open_first();
		c->pd = ibv_alloc_pd(c->ctx);
		EXPECT(c->pd, "no domain");
		for (int k = 0; k < 2; k++)
			EXPECT(!pthread_create(&threads[k], NULL, register_until_closed, c), "no thread");
		while (atomic_load(&c->n_done) < 2)
			wait_a_little();
		EXPECT(!close(c->ctx->cmd_fd), "no close");
		for (int k = 0; k < 2; k++)
			pthread_join(threads[k], NULL);
		close(c->ctx->async_fd);
	}
	return NULL;
}

static void *close_it(void *arg)
{
	ibv_close_device(arg);
	return NULL;
}

/* The last context goes while the next one comes. */
static const char *open_while_closing(void)
{
	for (int i = 0; i < N_OPENS; i++) {
		struct ibv_context *last = open_first(), *next;
		pthread_t thread;

		EXPECT(!pthread_create(&thread, NULL, close_it, last), "no thread");
		next = open_first();
		pthread_join(thread, NULL);
		EXPECT_RETURNS(0, ibv_close_device(next));
	}
	return NULL;
}

/* 0 or the errno. The descriptor for events is left to the process's end. */
static int get_context(int fd)
{
	struct ib_uverbs_get_context_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		uint64_t response; /* struct ib_uverbs_get_context */
		struct mlx5_ib_alloc_ucontext_req_v2 driver;
	} request = {
		.hdr = {.command = IB_USER_VERBS_CMD_GET_CONTEXT,
	                .in_words = sizeof(request) / 4,
	                .out_words = sizeof(resp) / 4},
		.response = (uintptr_t)&resp,
		.driver = {.total_num_bfregs = 16,
	                   .num_low_latency_bfregs = 4,
	                   .max_cqe_version = 1,
	                   .lib_caps = MLX5_LIB_CAP_4K_UAR | MLX5_LIB_CAP_DYN_UAR},
	};

	return write(fd, &request, sizeof(request)) == sizeof(request) ? 0 : errno;
}

/* A context that could not be made leaves nothing: the device's clock goes on for the others. */
static const char *context_after_failure(void)
{
	int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC); /* the lowest that is free */
	struct rlimit before, none;

	EXPECT(fd >= 0, "no device");
	EXPECT_RETURNS(0, getrlimit(RLIMIT_NOFILE, &before));
	none = (struct rlimit){(rlim_t)fd + 1, before.rlim_max};
	EXPECT_RETURNS(0, setrlimit(RLIMIT_NOFILE, &none));
	EXPECT_RETURNS(EMFILE, get_context(fd));
	EXPECT_RETURNS(EMFILE, get_context(fd));
	EXPECT_RETURNS(0, setrlimit(RLIMIT_NOFILE, &before));
	EXPECT_RETURNS(0, get_context(fd));
	EXPECT_RETURNS(EINVAL, get_context(fd));
	EXPECT_RETURNS(0, ibv_close_device(open_first()));
	EXPECT_RETURNS(0, close(fd));
	EXPECT_RETURNS(0, ibv_close_device(open_first()));
	return NULL;
}

struct asking {
	int fd;
	atomic_uint n_made;
	pthread_barrier_t together;
};

static void *ask_for_context(void *arg)
{
	struct asking *a = arg;

	pthread_barrier_wait(&a->together);
	atomic_fetch_add(&a->n_made, !get_context(a->fd));
	return NULL;
}

static const char *one_context(void)
{
	for (int i = 0; i < N_OPENS; i++) {
		struct asking a = {.fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC)};
		pthread_t threads[2];

		EXPECT(a.fd >= 0, "no device");
		pthread_barrier_init(&a.together, NULL, 2);
		for (int k = 0; k < 2; k++)
			EXPECT(!pthread_create(&threads[k], NULL, ask_for_context, &a), "no thread");
		for (int k = 0; k < 2; k++)
			pthread_join(threads[k], NULL);
		EXPECT(atomic_load(&a.n_made) == 1, "not exactly one context");
		EXPECT_RETURNS(0, close(a.fd));
	}
	return NULL;
}

const struct rule thread_rules[] = {
	{"context-after-a-failure", "ib_uverbs: ib_alloc_ucontext, ib_init_ucontext", .check = context_after_failure},
	{"threads-get-one-context", "ib_uverbs: ib_uverbs_get_context, ucontext_lock", .check = one_context},
	{"threads-close-under-commands", "fs/file.c: fdget", .check = close_under_commands},
	{"threads-open-while-closing", "ibv_open_device(3)", .check = open_while_closing},
	{},
};
