// SPDX-License-Identifier: Apache-2.0
/* What several threads of a program do at once to open and close the device. */
#include "verbs_rules.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define N_CLOSES 100
#define N_OPENS 100

struct closing {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	atomic_uint n_done;
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

const struct rule thread_rules[] = {
	{"threads-close-under-commands", "fs/file.c: fdget", close_under_commands},
	{"threads-open-while-closing", "ibv_open_device(3)", open_while_closing},
	{},
};
