// SPDX-License-Identifier: Apache-2.0
/* Devices, their contexts, and the current context of each thread. */
#include "tests/softcuda/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK_MAX (sizeof(softcuda_stack) / sizeof(softcuda_stack[0]))

static bool is_device(int device)
{
	return device >= 0 && device < softcuda.n_devices && device < DEVICES_MAX;
}

SOFTCUDA_EXPORT int cuInit(unsigned int flags);
SOFTCUDA_EXPORT int cuInit(unsigned int flags)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS)
		r = flags ? INVALID_VALUE : softcuda.n_devices ? SUCCESS : NO_DEVICE;
	if (r == SUCCESS)
		softcuda.pid = getpid();
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuDriverGetVersion(int *version);
SOFTCUDA_EXPORT int cuDriverGetVersion(int *version)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS)
		*version = 13000;
	return softcuda_leave(r);
}

static int check_device(int device)
{
	if (!softcuda.pid)
		return NOT_INITIALIZED;
	return is_device(device) ? SUCCESS : INVALID_DEVICE;
}

SOFTCUDA_EXPORT int cuDeviceGetCount(int *count);
SOFTCUDA_EXPORT int cuDeviceGetCount(int *count)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS && !softcuda.pid)
		r = NOT_INITIALIZED;
	if (r == SUCCESS)
		*count = softcuda.n_devices;
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuDeviceGet(int *device, int ordinal);
SOFTCUDA_EXPORT int cuDeviceGet(int *device, int ordinal)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS)
		r = check_device(ordinal);
	if (r == SUCCESS)
		*device = ordinal;
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuDeviceGetName(char *name, int bytes, int device);
SOFTCUDA_EXPORT int cuDeviceGetName(char *name, int bytes, int device)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS)
		r = check_device(device);
	if (r == SUCCESS)
		snprintf(name, (size_t)bytes, "softcuda");
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuDeviceGetPCIBusId(char *bus, int bytes, int device);
SOFTCUDA_EXPORT int cuDeviceGetPCIBusId(char *bus, int bytes, int device)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS)
		r = check_device(device);
	if (r == SUCCESS && bytes < 13)
		r = INVALID_VALUE;
	if (r == SUCCESS)
		snprintf(bus, (size_t)bytes, "0000:%02x:00.0", (unsigned)device & 0xff);
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
SOFTCUDA_EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS)
		r = check_device(device);
	if (r == SUCCESS && (attribute <= 0 || attribute >= ATTRIBUTES_MAX))
		r = INVALID_VALUE;
	if (r == SUCCESS)
		*value = softcuda.attributes[attribute];
	return softcuda_leave(r);
}

/* ---- contexts --------------------------------------------------------------------------------------- */

static struct CUctx_st *find_context(const struct CUctx_st *context)
{
	for (struct CUctx_st *each = softcuda.contexts; each; each = each->next)
		if (each == context)
			return each;
	return NULL;
}

static struct CUctx_st *find_primary(int device)
{
	for (struct CUctx_st *each = softcuda.contexts; each; each = each->next)
		if (each->is_primary && each->device == device)
			return each;
	return NULL;
}

static struct CUctx_st *new_context(int device, bool is_primary)
{
	struct CUctx_st *context = calloc(1, sizeof(*context));

	context->device = device;
	context->is_primary = is_primary;
	softcuda_init_stream(&context->legacy, context);
	softcuda_init_stream(&context->own, context);
	context->next = softcuda.contexts;
	softcuda.contexts = context;
	return context;
}

static void free_context(struct CUctx_st *context)
{
	struct CUctx_st **each = &softcuda.contexts;
	uint64_t left = softcuda_free_streams_of(context) + softcuda_free_memory_of(context);

	if (!softcuda.lost[context->device])
		softcuda.left_behind += left;
	while (*each != context)
		each = &(*each)->next;
	*each = context->next;
	free(context);
}

SOFTCUDA_EXPORT int cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device);
SOFTCUDA_EXPORT int cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS)
		r = check_device(device);
	if (r == SUCCESS)
		r = softcuda.lost[device];
	if (r == SUCCESS) {
		*context = find_primary(device);
		if (!*context)
			*context = new_context(device, true);
		(*context)->n_retained++;
	}
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
SOFTCUDA_EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
	int r = softcuda_enter(__func__, false);
	struct CUctx_st *context;

	if (r == SUCCESS)
		r = check_device(device);
	context = r == SUCCESS ? find_primary(device) : NULL;
	if (r == SUCCESS && !context)
		r = INVALID_CONTEXT;
	if (r == SUCCESS && --context->n_retained == 0)
		free_context(context);
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device);
SOFTCUDA_EXPORT int cuCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device)
{
	int r = softcuda_enter(__func__, false);

	(void)flags;
	if (r == SUCCESS)
		r = check_device(device);
	if (r == SUCCESS && softcuda_depth == STACK_MAX)
		r = UNKNOWN;
	if (r == SUCCESS)
		softcuda_stack[softcuda_depth++] = *context = new_context(device, false);
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuCtxDestroy_v2(struct CUctx_st *context);
SOFTCUDA_EXPORT int cuCtxDestroy_v2(struct CUctx_st *context)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS && (!find_context(context) || context->is_primary))
		r = INVALID_CONTEXT;
	if (r == SUCCESS) {
		if (softcuda_current() == context)
			softcuda_depth--;
		free_context(context);
	}
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuCtxPushCurrent_v2(struct CUctx_st *context);
SOFTCUDA_EXPORT int cuCtxPushCurrent_v2(struct CUctx_st *context)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS && !find_context(context))
		r = CONTEXT_IS_DESTROYED;
	if (r == SUCCESS && softcuda_depth == STACK_MAX)
		r = UNKNOWN;
	if (r == SUCCESS)
		softcuda_stack[softcuda_depth++] = context;
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuCtxPopCurrent_v2(struct CUctx_st **context);
SOFTCUDA_EXPORT int cuCtxPopCurrent_v2(struct CUctx_st **context)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS && softcuda_depth == 0)
		r = INVALID_CONTEXT;
	if (r == SUCCESS)
		*context = softcuda_stack[--softcuda_depth];
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuCtxGetCurrent(struct CUctx_st **context);
SOFTCUDA_EXPORT int cuCtxGetCurrent(struct CUctx_st **context)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS)
		*context = softcuda_current();
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuCtxSetCurrent(struct CUctx_st *context);
SOFTCUDA_EXPORT int cuCtxSetCurrent(struct CUctx_st *context)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS && context && !find_context(context))
		r = CONTEXT_IS_DESTROYED;
	if (r == SUCCESS && softcuda_depth)
		softcuda_depth--;
	if (r == SUCCESS && context)
		softcuda_stack[softcuda_depth++] = context;
	return softcuda_leave(r);
}

/* ---- errors ----------------------------------------------------------------------------------------- */

static const struct {
	int error;
	const char *name;
	const char *text;
} errors[] = {
	{SUCCESS, "CUDA_SUCCESS", "no error"},
	{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
	{ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
         "part or all of the requested memory range is "
         "already mapped"},
	{NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
         "pointer does not correspond to a registered memory "
         "region"},
	{LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
         "operation not permitted when stream is "
         "capturing"},
	{CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
         "operation not permitted on an event last recorded in a capturing "
         "stream"},
	{UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

SOFTCUDA_EXPORT int cuGetErrorName(int error, const char **name);
SOFTCUDA_EXPORT int cuGetErrorName(int error, const char **name)
{
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].error == error) {
			*name = errors[i].name;
			return SUCCESS;
		}
	*name = NULL;
	return INVALID_VALUE;
}

SOFTCUDA_EXPORT int cuGetErrorString(int error, const char **text);
SOFTCUDA_EXPORT int cuGetErrorString(int error, const char **text)
{
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].error == error) {
			*text = errors[i].text;
			return SUCCESS;
		}
	*text = NULL;
	return INVALID_VALUE;
}
