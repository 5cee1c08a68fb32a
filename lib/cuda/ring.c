// SPDX-License-Identifier: Apache-2.0
/*
 * Registers the mappings of a ring with the driver, read-only, or proves that the device reads them by the page tables
 * of the host. A driver that accepts a registration is not believed before the device has read a word by it.
 */
#include "lib/cuda/ring.h"

#include "lib/base/min.h"
#include "lib/ibvcap/client/error.h"

#include <errno.h>

/* ---- in place ------------------------------------------------------------------------------------- */

/* The device address of the piece, which is to be as far from the mapping's as it is for the host. */
static int find_piece(struct cuda_mapping *mapping, const struct cuda_device *device, void *host, uint64_t offset)
{
	unsigned long long address;
	int result = device->driver.host_device_pointer(&address, host, 0);

	if (result != CUDA_DRIVER_SUCCESS)
		return cuda_driver_explain(&device->driver, "cuMemHostGetDevicePointer", result);
	if (offset == 0)
		mapping->device = address;
	if (address != mapping->device + offset)
		return error_set(-EIO, "cuMemHostGetDevicePointer: a second piece of the ring is not behind the first");
	return cuda_device_prove(device, host, address);
}

static int register_pieces(struct cuda_mapping *mapping, const struct cuda_device *device, uint64_t piece_bytes)
{
	const unsigned int flags = CUDA_DRIVER_HOST_PORTABLE | CUDA_DRIVER_HOST_DEVICEMAP | CUDA_DRIVER_HOST_READ_ONLY;

	mapping->piece_bytes = piece_bytes;
	while (mapping->registered_bytes < mapping->memory.bytes) {
		uint64_t offset = mapping->registered_bytes;
		uint64_t bytes = u64_min(mapping->memory.bytes - offset, piece_bytes);
		void *host = (uint8_t *)mapping->memory.address + offset;
		int r, result = device->driver.host_register(host, bytes, flags);

		if (result != CUDA_DRIVER_SUCCESS)
			return cuda_driver_explain(&device->driver, "cuMemHostRegister(READ_ONLY)", result);
		mapping->registered_bytes += bytes;
		r = find_piece(mapping, device, host, offset);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- pageable ------------------------------------------------------------------------------------- */

static int read_pageable(struct cuda_mapping *mapping, const struct cuda_device *device)
{
	mapping->device = (uintptr_t)mapping->memory.address;
	return cuda_device_prove(device, mapping->memory.address, mapping->device);
}

/* ---- a ring --------------------------------------------------------------------------------------- */

static int attach_mappings(struct cuda_ring *ring, const struct cuda_device *device, enum ibvcap_cuda_way way,
                           uint64_t piece_bytes)
{
	int r = 0;

	for (unsigned i = 0; i < CUDA_RING_MAPPINGS && r == 0; i++) {
		struct cuda_mapping *mapping = &ring->mappings[i];

		if (mapping->memory.address)
			r = way == IBVCAP_CUDA_IN_PLACE ? register_pieces(mapping, device, piece_bytes)
			                                : read_pageable(mapping, device);
	}
	return r;
}

/* The device's own answer, before the driver is asked for more. */
static int check_attribute(const struct cuda_device *device, enum ibvcap_cuda_way way, struct cuda_why *why)
{
	const struct ibvcap_cuda_info *info = &device->info;

	if (way == IBVCAP_CUDA_IN_PLACE && info->host_register_read_only != 1) {
		cuda_why_add(why, way,
		             "no, this device registers no read-only memory (READ_ONLY_HOST_REGISTER_SUPPORTED is %d)",
		             (int)info->host_register_read_only);
		return -EOPNOTSUPP;
	}
	if (way == IBVCAP_CUDA_PAGEABLE && info->pageable != 1) {
		cuda_why_add(why, way, "no, this device reads only registered memory (PAGEABLE_MEMORY_ACCESS is %d)",
		             (int)info->pageable);
		return -EOPNOTSUPP;
	}
	return 0;
}

int cuda_ring_attach(struct cuda_ring *ring, const struct cuda_device *device, enum ibvcap_cuda_way way,
                     uint64_t piece_bytes, struct cuda_why *why)
{
	int r = check_attribute(device, way, why);

	if (r < 0)
		return r;
	r = attach_mappings(ring, device, way, piece_bytes);
	if (r == 0) {
		ring->way = way;
		return 0;
	}
	cuda_why_add(why, way, "no, %s", ibvcap_error_text());
	cuda_ring_detach(ring, device);
	return -EOPNOTSUPP;
}

void cuda_mapping_detach(struct cuda_mapping *mapping, const struct cuda_device *device)
{
	uint64_t offset = 0;

	while (offset < mapping->registered_bytes) {
		void *host = (uint8_t *)mapping->memory.address + offset;

		device->driver.host_unregister(host);
		offset += u64_min(mapping->registered_bytes - offset, mapping->piece_bytes);
	}
	mapping->registered_bytes = 0;
	mapping->device = 0;
}

void cuda_ring_detach(struct cuda_ring *ring, const struct cuda_device *device)
{
	for (unsigned i = 0; i < CUDA_RING_MAPPINGS; i++)
		cuda_mapping_detach(&ring->mappings[i], device);
	ring->way = IBVCAP_CUDA_AUTO;
}

uint64_t cuda_ring_registered_bytes(const struct cuda_ring *ring)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < CUDA_RING_MAPPINGS; i++)
		bytes += ring->mappings[i].registered_bytes;
	return bytes;
}
