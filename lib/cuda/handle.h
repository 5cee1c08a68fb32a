// SPDX-License-Identifier: Apache-2.0
/*
 * A receive handle with a device. Each file uses only those above it:
 *
 *   driver.c   the functions of the driver
 *   device.c   a device, its context, and the proof that it reads the host's memory
 *   why.c      words about the ways
 *   ring.c     registers the mappings of a ring
 *   staging.c  pinned memory for rows that are copied
 *   lease.c    the table of the batches that are out
 *   follow.c   finds the way for the rings that the handle has, and lets go of those that end
 *   end.c      ends leases whose work has ended
 *   acquire.c  acquires and releases batches
 *   handle.c   opens, closes and describes a handle
 *   probe.c    what a device would do, without a stream
 */
#ifndef IBVCAP_CUDA_HANDLE_H
#define IBVCAP_CUDA_HANDLE_H

#include "lib/cuda/device.h"
#include "lib/cuda/lease.h"
#include "lib/cuda/ring.h"
#include "lib/cuda/staging.h"
#include "lib/cuda/why.h"

#define CUDA_RINGS_MAX (2 * IBVCAP_QUEUES_MAX) /* as a receive handle has */

struct ibvcap_cuda {
	struct ibvcap_rx *rx;
	const uint32_t *owner; /* see owner.h */
	struct ibvcap_cuda_options options;
	uint64_t piece_bytes; /* CUDA_PIECE_BYTES; tests have less */
	char stream[IBVCAP_STREAM_NAME_MAX];
	struct cuda_device device;
	char failure[256]; /* of the device; "": it works */

	/* The way, and the epoch for which it was found. */
	enum ibvcap_cuda_way way; /* AUTO: not yet */
	uint64_t epoch;
	uint64_t last_epoch; /* the one before it: one of several queues may still have packets of that */
	struct cuda_why why;
	struct cuda_ring rings[CUDA_RINGS_MAX];
	uint32_t n_rings; /* all from this index on are free: none of their mappings has an address */
	struct cuda_staging staging;

	struct cuda_leases leases;
	uint64_t batches;

	/* Rows that were acquired from the ring and not handed out yet: all but the first n_taken of rest. */
	struct ibvcap_rx_batch rest; /* n 0: there are none */
	uint32_t n_taken;
	struct ibvcap_rx_losses losses; /* before rest */
};

/* ---- follow.c ---------------------------------------------------------------------------------------- */

/**
 * Find the way for the rings that are attached now, those of a new epoch from the first way on. No effect while there
 * is none: queues that a handle keeps between two daemons have no ring. 0; -EOPNOTSUPP no way
 * that the options allow works; -ENOMEM; -EIO.
 */
int cuda_follow(struct ibvcap_cuda *cuda, uint64_t epoch);

/**
 * The attached ring that the address of a payload row is in. NULL: none is. While batches read it, a ring stays
 * attached as it is, also when the handle goes on with another way.
 */
struct cuda_ring *cuda_find_ring(struct ibvcap_cuda *cuda, const void *payload);

/** For ibvcap_rx_on_unmap(): unregister the mapping. context is the handle. */
void cuda_forget_mapping(void *context, const struct ibvcap_rx_memory *memory);

/* ---- end.c ------------------------------------------------------------------------------------------- */

/** Remember that the device has failed, and end all pending leases. -EIO. */
int cuda_fail(struct ibvcap_cuda *cuda, const char *function, int result);

/** -EIO with the text of the failure, if the device has failed; else 0. */
int cuda_check_device(const struct ibvcap_cuda *cuda);

/** End the lease of a batch, whose slot the caller frees. 0 or an error of ibvcap_rx_release(). */
int cuda_end_lease(struct ibvcap_cuda *cuda, const struct cuda_lease *lease);

/** As ibvcap_cuda_poll(), but for the check of the owner. */
int cuda_end_leases(struct ibvcap_cuda *cuda);

/** Wait a moment, longer from turn to turn, before the next look at the events. *nap_ns begins with 0. */
void cuda_nap(uint64_t *nap_ns, uint64_t deadline_ns);

/** As ibvcap_cuda_wait(), but for the check of the owner. */
int cuda_wait_leases(struct ibvcap_cuda *cuda, int timeout_ms);

/** When a wait of timeout_ms from now on is over, of CLOCK_MONOTONIC. */
uint64_t cuda_deadline_ns(int timeout_ms);

#endif
