// SPDX-License-Identifier: Apache-2.0
/* The table of the batches that are out, with an event for each. */
#include "lib/cuda/lease.h"

#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <stdlib.h>

#define SLOTS_MIN 16u

static int grow_slots(struct cuda_leases *leases)
{
	uint32_t n = leases->n_slots ? 2 * leases->n_slots : SLOTS_MIN;
	uint32_t *pending = reallocarray(leases->pending, n, sizeof(*pending));
	struct cuda_lease *slots;

	if (!pending)
		return error_set(-ENOMEM, "out of memory");
	leases->pending = pending;
	slots = reallocarray(leases->slots, n, sizeof(*slots));
	if (!slots)
		return error_set(-ENOMEM, "out of memory");
	for (uint32_t i = leases->n_slots; i < n; i++)
		slots[i] = (struct cuda_lease){0};
	leases->slots = slots;
	leases->n_slots = n;
	return 0;
}

int cuda_leases_prepare(struct cuda_leases *leases, const struct cuda_device *device, uint32_t *slot)
{
	uint32_t i = 0;
	int mode, result, r = leases->n_held + leases->n_pending < leases->n_slots ? 0 : grow_slots(leases);

	if (r < 0)
		return r;
	while (leases->slots[i].state != CUDA_LEASE_FREE)
		i++;
	*slot = i;
	if (leases->slots[i].event)
		return 0;
	r = cuda_device_enter(device, &mode);
	if (r < 0)
		return r;
	result = device->driver.event_create(&leases->slots[i].event, CUDA_DRIVER_EVENT_DISABLE_TIMING);
	cuda_device_leave(device, mode);
	if (result == CUDA_DRIVER_SUCCESS)
		return 0;
	leases->slots[i].event = NULL;
	return cuda_driver_explain(&device->driver, "cuEventCreate", result);
}

uint64_t cuda_leases_hand_out(struct cuda_leases *leases, uint32_t slot)
{
	struct cuda_lease *lease = &leases->slots[slot];

	lease->state = CUDA_LEASE_HELD;
	lease->serial++;
	leases->n_held++;
	return (uint64_t)lease->serial << 32 | slot;
}

struct cuda_lease *cuda_leases_find_held(const struct cuda_leases *leases, uint64_t ticket)
{
	uint32_t slot = (uint32_t)ticket;

	if (slot >= leases->n_slots || leases->slots[slot].state != CUDA_LEASE_HELD ||
	    leases->slots[slot].serial != ticket >> 32)
		return NULL;
	return &leases->slots[slot];
}

void cuda_leases_set_pending(struct cuda_leases *leases, struct cuda_lease *lease, struct CUstream_st *stream)
{
	lease->state = CUDA_LEASE_PENDING;
	lease->stream = stream;
	leases->n_held--;
	leases->pending[leases->n_pending++] = (uint32_t)(lease - leases->slots);
}

void cuda_leases_drop_held(struct cuda_leases *leases, struct cuda_lease *lease)
{
	lease->state = CUDA_LEASE_FREE;
	leases->n_held--;
}

uint32_t cuda_leases_count_streams(const struct cuda_leases *leases)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < leases->n_pending; i++) {
		const struct CUstream_st *stream = leases->slots[leases->pending[i]].stream;
		uint32_t k = 0;

		while (leases->slots[leases->pending[k]].stream != stream)
			k++;
		n += k == i;
	}
	return n;
}

void cuda_leases_deinit(struct cuda_leases *leases, const struct cuda_device *device)
{
	for (uint32_t i = 0; i < leases->n_slots && device; i++)
		if (leases->slots[i].event)
			device->driver.event_destroy(leases->slots[i].event);
	free(leases->slots);
	free(leases->pending);
	*leases = (struct cuda_leases){0};
}
