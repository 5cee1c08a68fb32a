// SPDX-License-Identifier: Apache-2.0
/* The mappings of one queue's ring, as a device reads them without a copy. */
#ifndef IBVCAP_CUDA_RING_H
#define IBVCAP_CUDA_RING_H

#include "lib/cuda/device.h"
#include "lib/cuda/why.h"

#include <stdbool.h>

/*
 * The most bytes of one registration. A driver refuses 512 GiB and more in pages of 4 KiB; a smaller piece also ends
 * sooner when it is undone.
 */
#define CUDA_PIECE_BYTES (UINT64_C(64) << 30)

#define CUDA_RING_MAPPINGS 3 /* enum ibvcap_rx_memory_kind */

struct cuda_mapping {
	struct ibvcap_rx_memory memory; /* address NULL: the mapping is gone */
	unsigned long long device;      /* address of its first byte, if the ring is attached */
	uint64_t registered_bytes;      /* of it, from the front */
	uint64_t piece_bytes;           /* of each registration but the last */
};

struct cuda_ring {
	enum ibvcap_cuda_way way;                         /* AUTO: not attached */
	struct cuda_mapping mappings[CUDA_RING_MAPPINGS]; /* at the index of their kind */
	uint32_t n_batches;                               /* that hold device addresses of it */
};

/**
 * Make the ring readable for the device in one of the ways that do not copy, and prove it by a word of each piece. In
 * the device's context. 0; -EOPNOTSUPP: refused, nothing stays registered, and why has got a sentence.
 */
int cuda_ring_attach(struct cuda_ring *ring, const struct cuda_device *device, enum ibvcap_cuda_way way,
                     uint64_t piece_bytes, struct cuda_why *why);

/** Unregister the mapping, if it is registered. In the device's context. Of a device that failed, too. */
void cuda_mapping_detach(struct cuda_mapping *mapping, const struct cuda_device *device);

/** Unregister the whole ring. In the device's context. */
void cuda_ring_detach(struct cuda_ring *ring, const struct cuda_device *device);

/** Bytes of the ring that are registered. */
uint64_t cuda_ring_registered_bytes(const struct cuda_ring *ring);

/** Is the address in that mapping? */
static inline bool cuda_mapping_has(const struct cuda_mapping *mapping, const void *address)
{
	uintptr_t start = (uintptr_t)mapping->memory.address;

	return start && (uintptr_t)address >= start && (uintptr_t)address - start < mapping->memory.bytes;
}

/** Device address of an address in that mapping of an attached ring. */
static inline uint64_t cuda_mapping_address(const struct cuda_mapping *mapping, const void *address)
{
	return mapping->device + ((uintptr_t)address - (uintptr_t)mapping->memory.address);
}

#endif
