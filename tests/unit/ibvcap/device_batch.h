// SPDX-License-Identifier: Apache-2.0
/* Batches of random packets for the kernels of ibvcap/cuda_place.cuh, and these kernels, run for each thread. */
#ifndef TESTS_UNIT_IBVCAP_DEVICE_BATCH_H
#define TESTS_UNIT_IBVCAP_DEVICE_BATCH_H

#include <ibvcap/cuda_place.cuh>
#include <ibvcap/place.h>

#define ROUNDS 3000
#define ROWS   8 /* of a random batch */

uint64_t next_random(void);
uint32_t below(uint32_t n);
void fill_random(void *to, size_t n);
/** Of that size exactly, for AddressSanitizer; filled with 0xa5. */
void *allocate(size_t n);

/* A batch, whose three parts have no byte more than it says. */
struct made_batch {
	struct ibvcap_rx_batch batch;
	uint8_t *payload;
	uint8_t *headers;
	struct ibvcap_meta *meta;
};

struct made_batch make_batch(uint32_t n, uint32_t header_bytes, uint32_t application_header_bytes, uint32_t stride);
void free_batch(struct made_batch *made);
/** As a card splits a frame. */
void put_frame(struct made_batch *made, uint32_t i, const uint8_t *frame, uint32_t bytes, uint32_t header_length,
               uint16_t flags);
/** Packets of all kinds, some damaged, with metas that a daemon writes and others. */
struct made_batch random_batch(void);

/** How many threads a grid has. */
uint32_t random_threads(void);

/* The array, and what a copy makes of a payload. */
struct dense {
	uint8_t *to;
	uint16_t *lengths;
	uint32_t arrays;
	uint32_t sources;
	uint32_t numbers;
	uint32_t row_bytes;
	uint32_t skip_bytes;
	uint32_t format;
	float fill;
};

/** Run ibvcap_copy_rows() for each thread of a grid, one after the other. */
void copy_rows(const struct ibvcap_rx_batch *batch, const struct ibvcap_placed *placed, const struct dense *dense,
               uint32_t threads);
/** Run ibvcap_fill_missing(), likewise. */
void fill_missing(const uint8_t *present, const struct dense *dense, uint32_t threads);

#endif
