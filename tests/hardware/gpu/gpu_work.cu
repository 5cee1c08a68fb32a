// SPDX-License-Identifier: Apache-2.0
/* The work on the device, by CUDA's runtime. */
#include "tests/hardware/gpu/gpu_work.h"

#include <ibvcap/cuda_place.cuh>

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

static const uint32_t kBlocks = 1056, kThreads = 256; /* eight blocks for each of an H200's multiprocessors */

static cudaStream_t streams[GPU_WORK_STREAMS];
static unsigned long long *counts; /* rows, wrong, and a sum that no compiler may leave out */
static unsigned long long *answer_on_device;
static volatile unsigned long long *answer;
static gpu_work_rows *batches_on_device;
static uint8_t *copied;
static size_t copied_bytes;

static void must(cudaError_t error, const char *what)
{
	if (error != cudaSuccess) {
		fprintf(stderr, "gpu_measure: %s: %s\n", what, cudaGetErrorString(error));
		exit(1);
	}
}

/* A warp a row. */
__global__ void check_rows(gpu_work_rows rows, unsigned long long *counts)
{
	const uint32_t lane = threadIdx.x % 32, n_warps = gridDim.x * blockDim.x / 32;

	for (uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < rows.n; i += n_warps) {
		const uint8_t *row = (const uint8_t *)rows.payload + (size_t)i * rows.stride;
		const ibvcap_device_meta *meta = (const ibvcap_device_meta *)rows.meta + i;
		const unsigned long long number = *(const unsigned long long *)row;
		bool wrong = meta->length != rows.bytes;

		for (uint32_t k = GPU_PACKET_WORDS / 4 + lane; k < rows.bytes / 16; k += 32) {
			const uint4 words = ((const uint4 *)row)[k];

			wrong |= words.x != gpu_packet_word(number, 4 * k) ||
			         words.y != gpu_packet_word(number, 4 * k + 1) ||
			         words.z != gpu_packet_word(number, 4 * k + 2) ||
			         words.w != gpu_packet_word(number, 4 * k + 3);
		}
		wrong = __any_sync(~0u, wrong);
		if (lane == 0) {
			atomicAdd(&counts[0], 1ull);
			atomicAdd(&counts[1], (unsigned long long)wrong);
		}
	}
}

/* All rows of all batches, a warp each; batches have the same geometry, and per_batch rows. */
__global__ void read_rows(const gpu_work_rows *batches, uint32_t n, uint32_t per_batch, unsigned long long *counts)
{
	const uint32_t lane = threadIdx.x % 32, n_warps = gridDim.x * blockDim.x / 32;
	uint32_t sum = 0;

	for (uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < n * per_batch; i += n_warps) {
		const gpu_work_rows *batch = &batches[i / per_batch];
		const uint4 *row =
			(const uint4 *)((const uint8_t *)batch->payload + (size_t)(i % per_batch) * batch->stride);

#pragma unroll 4
		for (uint32_t k = lane; k < batch->bytes / 16; k += 32) {
			const uint4 words = row[k];

			sum += words.x + words.y + words.z + words.w;
		}
	}
	for (int offset = 16; offset > 0; offset /= 2)
		sum += __shfl_down_sync(~0u, sum, offset);
	if (lane == 0)
		atomicAdd(&counts[2], (unsigned long long)sum);
}

__global__ void answer_word(const unsigned long long *word, volatile unsigned long long *answer)
{
	*answer = *word;
	__threadfence_system();
}

bool gpu_work_is_real(void)
{
	return true;
}

void gpu_work_init(uint32_t device)
{
	void *mapped;

	must(cudaSetDevice((int)device), "the device");
	for (cudaStream_t &stream : streams)
		must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
	must(cudaMalloc(&counts, 3 * sizeof(*counts)), "memory");
	must(cudaMemset(counts, 0, 3 * sizeof(*counts)), "memory");
	must(cudaMalloc(&batches_on_device, 64 * sizeof(*batches_on_device)), "memory");
	must(cudaHostAlloc(&mapped, sizeof(*answer), cudaHostAllocMapped), "mapped memory");
	answer = (volatile unsigned long long *)mapped;
	must(cudaHostGetDevicePointer((void **)&answer_on_device, mapped, 0), "mapped memory");
}

struct CUstream_st *gpu_work_stream(uint32_t i)
{
	return streams[i];
}

void gpu_work_check(uint32_t stream, const struct gpu_work_rows *rows)
{
	check_rows<<<(rows->n + 7) / 8, kThreads, 0, streams[stream]>>>(*rows, counts);
	must(cudaGetLastError(), "a kernel");
}

void gpu_work_copy_and_check(uint32_t stream, const uint8_t *payload, const void *meta, size_t meta_bytes,
                             const struct gpu_work_rows *rows)
{
	const size_t payload_bytes = (size_t)rows->n * rows->stride,
		     needed = (payload_bytes + 15) / 16 * 16 + meta_bytes;
	gpu_work_rows on_device = *rows;

	/* One buffer: the copy waits for the check before it, as copies from pageable memory wait anyway. */
	if (needed > copied_bytes) {
		must(cudaDeviceSynchronize(), "the work on the device");
		cudaFree(copied);
		must(cudaMalloc(&copied, needed), "memory");
		copied_bytes = needed;
	}
	must(cudaMemcpyAsync(copied, payload, payload_bytes, cudaMemcpyHostToDevice, streams[stream]), "a copy");
	must(cudaMemcpyAsync(copied + needed - meta_bytes, meta, meta_bytes, cudaMemcpyHostToDevice, streams[stream]),
	     "a copy");
	must(cudaStreamSynchronize(streams[stream]), "a copy");
	on_device.payload = (uint64_t)copied;
	on_device.meta = (uint64_t)copied + needed - meta_bytes;
	gpu_work_check(stream, &on_device);
}

struct gpu_work_result gpu_work_collect(void)
{
	unsigned long long found[2];

	must(cudaDeviceSynchronize(), "the work on the device");
	must(cudaMemcpy(found, counts, sizeof(found), cudaMemcpyDeviceToHost), "the result");
	return {found[0], found[1]};
}

static double now(void)
{
	timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

double gpu_work_read(const struct gpu_work_rows *batches, uint32_t n, uint32_t n_times)
{
	double start;

	must(cudaMemcpy(batches_on_device, batches, n * sizeof(*batches), cudaMemcpyHostToDevice), "a copy");
	read_rows<<<kBlocks, kThreads, 0, streams[0]>>>(batches_on_device, n, batches[0].n, counts);
	must(cudaStreamSynchronize(streams[0]), "a kernel that reads the rows");
	start = now();
	for (uint32_t i = 0; i < n_times; i++)
		read_rows<<<kBlocks, kThreads, 0, streams[0]>>>(batches_on_device, n, batches[0].n, counts);
	must(cudaStreamSynchronize(streams[0]), "a kernel that reads the rows");
	return now() - start;
}

double gpu_work_copy(const void *from, size_t bytes, uint32_t n_times)
{
	void *to;
	double start;

	must(cudaMalloc(&to, bytes), "memory");
	must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "a copy");
	start = now();
	for (uint32_t i = 0; i < n_times; i++)
		must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, streams[0]), "a copy");
	must(cudaStreamSynchronize(streams[0]), "a copy");
	start = now() - start;
	cudaFree(to);
	return start;
}

void *gpu_work_pinned(size_t bytes)
{
	void *memory;

	must(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "pinned memory");
	return memory;
}

uint64_t gpu_work_answer(uint32_t stream, uint64_t address)
{
	*answer = 0;
	answer_word<<<1, 1, 0, streams[stream]>>>((const unsigned long long *)address, answer_on_device);
	must(cudaGetLastError(), "a kernel");
	while (*answer == 0)
		if (cudaStreamQuery(streams[stream]) != cudaErrorNotReady) {
			must(cudaStreamSynchronize(streams[stream]), "a kernel that answers");
			break;
		}
	return *answer;
}

uint64_t gpu_work_free_bytes(void)
{
	size_t free_bytes, all;

	must(cudaMemGetInfo(&free_bytes, &all), "the device's memory");
	return free_bytes;
}
