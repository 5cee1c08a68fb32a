// SPDX-License-Identifier: Apache-2.0
/*
 * Copies between the device and the program's memory. Not memcpy(): ThreadSanitizer intercepts
 * that one and, not knowing how completions order things, calls every packet a data race.
 */
#ifndef SOFTHCA_DEVICE_DMA_H
#define SOFTHCA_DEVICE_DMA_H

#include <stddef.h>
#include <stdint.h>

static inline void dma_copy(void *to, const void *from, size_t bytes)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
	volatile uint8_t *t = to;
	const volatile uint8_t *f = from;

	while (bytes--)
		*t++ = *f++;
#endif
}

#endif
