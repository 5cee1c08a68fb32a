// SPDX-License-Identifier: Apache-2.0
/* One step of a spin. */
#ifndef LIB_BASE_PAUSE_H
#define LIB_BASE_PAUSE_H

/** Leave the core to its other thread for 10 to 140 cycles, by processor. */
static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
