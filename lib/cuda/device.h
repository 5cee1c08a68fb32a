// SPDX-License-Identifier: Apache-2.0
/* A CUDA device, its primary context, and the proof that it reads what the host wrote. */
#ifndef IBVCAP_CUDA_DEVICE_H
#define IBVCAP_CUDA_DEVICE_H

#include "lib/cuda/driver.h"

struct cuda_device {
	struct cuda_driver driver;
	struct ibvcap_cuda_info info; /* what the driver says of the device; the rest is 0 */
	int number;                   /* as the driver counts */
	struct CUctx_st *context;     /* retained; NULL: not yet */
	/* For proofs. The stream waits for no work of the program. */
	struct CUstream_st *stream;
	unsigned long long word;
};

/** Load the driver and retain the device's primary context. Errors of ibvcap_cuda_open(); nothing is left then. */
int cuda_device_open(struct cuda_device *device, uint32_t number);

/** Release it. Allowed in any state, also twice, and of a device that has failed. */
void cuda_device_close(struct cuda_device *device);

/**
 * Make the primary context the calling thread's current one, until the thread leaves it. Meanwhile no capture into a
 * graph forbids the thread a call, and no call spoils a capture. *mode is for cuda_device_leave(). 0 or -EIO.
 */
int cuda_device_enter(const struct cuda_device *device, int *mode);
/** The same with the result of the driver, and without an error text. */
int cuda_device_push(const struct cuda_device *device, int *mode);
void cuda_device_leave(const struct cuda_device *device, int mode);

/**
 * Let the device copy the first eight bytes at that device address, and compare them with the host's. In the context.
 * 0; -EIO with its text.
 */
int cuda_device_prove(const struct cuda_device *device, const void *host, unsigned long long address);

#endif
