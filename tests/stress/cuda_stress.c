// SPDX-License-Identifier: Apache-2.0
/*
 * A worker overwrites a tiny ring as fast as it can, a consumer hands its batches to a CUDA device of softcuda, and the
 * device, a thread of its own, reads them late. A block that is used again under a lease is a wrong sum here, and to
 * ThreadSanitizer a race. Exit 0: the device read what the host saw, and every packet is accounted for.
 *
 *     cuda_stress [SECONDS]
 */
#include "daemon/ring/rx_ring.h"
#include "tests/softcuda/driver_calls.h"
#include "tests/softcuda/softcuda.h"
#include "tests/support/consumers.h"
#include "tests/support/readers.h"
#include "tests/support/small_ring.h"

#include <errno.h>
#include <ibvcap/cuda.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUOTA   4u
#define STREAMS 3

static struct rx_ring ring;
static struct ring_consumer consumer;
static struct test_reader reader;
static _Atomic bool end;
static uint64_t host_sum, device_sums[STREAMS], n_batches;

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "cuda_stress: %s: %s\n", what, ibvcap_error_text());
	exit(EXIT_FAILURE);
}

static void *publish(void *unused)
{
	struct rx_span span;

	(void)unused;
	while (!atomic_load(&end)) {
		rx_ring_post_span(&ring, 16, &span);
		for (uint32_t i = 0; i < span.n; i++) {
			memset(span.payload + (size_t)i * ring.ring->row_stride, (int)(span.sequence + i), 100);
			span.meta[i] = (struct ibvcap_meta){.length = 100, .header_length = 42};
		}
		if (span.n)
			rx_ring_publish(&ring, span.n);
		sched_yield();
	}
	return NULL;
}

static void *run_device(void *unused)
{
	(void)unused;
	while (!atomic_load(&end)) {
		softcuda_run((void *)-1, 3);
		nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
	}
	return NULL;
}

static uint64_t add_up(const struct ibvcap_rx_batch *rows)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < (size_t)rows->n * rows->stride; i++)
		sum += rows->payload[i];
	return sum;
}

static void consume(enum ibvcap_cuda_way way, time_t seconds)
{
	const struct ibvcap_cuda_options options = {.size = sizeof(options), .way = way, .staging_bytes = 65536};
	struct ibvcap_cuda_batch batch = IBVCAP_INIT(struct ibvcap_cuda_batch);
	struct CUstream_st *streams[STREAMS];
	time_t until = time(NULL) + seconds;
	struct ibvcap_cuda *cuda;

	for (unsigned i = 0; i < STREAMS; i++)
		require(cuStreamCreate(&streams[i], 1) == 0, "cuStreamCreate");
	require(ibvcap_cuda_open(&reader.rx, &options, &cuda) == 0, "open");
	while (time(NULL) < until) {
		unsigned stream = (unsigned)(n_batches % STREAMS);
		int r = ibvcap_cuda_acquire(cuda, &batch, 1 + (uint32_t)(n_batches % 64), 1, 1);

		require(r >= 0 || r == -ENOBUFS, "acquire");
		if (r <= 0)
			continue;
		n_batches++;
		host_sum += add_up(&batch.rows);
		require(softcuda_launch_sum(streams[stream], batch.payload, (size_t)batch.rows.n * batch.rows.stride,
		                            &device_sums[stream]) == 0,
		        "launch");
		require(ibvcap_cuda_release(cuda, &batch, streams[stream]) == 0, "release");
	}
	require(ibvcap_cuda_close(cuda, -1) == 0, "close");
	for (unsigned i = 0; i < STREAMS; i++)
		require(cuStreamDestroy_v2(streams[i]) == 0, "cuStreamDestroy");
}

static void set_up(void)
{
	struct rx_ring_options options = small_ring();
	struct CUctx_st *context;

	options.spare_blocks = options.lease_blocks_max = QUOTA;
	require(rx_ring_init(&ring, &options, NULL) == 0, "no ring");
	require(test_consumer_init(&consumer, QUOTA) == 0 && rx_ring_add_consumer(&ring, &consumer) == 0,
	        "no consumer");
	require(test_reader_init(&reader, &ring, &consumer) == 0, "out of memory");
	reader.queue.payload.bytes = ring.payload.bytes;
	reader.queue.headers.bytes = ring.headers.bytes;
	reader.queue.ring_shm = (struct shm){.address = ring.ring_shm.address, .bytes = ring.ring_shm.bytes, .fd = -1};
	require(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxPushCurrent_v2(context) == 0,
	        "no softcuda");
	softcuda_set_hold(true);
}

int main(int argc, char **argv)
{
	const time_t seconds = argc > 1 ? atoi(argv[1]) : 2;
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	uint64_t device_sum = 0;
	pthread_t worker, device;

	set_up();
	pthread_create(&worker, NULL, publish, NULL);
	pthread_create(&device, NULL, run_device, NULL);
	consume(IBVCAP_CUDA_IN_PLACE, (seconds + 1) / 2);
	consume(IBVCAP_CUDA_STAGED, (seconds + 1) / 2);
	atomic_store(&end, true);
	pthread_join(worker, NULL);
	pthread_join(device, NULL);
	ibvcap_rx_counts(&reader.rx, &counts);
	for (unsigned i = 0; i < STREAMS; i++)
		device_sum += device_sums[i];
	printf("%llu batches, %llu packets delivered, %llu skipped\n", (unsigned long long)n_batches,
	       (unsigned long long)counts.delivered, (unsigned long long)counts.skipped);
	require(n_batches > 0 && host_sum == device_sum, "the device read other bytes than the host");
	require(counts.published == counts.delivered + counts.skipped + counts.lag, "counts");
	require(softcuda_count().registrations == 0 && softcuda_count().events == 0, "something is left");
	test_reader_deinit(&reader);
	test_consumer_deinit(&consumer);
	rx_ring_deinit(&ring);
	return 0;
}
