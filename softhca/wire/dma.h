// SPDX-License-Identifier: Apache-2.0
/*
 * Copies between the device and the program's memory. They do not use memcpy(): ThreadSanitizer intercepts that one
 * and would report every packet as a data race, since it does not know how completions order the accesses.
 */
#ifndef SOFTHCA_WIRE_DMA_H
#define SOFTHCA_WIRE_DMA_H

#include <stddef.h>
#include <stdint.h>

#define DMA_BLOCK_BYTES 16

static inline void dma_copy_block(uint8_t *to, const uint8_t *from)
{
	typedef uint8_t block __attribute__((vector_size(DMA_BLOCK_BYTES), aligned(1), may_alias));

	*(block *)to = *(const block *)from;
}

static inline void dma_copy(void *to, const void *from, size_t bytes)
{
	size_t i = 0;
	uint8_t *t = to;
	const uint8_t *f = from;

	for (; i + 4 * DMA_BLOCK_BYTES <= bytes; i += 4 * DMA_BLOCK_BYTES) {
		for (size_t k = 0; k < 4 * DMA_BLOCK_BYTES; k += DMA_BLOCK_BYTES)
			dma_copy_block(t + i + k, f + i + k);
		/* Without this, compilers turn the loop into a call of memcpy(). */
		__asm__ volatile("" : : : "memory");
	}
	for (; i + DMA_BLOCK_BYTES <= bytes; i += DMA_BLOCK_BYTES) {
		dma_copy_block(t + i, f + i);
		__asm__ volatile("" : : : "memory");
	}
	if (i < bytes && bytes >= DMA_BLOCK_BYTES) {
		/* Copies the rest together with a part that is copied already. */
		dma_copy_block(t + bytes - DMA_BLOCK_BYTES, f + bytes - DMA_BLOCK_BYTES);
		return;
	}
	for (; i < bytes; i++) {
		t[i] = f[i];
		__asm__ volatile("" : : : "memory");
	}
}

#endif
