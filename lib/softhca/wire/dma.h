// SPDX-License-Identifier: Apache-2.0
/*
 * Copies between the device and the program's memory. Not memcpy(): ThreadSanitizer intercepts
 * that one and, not knowing how completions order things, calls every packet a data race.
 */
#ifndef SOFTHCA_WIRE_DMA_H
#define SOFTHCA_WIRE_DMA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
/* Below this, starting `rep movsb` costs more than the copy. */
#define DMA_SHORT_BYTES 256

static inline void dma_copy_16(uint8_t *to, const uint8_t *from)
{
	typedef uint8_t block __attribute__((vector_size(16), aligned(1), may_alias));

	*(block *)to = *(const block *)from;
	/* Else compilers make a loop of these a call of memcpy(). */
	__asm__ volatile("" : : : "memory");
}

static inline void dma_copy(void *to, const void *from, size_t bytes)
{
	uint8_t *t = to;
	const uint8_t *f = from;

	if (bytes < 16 || bytes > DMA_SHORT_BYTES) {
		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
		return;
	}
	/* Whole blocks, and one that ends with the data and may overlap the last. */
	for (size_t i = 0; i + 16 < bytes; i += 16)
		dma_copy_16(t + i, f + i);
	dma_copy_16(t + bytes - 16, f + bytes - 16);
}
#else
static inline void dma_copy(void *to, const void *from, size_t bytes)
{
	volatile uint8_t *t = to;
	const volatile uint8_t *f = from;

	while (bytes--)
		*t++ = *f++;
}
#endif

#endif
