// SPDX-License-Identifier: Apache-2.0
/* What the library's waits have in common. */
#ifndef IBVCAP_PAUSE_H
#define IBVCAP_PAUSE_H

#include <stdint.h>

/* About as long as a wake-up takes: shorter waits end without a system call. */
#define PAUSE_SPINS 200u
/* A daemon that was killed wakes nobody: look for it so often. */
#define PAUSE_SLICE_NS UINT64_C(100000000)

static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
