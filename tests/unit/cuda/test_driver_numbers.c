// SPDX-License-Identifier: Apache-2.0
/* The numbers and names of lib/cuda/driver.h are those of cuda.h, where there is one. */
#include "lib/cuda/driver.h"

#include <stdio.h>

#if __has_include(<cuda.h>)

#include <assert.h>
#include <cuda.h>
#include <criterion/criterion.h>

#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(CUDA_DRIVER_SUCCESS, CUDA_SUCCESS);
SAME(CUDA_DRIVER_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CUDA_DRIVER_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CUDA_DRIVER_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(CUDA_DRIVER_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CUDA_DRIVER_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(CUDA_DRIVER_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(CUDA_DRIVER_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(CUDA_DRIVER_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT);
SAME(CUDA_DRIVER_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(CUDA_DRIVER_PAGEABLE_MEMORY_ACCESS, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
SAME(CUDA_DRIVER_HOST_REGISTER_SUPPORTED, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
SAME(CUDA_DRIVER_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
     CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
SAME(CUDA_DRIVER_READ_ONLY_HOST_REGISTER_SUPPORTED, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
SAME(CUDA_DRIVER_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(CUDA_DRIVER_HOST_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(CUDA_DRIVER_HOST_READ_ONLY, CU_MEMHOSTREGISTER_READ_ONLY);
SAME(CUDA_DRIVER_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(CUDA_DRIVER_HOST_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(CUDA_DRIVER_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(CUDA_DRIVER_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
static_assert(sizeof(CUdeviceptr) == sizeof(unsigned long long), "CUdeviceptr");
static_assert(sizeof(CUdevice) == sizeof(int), "CUdevice");
static_assert(__builtin_types_compatible_p(CUstream, struct CUstream_st *), "CUstream");
static_assert(__builtin_types_compatible_p(CUevent, struct CUevent_st *), "CUevent");
static_assert(__builtin_types_compatible_p(CUcontext, struct CUctx_st *), "CUcontext");

/* cuda.h defines the name of a function as that of its version. */
#define NAME_OF(function) #function
#define NAME(function)    NAME_OF(function)

static const char *const names[] = {
	NAME(cuInit),
	NAME(cuDriverGetVersion),
	NAME(cuGetErrorName),
	NAME(cuGetErrorString),
	NAME(cuDeviceGetCount),
	NAME(cuDeviceGet),
	NAME(cuDeviceGetName),
	NAME(cuDeviceGetPCIBusId),
	NAME(cuDeviceGetAttribute),
	NAME(cuDevicePrimaryCtxRetain),
	NAME(cuDevicePrimaryCtxRelease),
	NAME(cuCtxPushCurrent),
	NAME(cuCtxPopCurrent),
	NAME(cuThreadExchangeStreamCaptureMode),
	NAME(cuMemHostRegister),
	NAME(cuMemHostUnregister),
	NAME(cuMemHostGetDevicePointer),
	NAME(cuMemHostAlloc),
	NAME(cuMemFreeHost),
	NAME(cuMemAlloc),
	NAME(cuMemFree),
	NAME(cuMemcpyDtoDAsync),
	NAME(cuMemcpyDtoHAsync),
	NAME(cuStreamCreate),
	NAME(cuStreamDestroy),
	NAME(cuStreamQuery),
	NAME(cuStreamSynchronize),
	NAME(cuStreamIsCapturing),
	NAME(cuEventCreate),
	NAME(cuEventRecord),
	NAME(cuEventQuery),
	NAME(cuEventDestroy),
};

#define OUR_NAME(member, name, parameters) name,
static const char *const ours[] = {CUDA_DRIVER_FUNCTIONS(OUR_NAME)};

Test(driver_numbers, each_function_has_the_name_that_programs_of_today_call)
{
	cr_assert_eq(sizeof(names), sizeof(ours));
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_expect_str_eq(ours[i], names[i]);
}

#else

int main(void)
{
	puts("there is no cuda.h: apt install nvidia-cuda-dev, or the toolkit in /usr/local/cuda");
	return 77;
}

#endif
