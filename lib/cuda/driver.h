// SPDX-License-Identifier: Apache-2.0
/*
 * The functions of the CUDA driver that this library calls, loaded by name from libcuda.so.1. Names and numbers are the
 * ABI of the driver, so the build needs no cuda.h; tests/unit/cuda compares them with one if there is one.
 */
#ifndef IBVCAP_CUDA_DRIVER_H
#define IBVCAP_CUDA_DRIVER_H

#include <ibvcap/cuda.h>
#include <stddef.h>
#include <stdint.h>

struct CUctx_st;
struct CUevent_st;

/* Values of CUresult that the library tells apart. */
enum cuda_driver_result {
	CUDA_DRIVER_SUCCESS = 0,
	CUDA_DRIVER_OUT_OF_MEMORY = 2,
	CUDA_DRIVER_NO_DEVICE = 100,
	CUDA_DRIVER_INVALID_DEVICE = 101,
	CUDA_DRIVER_NOT_READY = 600,
	/* Of a device that works: a stream is being captured into a graph, or the event was recorded by a capture. */
	CUDA_DRIVER_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_DRIVER_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_DRIVER_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_DRIVER_CAPTURED_EVENT = 907,
};

/* A value of CUstreamCaptureMode: captures of this and of other threads forbid the thread no calls. */
#define CUDA_DRIVER_CAPTURE_RELAXED 2

/* Values of CUdevice_attribute. */
enum cuda_driver_attribute {
	CUDA_DRIVER_PAGEABLE_MEMORY_ACCESS = 88,
	CUDA_DRIVER_HOST_REGISTER_SUPPORTED = 99,
	CUDA_DRIVER_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
	CUDA_DRIVER_READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
};

/* Of cuMemHostRegister() and, the first two, of cuMemHostAlloc(). */
enum cuda_driver_host_flag {
	CUDA_DRIVER_HOST_PORTABLE = 1 << 0,
	CUDA_DRIVER_HOST_DEVICEMAP = 1 << 1,
	CUDA_DRIVER_HOST_READ_ONLY = 1 << 3,
};

#define CUDA_DRIVER_STREAM_NON_BLOCKING  1u
#define CUDA_DRIVER_EVENT_DISABLE_TIMING 2u

/* X(member, name in the library, parameters). Each function returns a CUresult. */
#define CUDA_DRIVER_FUNCTIONS(X)                                                                      \
	X(init, "cuInit", (unsigned int flags))                                                       \
	X(get_version, "cuDriverGetVersion", (int *version))                                          \
	X(get_error_name, "cuGetErrorName", (int error, const char **name))                           \
	X(get_error_string, "cuGetErrorString", (int error, const char **text))                       \
	X(device_count, "cuDeviceGetCount", (int *count))                                             \
	X(device_get, "cuDeviceGet", (int *device, int ordinal))                                      \
	X(device_name, "cuDeviceGetName", (char *name, int bytes, int device))                        \
	X(device_bus, "cuDeviceGetPCIBusId", (char *bus, int bytes, int device))                      \
	X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))          \
	X(context_retain, "cuDevicePrimaryCtxRetain", (struct CUctx_st * *context, int device))       \
	X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                              \
	X(context_push, "cuCtxPushCurrent_v2", (struct CUctx_st * context))                           \
	X(context_pop, "cuCtxPopCurrent_v2", (struct CUctx_st * *context))                            \
	X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                             \
	X(host_register, "cuMemHostRegister_v2", (void *host, size_t bytes, unsigned int flags))      \
	X(host_unregister, "cuMemHostUnregister", (void *host))                                       \
	X(host_device_pointer, "cuMemHostGetDevicePointer_v2",                                        \
	  (unsigned long long *device, void *host, unsigned int flags))                               \
	X(host_alloc, "cuMemHostAlloc", (void **host, size_t bytes, unsigned int flags))              \
	X(host_free, "cuMemFreeHost", (void *host))                                                   \
	X(device_alloc, "cuMemAlloc_v2", (unsigned long long *device, size_t bytes))                  \
	X(device_free, "cuMemFree_v2", (unsigned long long device))                                   \
	X(copy_on_device, "cuMemcpyDtoDAsync_v2",                                                     \
	  (unsigned long long to, unsigned long long from, size_t bytes, struct CUstream_st *stream)) \
	X(copy_to_host, "cuMemcpyDtoHAsync_v2",                                                       \
	  (void *to, unsigned long long from, size_t bytes, struct CUstream_st *stream))              \
	X(stream_create, "cuStreamCreate", (struct CUstream_st * *stream, unsigned int flags))        \
	X(stream_destroy, "cuStreamDestroy_v2", (struct CUstream_st * stream))                        \
	X(stream_query, "cuStreamQuery", (struct CUstream_st * stream))                               \
	X(stream_synchronize, "cuStreamSynchronize", (struct CUstream_st * stream))                   \
	X(stream_is_capturing, "cuStreamIsCapturing", (struct CUstream_st * stream, int *status))     \
	X(event_create, "cuEventCreate", (struct CUevent_st * *event, unsigned int flags))            \
	X(event_record, "cuEventRecord", (struct CUevent_st * event, struct CUstream_st * stream))    \
	X(event_query, "cuEventQuery", (struct CUevent_st * event))                                   \
	X(event_destroy, "cuEventDestroy_v2", (struct CUevent_st * event))

struct cuda_driver {
	void *library; /* NULL: not loaded */
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration takes none there */
#define CUDA_DRIVER_MEMBER(member, name, parameters) int(*member) parameters;
	CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_MEMBER)
#undef CUDA_DRIVER_MEMBER
};

/** Load the library and all of its functions. 0; -ENOSYS the library or a function is missing: the text says which. */
int cuda_driver_load(struct cuda_driver *driver);

/** No effect if it is not loaded. */
void cuda_driver_unload(struct cuda_driver *driver);

/** Write "cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected". */
void cuda_driver_describe(const struct cuda_driver *driver, const char *function, int result, char *text, size_t bytes);

/** Set the error text to that. -ENOMEM, -ENODEV or, of all other errors, -EIO. */
int cuda_driver_explain(const struct cuda_driver *driver, const char *function, int result);

#endif
