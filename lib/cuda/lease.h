// SPDX-License-Identifier: Apache-2.0
/*
 * The batches of a handle that are out: held by the caller, or released and pending, until the event that the release
 * recorded has passed. A slot keeps its event for the next batch.
 */
#ifndef IBVCAP_CUDA_LEASE_H
#define IBVCAP_CUDA_LEASE_H

#include "lib/cuda/device.h"

#include <stdbool.h>

enum cuda_lease_state {
	CUDA_LEASE_FREE = 0,
	CUDA_LEASE_HELD = 1,
	CUDA_LEASE_PENDING = 2,
};

#define CUDA_LEASE_STAGED UINT32_MAX /* in place of a ring */

struct cuda_lease {
	enum cuda_lease_state state;
	uint32_t serial; /* of its batch: a ticket has it */
	struct CUevent_st *event;
	struct CUstream_st *stream;  /* while it is pending */
	uint32_t ring;               /* index of the ring that the batch reads, or CUDA_LEASE_STAGED */
	uint64_t piece;              /* of the staging memory */
	bool is_late;                /* staged, and the daemon had ended the ring's lease while rows were copied */
	struct ibvcap_rx_batch rows; /* for ibvcap_rx_release(), if not staged */
};

struct cuda_leases {
	struct cuda_lease *slots;
	uint32_t n_slots;
	uint32_t n_held;
	uint32_t *pending; /* slots, in the order of their releases; room for n_slots */
	uint32_t n_pending;
};

/** Find a free slot, and make its event. In the device's context. *slot is its index. 0; -ENOMEM or -EIO. */
int cuda_leases_prepare(struct cuda_leases *leases, const struct cuda_device *device, uint32_t *slot);

/** The caller gets the batch of a prepared slot. The batch's ticket. */
uint64_t cuda_leases_hand_out(struct cuda_leases *leases, uint32_t slot);

/** The slot of a batch that the caller holds, by its ticket. NULL: there is none. */
struct cuda_lease *cuda_leases_find_held(const struct cuda_leases *leases, uint64_t ticket);

/** The caller has released it, and its event is recorded. */
void cuda_leases_set_pending(struct cuda_leases *leases, struct cuda_lease *lease, struct CUstream_st *stream);

/** A batch that the caller held is over. */
void cuda_leases_drop_held(struct cuda_leases *leases, struct cuda_lease *lease);

/** The number of different streams that pending batches wait for. */
uint32_t cuda_leases_count_streams(const struct cuda_leases *leases);

/** Destroy the events, if device is not NULL, in its context; free the rest. */
void cuda_leases_deinit(struct cuda_leases *leases, const struct cuda_device *device);

#endif
