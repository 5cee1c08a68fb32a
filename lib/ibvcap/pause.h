// SPDX-License-Identifier: Apache-2.0
/* How a waiting receiver or sender spins and sleeps. */
#ifndef IBVCAP_PAUSE_H
#define IBVCAP_PAUSE_H

#include "lib/ibvcap/error.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

/** Read the wake-up bytes of a non-blocking socket. False: the daemon has closed its end. */
static inline bool pause_drain(int socket)
{
	char bytes[64];
	ssize_t n;

	do {
		n = read(socket, bytes, sizeof(bytes));
	} while (n == (ssize_t)sizeof(bytes) || (n < 0 && errno == EINTR));
	return n != 0;
}

/** Sleep at most ns while the futex word is still seen. 0; -EINTR a signal came. */
static inline int pause_on_word(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
	const struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

	return syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0) < 0 && errno == EINTR ? PAUSE_INTERRUPTED
	                                                                                           : 0;
}

#endif
