// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the way in which the device reads the rings of a handle. It is found once for each epoch, and holds for all
 * rings of the epoch; where it fails for one that comes later, the handle goes on with the next way.
 */
#include "lib/cuda/handle.h"

#include "lib/ibvcap/client/error.h"

#include <errno.h>

/* ---- the rings of the handle ------------------------------------------------------------------------- */

static bool has_mapping(const struct cuda_ring *ring, uint64_t generation)
{
	for (unsigned i = 0; i < CUDA_RING_MAPPINGS; i++)
		if (ring->mappings[i].memory.address && ring->mappings[i].memory.generation == generation)
			return true;
	return false;
}

static bool is_ring_free(const struct cuda_ring *ring)
{
	for (unsigned i = 0; i < CUDA_RING_MAPPINGS; i++)
		if (ring->mappings[i].memory.address)
			return false;
	return true;
}

static struct cuda_ring *find_ring_of(struct ibvcap_cuda *cuda, uint64_t generation)
{
	for (uint32_t i = 0; i < cuda->n_rings; i++)
		if (has_mapping(&cuda->rings[i], generation))
			return &cuda->rings[i];
	return NULL;
}

static struct cuda_ring *take_free_ring(struct ibvcap_cuda *cuda)
{
	uint32_t i = 0;

	while (i < cuda->n_rings && !is_ring_free(&cuda->rings[i]))
		i++;
	if (i == CUDA_RINGS_MAX)
		return NULL;
	if (i == cuda->n_rings)
		cuda->n_rings++;
	cuda->rings[i] = (struct cuda_ring){0};
	return &cuda->rings[i];
}

/* Take over rings of the receive handle that are new here. The mappings of a ring come one after another. */
static int collect_rings(struct ibvcap_cuda *cuda)
{
	struct ibvcap_rx_memory memory = IBVCAP_INIT(struct ibvcap_rx_memory);
	struct cuda_ring *ring = NULL;

	for (uint32_t i = 0; ibvcap_rx_memory(cuda->rx, i, &memory) == 1; i++) {
		if (find_ring_of(cuda, memory.generation))
			continue;
		if (memory.kind == IBVCAP_RX_MEMORY_PAYLOAD)
			ring = take_free_ring(cuda);
		if (!ring)
			return error_set(-EIO, "stream '%s': the receive handle has more rings than queues",
			                 cuda->stream);
		ring->mappings[memory.kind].memory = memory;
	}
	return 0;
}

struct cuda_ring *cuda_find_ring(struct ibvcap_cuda *cuda, const void *payload)
{
	for (uint32_t i = 0; i < cuda->n_rings; i++)
		if (cuda->rings[i].way != IBVCAP_CUDA_AUTO &&
		    cuda_mapping_has(&cuda->rings[i].mappings[IBVCAP_RX_MEMORY_PAYLOAD], payload))
			return &cuda->rings[i];
	return NULL;
}

/* ---- the way --------------------------------------------------------------------------------------- */

/* Undo what a way that was given up has registered. Rings that batches read stay until their mappings go. */
static void detach_unused_rings(struct ibvcap_cuda *cuda, enum ibvcap_cuda_way way)
{
	for (uint32_t i = 0; i < cuda->n_rings; i++)
		if (cuda->rings[i].way == way && cuda->rings[i].n_batches == 0)
			cuda_ring_detach(&cuda->rings[i], &cuda->device);
}

static int attach_rings(struct ibvcap_cuda *cuda, enum ibvcap_cuda_way way)
{
	int r = 0;

	for (uint32_t i = 0; i < cuda->n_rings && r == 0; i++) {
		struct cuda_ring *ring = &cuda->rings[i];

		if (ring->way == IBVCAP_CUDA_AUTO && !is_ring_free(ring))
			r = cuda_ring_attach(ring, &cuda->device, way, cuda->piece_bytes, &cuda->why);
	}
	if (r < 0)
		detach_unused_rings(cuda, way);
	return r;
}

static int try_in_place(struct ibvcap_cuda *cuda)
{
	int r = attach_rings(cuda, IBVCAP_CUDA_IN_PLACE);

	if (r == 0)
		cuda_why_add(&cuda->why, IBVCAP_CUDA_IN_PLACE,
		             "the ring is registered read-only, and the device has read it");
	return r;
}

static int try_pageable(struct ibvcap_cuda *cuda)
{
	bool is_asked = cuda->options.way == IBVCAP_CUDA_PAGEABLE;
	const struct ibvcap_cuda_info *info = &cuda->device.info;
	int r;

	if (!is_asked && info->pageable == 1 && info->pageable_by_host_tables != 1) {
		cuda_why_add(
			&cuda->why, IBVCAP_CUDA_PAGEABLE,
			"no, the device would read by page faults (HMM), which is done only if the options ask for "
			"it");
		return -EOPNOTSUPP;
	}
	r = attach_rings(cuda, IBVCAP_CUDA_PAGEABLE);
	if (r == 0)
		cuda_why_add(&cuda->why, IBVCAP_CUDA_PAGEABLE, "the device reads the ring by %s, and has done so",
		             info->pageable_by_host_tables == 1 ? "the page tables of the host" : "page faults (HMM)");
	return r;
}

static int try_staged(struct ibvcap_cuda *cuda)
{
	int r = cuda_staging_init(&cuda->staging, &cuda->device, cuda->options.staging_bytes);

	if (r == 0)
		cuda_why_add(&cuda->why, IBVCAP_CUDA_STAGED, "rows are copied once, to %llu KiB of pinned memory",
		             (unsigned long long)(cuda->options.staging_bytes >> 10));
	return r;
}

static int try_way(struct ibvcap_cuda *cuda, enum ibvcap_cuda_way way)
{
	switch (way) {
	case IBVCAP_CUDA_IN_PLACE:
		return try_in_place(cuda);
	case IBVCAP_CUDA_PAGEABLE:
		return try_pageable(cuda);
	case IBVCAP_CUDA_STAGED:
		return try_staged(cuda);
	case IBVCAP_CUDA_AUTO:
		break;
	}
	return -EOPNOTSUPP;
}

/* In the device's context. */
static int find_way(struct ibvcap_cuda *cuda)
{
	const enum ibvcap_cuda_way only = cuda->options.way;
	unsigned way = only ? only : cuda->way ? cuda->way : IBVCAP_CUDA_IN_PLACE;
	int r = -EOPNOTSUPP;

	while (r == -EOPNOTSUPP && way <= IBVCAP_CUDA_STAGED) {
		r = try_way(cuda, way);
		if (r == 0)
			cuda->way = way;
		way = only ? IBVCAP_CUDA_STAGED + 1 : way + 1;
	}
	if (r == -EOPNOTSUPP)
		return error_set(r, "stream '%s': CUDA device %u (%s): %s", cuda->stream, cuda->device.info.device,
		                 cuda->device.info.name, cuda->why.text);
	return r;
}

int cuda_follow(struct ibvcap_cuda *cuda, uint64_t epoch)
{
	bool is_new;
	int mode, r = collect_rings(cuda);

	if (r < 0 || cuda->n_rings == 0)
		return r;
	r = cuda_device_enter(&cuda->device, &mode);
	if (r < 0)
		return r;
	is_new = epoch != cuda->epoch && epoch != cuda->last_epoch;
	if (is_new)
		cuda->way = IBVCAP_CUDA_AUTO;
	cuda->why.text[0] = '\0';
	r = find_way(cuda);
	cuda_device_leave(&cuda->device, mode);
	if (r == 0 && is_new) {
		cuda->last_epoch = cuda->epoch;
		cuda->epoch = epoch;
	}
	return r;
}

void cuda_forget_mapping(void *context, const struct ibvcap_rx_memory *memory)
{
	struct ibvcap_cuda *cuda = context;
	struct cuda_ring *ring = find_ring_of(cuda, memory->generation);
	struct cuda_mapping *mapping;

	if (!ring)
		return;
	mapping = &ring->mappings[memory->kind];
	/* The current context is no matter to cuMemHostUnregister() of portable memory where this one is gone. */
	if (mapping->registered_bytes) {
		int mode;
		bool is_in = cuda_device_push(&cuda->device, &mode) == CUDA_DRIVER_SUCCESS;

		cuda_mapping_detach(mapping, &cuda->device);
		if (is_in)
			cuda_device_leave(&cuda->device, mode);
	}
	mapping->memory.address = NULL;
}
