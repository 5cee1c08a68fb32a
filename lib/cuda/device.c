// SPDX-License-Identifier: Apache-2.0
/* Opens a device of the CUDA driver, and proves that it reads memory of the host. */
#include "lib/cuda/device.h"

#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <string.h>

#define PROOF_TRIES 8 /* of a word that the network card may write meanwhile */
#define MODE_KEPT   (-1)

static uint32_t read_attribute(const struct cuda_device *device, enum cuda_driver_attribute attribute)
{
	int value;

	return device->driver.device_attribute(&value, attribute, device->number) == CUDA_DRIVER_SUCCESS
	               ? (uint32_t)value
	               : IBVCAP_CUDA_NOT_KNOWN;
}

static void describe_device(struct cuda_device *device, uint32_t number)
{
	const struct cuda_driver *driver = &device->driver;
	struct ibvcap_cuda_info *info = &device->info;
	int version = 0;

	info->size = sizeof(*info);
	info->device = number;
	driver->get_version(&version);
	info->driver_version = (uint32_t)version;
	if (driver->device_name(info->name, sizeof(info->name), device->number) != CUDA_DRIVER_SUCCESS)
		info->name[0] = '\0';
	if (driver->device_bus(info->bus, sizeof(info->bus), device->number) != CUDA_DRIVER_SUCCESS)
		info->bus[0] = '\0';
	info->host_register = read_attribute(device, CUDA_DRIVER_HOST_REGISTER_SUPPORTED);
	info->host_register_read_only = read_attribute(device, CUDA_DRIVER_READ_ONLY_HOST_REGISTER_SUPPORTED);
	info->pageable = read_attribute(device, CUDA_DRIVER_PAGEABLE_MEMORY_ACCESS);
	info->pageable_by_host_tables =
		read_attribute(device, CUDA_DRIVER_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
}

static int find_cuda_device(struct cuda_device *device, uint32_t number)
{
	const struct cuda_driver *driver = &device->driver;
	int count, result = driver->init(0);

	if (result != CUDA_DRIVER_SUCCESS)
		return cuda_driver_explain(driver, "cuInit", result);
	result = driver->device_count(&count);
	if (result != CUDA_DRIVER_SUCCESS)
		return cuda_driver_explain(driver, "cuDeviceGetCount", result);
	if (count <= 0 || number >= (uint32_t)count)
		return error_set(-ENODEV,
		                 "CUDA device %u: the driver has %d, counted from 0; nvidia-smi -L lists those of the "
		                 "machine, CUDA_VISIBLE_DEVICES those of this process",
		                 number, count);
	result = driver->device_get(&device->number, (int)number);
	if (result != CUDA_DRIVER_SUCCESS)
		return cuda_driver_explain(driver, "cuDeviceGet", result);
	return 0;
}

static int make_proof(struct cuda_device *device)
{
	const struct cuda_driver *driver = &device->driver;
	int mode, result, r = cuda_device_enter(device, &mode);

	if (r < 0)
		return r;
	result = driver->stream_create(&device->stream, CUDA_DRIVER_STREAM_NON_BLOCKING);
	if (result != CUDA_DRIVER_SUCCESS) {
		device->stream = NULL;
		r = cuda_driver_explain(driver, "cuStreamCreate", result);
	} else {
		result = driver->device_alloc(&device->word, sizeof(uint64_t));
		if (result != CUDA_DRIVER_SUCCESS) {
			device->word = 0;
			r = cuda_driver_explain(driver, "cuMemAlloc", result);
		}
	}
	cuda_device_leave(device, mode);
	return r;
}

int cuda_device_open(struct cuda_device *device, uint32_t number)
{
	int result, r;

	*device = (struct cuda_device){0};
	r = cuda_driver_load(&device->driver);
	if (r == 0)
		r = find_cuda_device(device, number);
	if (r == 0) {
		describe_device(device, number);
		result = device->driver.context_retain(&device->context, device->number);
		if (result != CUDA_DRIVER_SUCCESS) {
			device->context = NULL;
			r = cuda_driver_explain(&device->driver, "cuDevicePrimaryCtxRetain", result);
		}
	}
	if (r == 0)
		r = make_proof(device);
	if (r < 0)
		cuda_device_close(device);
	return r;
}

void cuda_device_close(struct cuda_device *device)
{
	const struct cuda_driver *driver = &device->driver;
	int mode;

	if (device->context) {
		if ((device->stream || device->word) && cuda_device_push(device, &mode) == CUDA_DRIVER_SUCCESS) {
			if (device->word)
				driver->device_free(device->word);
			if (device->stream)
				driver->stream_destroy(device->stream);
			cuda_device_leave(device, mode);
		}
		driver->context_release(device->number);
	}
	device->context = NULL;
	device->stream = NULL;
	device->word = 0;
	cuda_driver_unload(&device->driver);
}

int cuda_device_push(const struct cuda_device *device, int *mode)
{
	int result = device->driver.context_push(device->context);

	if (result != CUDA_DRIVER_SUCCESS)
		return result;
	*mode = CUDA_DRIVER_CAPTURE_RELAXED;
	/* A driver that refuses goes on refusing calls during a capture: nothing is taken for over then. */
	if (device->driver.capture_mode(mode) != CUDA_DRIVER_SUCCESS)
		*mode = MODE_KEPT;
	return CUDA_DRIVER_SUCCESS;
}

int cuda_device_enter(const struct cuda_device *device, int *mode)
{
	int result = cuda_device_push(device, mode);

	return result == CUDA_DRIVER_SUCCESS ? 0 : cuda_driver_explain(&device->driver, "cuCtxPushCurrent", result);
}

void cuda_device_leave(const struct cuda_device *device, int mode)
{
	struct CUctx_st *context;

	if (mode != MODE_KEPT)
		device->driver.capture_mode(&mode);
	device->driver.context_pop(&context);
}

/* The device's word by way of its own memory: a copy from host memory to host memory may be the CPU's. */
static int read_by_device(const struct cuda_device *device, unsigned long long address, uint64_t *word)
{
	const struct cuda_driver *driver = &device->driver;
	int result = driver->copy_on_device(device->word, address, sizeof(*word), device->stream);

	if (result != CUDA_DRIVER_SUCCESS)
		return cuda_driver_explain(driver, "cuMemcpyDtoDAsync", result);
	result = driver->copy_to_host(word, device->word, sizeof(*word), device->stream);
	if (result != CUDA_DRIVER_SUCCESS)
		return cuda_driver_explain(driver, "cuMemcpyDtoHAsync", result);
	result = driver->stream_synchronize(device->stream);
	if (result != CUDA_DRIVER_SUCCESS)
		return cuda_driver_explain(driver, "cuStreamSynchronize", result);
	return 0;
}

int cuda_device_prove(const struct cuda_device *device, const void *host, unsigned long long address)
{
	uint64_t before, after, seen;
	bool has_changed = false;

	for (unsigned i = 0; i < PROOF_TRIES; i++) {
		int r;

		memcpy(&before, host, sizeof(before));
		r = read_by_device(device, address, &seen);
		if (r < 0)
			return r;
		memcpy(&after, host, sizeof(after));
		if (seen == before || seen == after)
			return 0;
		has_changed = before != after;
	}
	/* A word that changes faster than it is read proves nothing against the device. */
	if (has_changed)
		return 0;
	return error_set(-EIO, "the device reads %#llx where the host has %#llx", (unsigned long long)seen,
	                 (unsigned long long)after);
}
