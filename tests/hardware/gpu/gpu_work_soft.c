// SPDX-License-Identifier: Apache-2.0
/* The work on the device, by softcuda: the host does it when its stream comes to it. */
#include "tests/hardware/gpu/gpu_work.h"

#include "tests/softcuda/driver_calls.h"
#include "tests/softcuda/softcuda.h"

#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMHOSTALLOC_PORTABLE 1u

static struct CUstream_st *streams[GPU_WORK_STREAMS];
static struct gpu_work_result result;

static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "gpu_measure: %s: softcuda says %d\n", what, error);
		exit(1);
	}
}

static const void *host_of(uint64_t address)
{
	return (const void *)(uintptr_t)address;
}

bool gpu_work_is_real(void)
{
	return false;
}

void gpu_work_init(uint32_t device)
{
	struct CUctx_st *context;

	must(cuInit(0), "the driver");
	must(cuDevicePrimaryCtxRetain(&context, (int)device), "the device");
	must(cuCtxPushCurrent_v2(context), "the context");
	for (uint32_t i = 0; i < GPU_WORK_STREAMS; i++)
		must(cuStreamCreate(&streams[i], 1), "a stream");
}

struct CUstream_st *gpu_work_stream(uint32_t i)
{
	return streams[i];
}

static void check_on_host(void *context)
{
	struct gpu_work_rows *rows = context;
	const struct ibvcap_meta *meta = host_of(rows->meta);

	for (uint32_t i = 0; i < rows->n; i++) {
		const uint8_t *row = (const uint8_t *)host_of(rows->payload) + (size_t)i * rows->stride;
		bool wrong = meta[i].length != rows->bytes;
		uint64_t number;
		uint32_t word;

		memcpy(&number, row, sizeof(number));
		for (uint32_t k = GPU_PACKET_WORDS; k < rows->bytes / 4 && !wrong; k++) {
			memcpy(&word, row + 4 * (size_t)k, sizeof(word));
			wrong = word != gpu_packet_word(number, k);
		}
		result.rows++;
		result.wrong += wrong;
	}
	free(rows);
}

void gpu_work_check(uint32_t stream, const struct gpu_work_rows *rows)
{
	struct gpu_work_rows *copy = malloc(sizeof(*copy));

	if (!copy)
		abort();
	*copy = *rows;
	must(softcuda_launch(streams[stream], check_on_host, copy), "a launch");
}

void gpu_work_copy_and_check(uint32_t stream, const uint8_t *payload, const void *meta, size_t meta_bytes,
                             const struct gpu_work_rows *rows)
{
	struct gpu_work_rows on_host = *rows;

	(void)meta_bytes;
	on_host.payload = (uintptr_t)payload;
	on_host.meta = (uintptr_t)meta;
	gpu_work_check(stream, &on_host);
	must(cuStreamSynchronize(streams[stream]), "a stream");
}

struct gpu_work_result gpu_work_collect(void)
{
	for (uint32_t i = 0; i < GPU_WORK_STREAMS; i++)
		must(cuStreamSynchronize(streams[i]), "a stream");
	return result;
}

double gpu_work_read(const struct gpu_work_rows *batches, uint32_t n, uint32_t n_times)
{
	(void)n_times;
	for (uint32_t i = 0; i < n; i++)
		gpu_work_check(0, &batches[i]);
	must(cuStreamSynchronize(streams[0]), "a stream");
	return 1;
}

double gpu_work_copy(const void *from, size_t bytes, uint32_t n_times)
{
	(void)from;
	(void)bytes;
	(void)n_times;
	return 1;
}

void *gpu_work_pinned(size_t bytes)
{
	void *memory;

	must(cuMemHostAlloc(&memory, bytes, MEMHOSTALLOC_PORTABLE), "pinned memory");
	return memory;
}

uint64_t gpu_work_answer(uint32_t stream, uint64_t address)
{
	uint64_t word;

	must(cuStreamSynchronize(streams[stream]), "a stream");
	memcpy(&word, host_of(address), sizeof(word));
	return word;
}

uint64_t gpu_work_free_bytes(void)
{
	return softcuda_count().device_allocations ? 0 : 1;
}
