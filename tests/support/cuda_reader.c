// SPDX-License-Identifier: Apache-2.0
/*
 * A consumer with a CUDA device of softcuda: cuda_reader SOCKET STREAM WAY. WAY is the number of an enum
 * ibvcap_cuda_way. For each batch a kernel adds up all bytes of the rows, and the host does, too; the batch is released
 * at once. A line of JSON when attached, one with both sums and the counts at TERM.
 */
#include "tests/softcuda/softcuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <ibvcap/cuda.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static volatile sig_atomic_t stop;
static int (*launch_sum)(struct CUstream_st *stream, unsigned long long address, size_t bytes, uint64_t *sum);
static int (*push_context)(void *context);
static int (*retain_context)(void **context, int device);
static struct softcuda_counts (*count)(void);

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static void fail(const char *what)
{
	fprintf(stderr, "cuda_reader: %s: %s\n", what, ibvcap_error_text());
	exit(1);
}

/* The program's own calls of the driver, which the library has loaded. */
static void load_softcuda(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;

	if (!library)
		fail(dlerror());
	*(void **)&launch_sum = dlsym(library, "softcuda_launch_sum");
	*(void **)&count = dlsym(library, "softcuda_count");
	*(void **)&retain_context = dlsym(library, "cuDevicePrimaryCtxRetain");
	*(void **)&push_context = dlsym(library, "cuCtxPushCurrent_v2");
	if (!launch_sum || !count || retain_context(&context, 0) || push_context(context))
		fail("this is not softcuda");
}

static uint64_t add_up(const struct ibvcap_rx_batch *rows)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < (size_t)rows->n * rows->stride; i++)
		sum += rows->payload[i];
	return sum;
}

static void say_end(struct ibvcap_rx *rx, uint64_t host, uint64_t device, uint64_t batches)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	ibvcap_rx_counts(rx, &counts);
	printf("{\"host\": %" PRIu64 ", \"device\": %" PRIu64 ", \"batches\": %" PRIu64 ", \"published\": %" PRIu64
	       ", \"delivered\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"lag\": %" PRIu64 ", \"epochs\": %" PRIu64
	       ", \"registrations\": %" PRIu64 "}\n",
	       host, device, batches, counts.published, counts.delivered, counts.skipped, counts.lag, counts.epochs,
	       count().registrations);
}

int main(int argc, char **argv)
{
	struct ibvcap_rx_options options = IBVCAP_INIT(struct ibvcap_rx_options);
	struct ibvcap_cuda_options way = IBVCAP_INIT(struct ibvcap_cuda_options);
	struct ibvcap_cuda_batch batch = IBVCAP_INIT(struct ibvcap_cuda_batch);
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);
	uint64_t host = 0, device = 0, batches = 0;
	struct ibvcap_cuda *cuda;
	struct ibvcap_rx *rx;

	if (argc != 4)
		return 64;
	signal(SIGTERM, on_signal);
	way.way = (enum ibvcap_cuda_way)atoi(argv[3]);
	if (ibvcap_rx_open(argv[1], argv[2], &options, &rx) < 0 || ibvcap_cuda_open(rx, &way, &cuda) < 0)
		fail("open");
	load_softcuda();
	ibvcap_cuda_info(cuda, &info);
	printf("{\"way\": %u}\n", info.way);
	fflush(stdout);
	while (!stop) {
		int n = ibvcap_cuda_acquire(cuda, &batch, 64, 1, 100);

		if (n < 0 && n != -EINTR && n != -ENOBUFS) /* -ENOBUFS: the work is late */
			fail("acquire");
		if (n <= 0)
			continue;
		batches++;
		host += add_up(&batch.rows);
		if (launch_sum(NULL, batch.payload, (size_t)batch.rows.n * batch.rows.stride, &device) ||
		    ibvcap_cuda_release(cuda, &batch, NULL) < 0)
			fail("release");
	}
	if (ibvcap_cuda_close(cuda, -1) < 0)
		fail("close");
	say_end(rx, host, device, batches);
	ibvcap_rx_close(rx);
	return 0;
}
