// SPDX-License-Identifier: Apache-2.0
/* Opens, closes and describes a receive handle with a device. */
#include "lib/cuda/handle.h"

#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/client/sized_struct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_options(struct ibvcap_cuda_options *known, const struct ibvcap_cuda_options *options)
{
	int r = options ? sized_struct_read(known, sizeof(*known), options, "ibvcap_cuda_options") : 0;

	if (r < 0)
		return r;
	if (!ibvcap_cuda_way_word(known->way))
		return error_set(-EINVAL, "way %u is no value of enum ibvcap_cuda_way", known->way);
	if (known->staging_bytes == 0)
		known->staging_bytes = CUDA_STAGING_BYTES;
	if (known->staging_bytes > UINT64_MAX / 2)
		return error_set(-EINVAL, "staging_bytes is %llu", (unsigned long long)known->staging_bytes);
	known->staging_bytes =
		(known->staging_bytes + CUDA_STAGING_ALIGN - 1) / CUDA_STAGING_ALIGN * CUDA_STAGING_ALIGN;
	return 0;
}

/* Undo what is done so far, in any state. is_here: not in a child of fork(), which has copies only. */
static void free_handle(struct ibvcap_cuda *cuda, bool is_here)
{
	if (is_here && cuda->device.context) {
		int mode;
		bool is_in = cuda_device_push(&cuda->device, &mode) == CUDA_DRIVER_SUCCESS;

		for (uint32_t i = 0; i < cuda->n_rings; i++)
			cuda_ring_detach(&cuda->rings[i], &cuda->device);
		cuda_staging_deinit(&cuda->staging, &cuda->device);
		cuda_leases_deinit(&cuda->leases, &cuda->device);
		if (is_in)
			cuda_device_leave(&cuda->device, mode);
		cuda_device_close(&cuda->device);
	} else {
		free(cuda->staging.pieces);
		cuda_leases_deinit(&cuda->leases, NULL);
	}
	owner_mark_free(cuda->owner);
	free(cuda);
}

/* Find the way at once, if there is a ring. */
static int follow_first(struct ibvcap_cuda *cuda)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	int r = ibvcap_rx_info(cuda->rx, &info);

	if (r < 0)
		return r;
	memcpy(cuda->stream, info.stream, sizeof(cuda->stream));
	if (info.flags & IBVCAP_RING_FLAG_LENT)
		return error_set(
			-EOPNOTSUPP,
			"stream '%s': its payload rows are in memory that the program lent: the device has them",
			cuda->stream);
	r = cuda_device_open(&cuda->device, cuda->options.device);
	return r == 0 ? cuda_follow(cuda, info.epoch) : r;
}

int ibvcap_cuda_open(struct ibvcap_rx *rx, const struct ibvcap_cuda_options *options, struct ibvcap_cuda **cuda)
{
	struct ibvcap_cuda_options known = IBVCAP_INIT(struct ibvcap_cuda_options);
	struct ibvcap_cuda *new;
	int r = read_options(&known, options);

	if (r < 0)
		return r;
	new = calloc(1, sizeof(*new));
	if (!new)
		return error_set(-ENOMEM, "out of memory");
	new->rx = rx;
	new->options = known;
	new->piece_bytes = CUDA_PIECE_BYTES;
	new->losses = (struct ibvcap_rx_losses)IBVCAP_INIT(struct ibvcap_rx_losses);
	r = ibvcap_rx_on_unmap(rx, cuda_forget_mapping, new);
	if (r < 0) {
		free(new);
		return r;
	}
	r = owner_mark_new(&new->owner);
	if (r == 0)
		r = follow_first(new);
	if (r < 0) {
		ibvcap_rx_on_unmap(rx, NULL, NULL);
		free_handle(new, true);
	} else {
		*cuda = new;
	}
	return r;
}

/* 0: no batch is out any more. */
static int wait_to_close(struct ibvcap_cuda *cuda, int timeout_ms)
{
	int r = cuda_wait_leases(cuda, timeout_ms);

	if (cuda->failure[0])
		return 0;
	if (cuda->leases.n_pending)
		return r;
	if (cuda->leases.n_held)
		return error_set(-EBUSY, "stream '%s': the caller holds %u batches: release them first", cuda->stream,
		                 cuda->leases.n_held);
	return 0;
}

/* Of batches that the caller still holds when the device has failed. */
static void end_held(struct ibvcap_cuda *cuda)
{
	for (uint32_t i = 0; i < cuda->leases.n_slots; i++)
		if (cuda->leases.slots[i].state == CUDA_LEASE_HELD)
			cuda_end_lease(cuda, &cuda->leases.slots[i]);
}

int ibvcap_cuda_close(struct ibvcap_cuda *cuda, int timeout_ms)
{
	bool is_here;
	int r;

	if (!cuda)
		return 0;
	is_here = owner_is_here(cuda->owner);
	if (is_here) {
		r = wait_to_close(cuda, timeout_ms);
		if (r < 0)
			return r;
		end_held(cuda);
		if (cuda->rest.n)
			ibvcap_rx_release(cuda->rx, &cuda->rest);
	}
	ibvcap_rx_on_unmap(cuda->rx, NULL, NULL);
	free_handle(cuda, is_here);
	return 0;
}

int ibvcap_cuda_poll(struct ibvcap_cuda *cuda)
{
	int r = owner_check(cuda->owner, cuda->stream);

	return r < 0 ? r : cuda_end_leases(cuda);
}

int ibvcap_cuda_wait(struct ibvcap_cuda *cuda, int timeout_ms)
{
	int r = owner_check(cuda->owner, cuda->stream);

	if (r == 0 && timeout_ms < -1)
		r = error_set(-EINVAL, "timeout_ms is %d: -1 waits for ever, 0 not at all", timeout_ms);
	return r < 0 ? r : cuda_wait_leases(cuda, timeout_ms);
}

int ibvcap_cuda_info(const struct ibvcap_cuda *cuda, struct ibvcap_cuda_info *info)
{
	struct ibvcap_cuda_info now = cuda->device.info;

	now.way = cuda->way;
	now.n_held = cuda->leases.n_held;
	now.n_pending = cuda->leases.n_pending;
	for (uint32_t i = 0; i < cuda->n_rings; i++)
		now.registered_bytes += cuda_ring_registered_bytes(&cuda->rings[i]);
	now.staging_bytes = cuda->staging.bytes;
	now.staging_used_bytes = cuda->staging.head - cuda->staging.tail;
	now.batches = cuda->batches;
	now.has_failed = cuda->failure[0] != '\0';
	memcpy(now.why, cuda->why.text, sizeof(now.why));
	return sized_struct_write(info, &now, sizeof(now), "ibvcap_cuda_info");
}
