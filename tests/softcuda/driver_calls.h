// SPDX-License-Identifier: Apache-2.0
/* The functions of the CUDA driver that softcuda has, for tests that call it themselves. */
#ifndef TESTS_SOFTCUDA_DRIVER_CALLS_H
#define TESTS_SOFTCUDA_DRIVER_CALLS_H

#include <stddef.h>

struct CUctx_st;
struct CUevent_st;
struct CUstream_st;

int cuInit(unsigned int flags);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device);
int cuCtxDestroy_v2(struct CUctx_st *context);
int cuCtxPushCurrent_v2(struct CUctx_st *context);
int cuCtxPopCurrent_v2(struct CUctx_st **context);
int cuCtxGetCurrent(struct CUctx_st **context);
int cuCtxSetCurrent(struct CUctx_st *context);
int cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags);
int cuMemHostUnregister(void *host);
int cuMemHostGetDevicePointer_v2(unsigned long long *device, void *host, unsigned int flags);
int cuMemHostAlloc(void **host, size_t bytes, unsigned int flags);
int cuMemFreeHost(void *host);
int cuMemAlloc_v2(unsigned long long *device, size_t bytes);
int cuMemFree_v2(unsigned long long device);
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, struct CUstream_st *stream);
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, struct CUstream_st *stream);
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes);
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes);
int cuStreamCreate(struct CUstream_st **stream, unsigned int flags);
int cuStreamDestroy_v2(struct CUstream_st *stream);
int cuStreamSynchronize(struct CUstream_st *stream);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuStreamQuery(struct CUstream_st *stream);
int cuEventCreate(struct CUevent_st **event, unsigned int flags);
int cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream);
int cuEventQuery(struct CUevent_st *event);
int cuEventDestroy_v2(struct CUevent_st *event);

#endif
