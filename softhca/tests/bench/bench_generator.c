// SPDX-License-Identifier: Apache-2.0
/*
 * bench_generator PAYLOAD SECONDS DEVICE_CPU CPU: how fast softhca's generator completes receives
 * with nothing above it, and how fast the same core copies the same bytes, in turns; a JSON line
 * a round. Rates are per second, and per second of the core's time: on a machine where others
 * run too, these differ.
 *
 * Run below softhca -e generator, SOFTHCA_CPU=DEVICE_CPU. Every work request is posted once with
 * libmlx5. From then on nobody polls: this program looks at one completion in BATCH, gives the
 * completion queue's entries back and rings the doorbell for as many work requests as before,
 * which still lie in the queue as they were written. So the device is never short of buffers, and
 * its own rate shows. In the end it waits for what is posted, and the flow's counter must agree.
 */
#include "softhca/wire/clock_now.h"
#include "softhca/tests/support/verbs_common.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH      64u
#define ROUNDS     5
#define MAX_DEPTH  8192u
#define RING_BYTES (32u << 20) /* of payload: no cache keeps it */
#define ADDRESS    "10.0.0.1"  /* what the generator sends by default */
#define PORT       4000

struct bench {
	struct queue queue;
	double seconds;
	uint8_t *frame;
	uint64_t posted, seen; /* work requests, completions */
	struct mlx5dv_cq cq;
	struct mlx5dv_qp qp;
};

static double seconds_of(clockid_t clock)
{
	return (double)clock_now_ns(clock) / 1e9;
}

static double now_s(void)
{
	return seconds_of(CLOCK_MONOTONIC);
}

/* How long softhca's device thread has run. */
static double device_cpu_s(void)
{
	unsigned long long ns = 0;
	struct dirent *entry;
	DIR *tasks = opendir("/proc/self/task");

	while (tasks && (entry = readdir(tasks))) {
		char path[300], name[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		f = fopen(path, "r");
		if (!f || !fgets(name, sizeof(name), f))
			name[0] = 0;
		if (f)
			fclose(f);
		if (strcmp(name, "softhca-hca\n"))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", entry->d_name);
		f = fopen(path, "r");
		if (!f || fscanf(f, "%llu", &ns) != 1)
			die("schedstat");
		fclose(f);
	}
	if (!tasks || !ns)
		die("no device thread: not below softhca?");
	closedir(tasks);
	return (double)ns / 1e9;
}

static void pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
}

/* A rate by the clock on the wall and by the core's time. */
struct rate {
	double per_s, per_cpu_s;
};

/* Frames that this core copies to where the device will. */
static struct rate copy_rate(struct bench *b)
{
	struct queue *q = &b->queue;
	double start = now_s(), cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID), end;
	uint64_t n = 0;

	do {
		for (uint32_t i = 0; i < q->config.depth; i++) {
			memcpy(q->headers + (size_t)i * HEADER_STRIDE, b->frame, HEADER_BYTES);
			memcpy(q->payloads + (size_t)i * q->config.payload_bytes, b->frame + HEADER_BYTES,
			       q->config.payload_bytes);
			__asm__ volatile("" : : : "memory");
		}
		n += q->config.depth;
		end = now_s();
	} while (end - start < b->seconds);
	cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
	return (struct rate){(double)n / (end - start), (double)n / cpu};
}

/* Is completion `index` there? Dies if it is an error. */
static bool is_complete(const struct mlx5dv_cq *cq, uint32_t index)
{
	const struct mlx5_cqe64 *cqe =
		(const void *)((const uint8_t *)cq->buf + (size_t)(index & (cq->cqe_cnt - 1)) * cq->cqe_size +
	                       cq->cqe_size - sizeof(*cqe));
	uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);

	if (op_own >> 4 == MLX5_CQE_INVALID || (op_own & 1) != !!(index & cq->cqe_cnt))
		return false;
	if (op_own >> 4 != MLX5_CQE_RESP_SEND) {
		errno = EIO;
		die("a completion with an error");
	}
	return true;
}

/* As much is posted as has been seen to complete. */
static void ring_doorbells(struct bench *b)
{
	__atomic_store_n(&b->cq.dbrec[0], htobe32(b->seen & 0xffffff), __ATOMIC_RELEASE);
	__atomic_store_n(&b->qp.dbrec[0], htobe32(b->posted & 0xffff), __ATOMIC_RELEASE);
}

/* What is posted completes, and nothing else has been counted. */
static void drain(struct bench *b)
{
	double give_up = now_s() + 5;

	while (b->seen < b->posted) {
		if (is_complete(&b->cq, (uint32_t)b->seen))
			b->seen++;
		else if (now_s() > give_up)
			die("what was posted does not complete");
	}
	if (queue_matched(&b->queue) != b->posted)
		die("the flow's counter does not agree with the completions");
}

static struct rate receive_rate(struct bench *b)
{
	double start = now_s(), cpu = device_cpu_s(), end;
	uint64_t before = b->seen, n;

	b->posted += b->queue.config.depth;
	ring_doorbells(b);
	do {
		for (int i = 0; i < 64 && is_complete(&b->cq, (uint32_t)b->seen + BATCH - 1); i++) {
			b->seen += BATCH;
			b->posted += BATCH;
			ring_doorbells(b);
		}
		end = now_s();
	} while (end - start < b->seconds);
	cpu = device_cpu_s() - cpu;
	n = b->seen - before;
	drain(b);
	return (struct rate){(double)n / (end - start), (double)n / cpu};
}

static void start(struct bench *b, const struct queue_config *config)
{
	struct mlx5dv_obj objects = {.cq = {.out = &b->cq}, .qp = {.out = &b->qp}};

	b->frame = malloc(HEADER_BYTES + config->payload_bytes);
	if (!b->frame)
		die("memory");
	memset(b->frame, 0x55, HEADER_BYTES + config->payload_bytes);
	queue_open(&b->queue, config);
	objects.cq.in = ibv_cq_ex_to_cq(b->queue.cq);
	objects.qp.in = b->queue.qp;
	if (mlx5dv_init_obj(&objects, MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP))
		die("mlx5dv_init_obj");
	errno = queue_add_udp_flow(&b->queue, ADDRESS, PORT, true);
	if (errno)
		die("flow");
	errno = queue_post(&b->queue, 0, config->depth);
	if (errno)
		die("post");
	/* The first round is libmlx5's; from then on the doorbells are ours. */
	b->posted = config->depth;
	drain(b);
}

static uint32_t depth_for(uint32_t payload_bytes)
{
	uint32_t depth = MAX_DEPTH;

	while (depth > BATCH && (size_t)depth * payload_bytes > RING_BYTES)
		depth /= 2;
	return depth;
}

int main(int argc, char **argv)
{
	struct queue_config config = {.n_sge = 2};
	struct bench b = {};

	if (argc != 5)
		die("usage: see the source");
	config.payload_bytes = (unsigned int)atoi(argv[1]);
	config.depth = depth_for(config.payload_bytes);
	b.seconds = atof(argv[2]) / (2 * ROUNDS);
	start(&b, &config);
	for (int i = 0; i < ROUNDS; i++) {
		struct rate copied, received;

		pin(atoi(argv[3]));
		copied = copy_rate(&b);
		pin(atoi(argv[4]));
		received = receive_rate(&b);
		printf("{\"copies_per_s\": %.0f, \"copies_per_cpu_s\": %.0f, "
		       "\"completions_per_s\": %.0f, \"completions_per_cpu_s\": %.0f}\n",
		       copied.per_s, copied.per_cpu_s, received.per_s, received.per_cpu_s);
	}
	queue_close(&b.queue);
	free(b.frame);
	return EXIT_SUCCESS;
}
