// SPDX-License-Identifier: Apache-2.0
/* How long a waiting receiver or sender spins and sleeps. */
#ifndef IBVCAP_PAUSE_H
#define IBVCAP_PAUSE_H

#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <stdint.h>

/* A spin takes about as long as a wake-up: a shorter wait ends without a system call. */
#define PAUSE_SPINS 200u
/* A killed daemon wakes nobody, so a waiting thread checks the control socket this often. */
#define PAUSE_SLICE_NS UINT64_C(100000000)

/* -EINTR and its text. */
#define PAUSE_INTERRUPTED error_set(-EINTR, "a signal came before anything else: call again")

static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
