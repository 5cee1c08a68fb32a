// SPDX-License-Identifier: Apache-2.0
/*
 * Pinned memory that the device reads, given out in pieces from front to back, and from the front again. Pieces come
 * back in any order; the memory of one is used again when all before it are back.
 */
#ifndef IBVCAP_CUDA_STAGING_H
#define IBVCAP_CUDA_STAGING_H

#include "lib/cuda/device.h"

#include <stdbool.h>

#define CUDA_STAGING_BYTES UINT64_C(16777216) /* the default */
#define CUDA_STAGING_ALIGN 256u               /* of a piece, and of each part of a batch in it */

struct cuda_piece {
	uint64_t end; /* in bytes given out since the beginning, with those left out at the end of the memory */
	bool is_back;
};

struct cuda_staging {
	uint8_t *host; /* NULL: none */
	unsigned long long device;
	uint64_t bytes;
	uint64_t head; /* bytes given out, and left out, since the beginning */
	uint64_t tail; /* bytes that are free again; head - tail are in use */
	/* A ring of the pieces that are out, the oldest first; numbers count since the beginning. */
	struct cuda_piece *pieces;
	uint64_t n_pieces_max; /* a power of two, or 0 */
	uint64_t first;
	uint64_t next;
};

/** Allocate it, in the device's context; no effect if it is there. 0; -ENOMEM or -EIO, with its text. */
int cuda_staging_init(struct cuda_staging *staging, const struct cuda_device *device, uint64_t bytes);

/** Free it, in the device's context. No effect if there is none. */
void cuda_staging_deinit(struct cuda_staging *staging, const struct cuda_device *device);

/** The largest piece that can be taken now. */
uint64_t cuda_staging_room(const struct cuda_staging *staging);

/**
 * Take a piece of bytes, at most cuda_staging_room(). *offset is its place in the memory, *piece its number. 0 or
 * -ENOMEM.
 */
int cuda_staging_take(struct cuda_staging *staging, uint64_t bytes, uint64_t *offset, uint64_t *piece);

/** Give a piece back, each once. */
void cuda_staging_give_back(struct cuda_staging *staging, uint64_t piece);

#endif
