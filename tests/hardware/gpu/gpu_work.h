// SPDX-License-Identifier: Apache-2.0
/*
 * The work on the device that gpu_measure gives it. gpu_work.cu does it by CUDA; gpu_work_soft.c by softcuda, on the
 * host, so that the measurement's flow is tested where there is no GPU. Declares gpu_work_soft.c.
 */
#ifndef TESTS_HARDWARE_GPU_WORK_H
#define TESTS_HARDWARE_GPU_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

#define GPU_WORK_STREAMS 4

/* Rows on the device, each of `bytes`, a multiple of 16; gpu_send writes what is in them. */
struct gpu_work_rows {
	uint64_t payload; /* device addresses */
	uint64_t meta;
	uint32_t n;
	uint32_t stride;
	uint32_t bytes;
};

struct gpu_work_result {
	uint64_t rows;
	uint64_t wrong; /* of rows: another length, or other words than gpu_send writes */
};

/** Is this a GPU? False: the stand-in, whose times mean nothing. */
bool gpu_work_is_real(void);
/** All of these end the program with a message if the device refuses. */
void gpu_work_init(uint32_t device);
/** A stream of the device's primary context. */
struct CUstream_st *gpu_work_stream(uint32_t i);
/** Queue a check of each word of the rows. */
void gpu_work_check(uint32_t stream, const struct gpu_work_rows *rows);
/** Copy rows from pageable memory of the host to the device, then queue the check there.
 * Returns when they are copied. */
void gpu_work_copy_and_check(uint32_t stream, const uint8_t *payload, const void *meta, size_t meta_bytes,
                             const struct gpu_work_rows *rows);
/** Wait for all work that is queued. */
struct gpu_work_result gpu_work_collect(void);

/** Read all of these batches, n_times, by one kernel each time. Seconds that it took. */
double gpu_work_read(const struct gpu_work_rows *batches, uint32_t n, uint32_t n_times);
/** Copy n_times from memory of the host to the device, and wait: seconds. */
double gpu_work_copy(const void *from, size_t bytes, uint32_t n_times);
/** Pinned memory of the host. */
void *gpu_work_pinned(size_t bytes);
/** Queue a kernel that reads the word at that device address, and wait until the host sees its answer: the word. */
uint64_t gpu_work_answer(uint32_t stream, uint64_t address);
/** Of the device's memory. */
uint64_t gpu_work_free_bytes(void);

#ifdef __cplusplus
}
#endif

/* ---- what gpu_send writes ------------------------------------------------------------------------- */

#define GPU_PACKET_TIME_AT 8 /* after the number: CLOCK_REALTIME in ns, each in 8 bytes of host order */
#define GPU_PACKET_WORDS   4 /* in 4 bytes; the pattern begins after these */

/* Word i of a packet. One of 64 depends on the packet's number, so that rows of others are noticed. */
#ifdef __CUDACC__
__host__ __device__
#endif
	static inline uint32_t
	gpu_packet_word(uint64_t number, uint32_t i)
{
	return i * 2654435761u + (i % 64 == 0 ? (uint32_t)number : 0);
}

#endif
