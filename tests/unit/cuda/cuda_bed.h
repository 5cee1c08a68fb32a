// SPDX-License-Identifier: Apache-2.0
/* A receive handle with a ring in this process, a device of softcuda, and CUDA streams of the test. */
#ifndef TESTS_UNIT_CUDA_CUDA_BED_H
#define TESTS_UNIT_CUDA_CUDA_BED_H

#include "tests/softcuda/driver_calls.h"
#include "tests/softcuda/softcuda.h"
#include "tests/unit/ibvcap/attached.h"

#include <ibvcap/cuda.h>

#define BED_STREAMS 3

struct cuda_bed {
	struct attached a;    /* the ring that the handle begins with */
	struct attached b;    /* of the next daemon: see bed_next_daemon() */
	struct ibvcap_rx *rx; /* NULL: closed */
	struct ibvcap_cuda *cuda;
	struct CUctx_st *context;
	struct CUstream_st *streams[BED_STREAMS];
	char directory[32];
	char path[64];
	int listener;
	bool has_next;
};

/** A receive handle, and the streams. Asserts. */
void bed_init(struct cuda_bed *bed);
/** Open the handle with a device, in that way. Asserts. */
void bed_open(struct cuda_bed *bed, enum ibvcap_cuda_way way);
/** Close what is open. Asserts that the driver has nothing of the library's left. */
void bed_deinit(struct cuda_bed *bed);

/** After the loss of the device: close the handle, and make a context anew, as a process that starts again. */
void bed_revive_device(struct cuda_bed *bed);

/** The daemon of a ends, and the next one waits, with ring b, for the handle's request. */
void bed_end_daemon(struct cuda_bed *bed);
/** Answer the request of the handle, which the handle has made. False: it has made none so far. */
bool bed_next_daemon(struct cuda_bed *bed);

/** Queue a kernel that reads the batch: its rows, headers and meta. */
void bed_read(struct cuda_bed *bed, const struct ibvcap_cuda_batch *batch, unsigned stream, uint64_t *sum);
/** The sum that it has to find, by the host's view. */
uint64_t bed_sum(const struct ibvcap_cuda_batch *batch);

/** Leases of the ring that the consumer holds, as the daemon sees them. */
unsigned bed_count_leases(const struct attached *attached);

/** published = delivered + skipped + lag. Asserts. */
void bed_check_counts(const struct cuda_bed *bed);

struct ibvcap_cuda_info bed_info(const struct cuda_bed *bed);

#endif
