// SPDX-License-Identifier: Apache-2.0
/*
 * A real device works in pinned pages, which stay whatever the program does to its mappings. This device works in
 * the program's mappings, which may go away. Therefore it works under a guard: a fault ends the piece of work, and
 * the queues and keys that used the memory are put in error.
 */
#ifndef SOFTHCA_DEVICE_FAULT_H
#define SOFTHCA_DEVICE_FAULT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct device;

#define LOST_PAGES 16

/* The pages that went away last; 0: none. */
struct lost_pages {
	uintptr_t pages[LOST_PAGES];
	unsigned int next;
};

/* One fault: where it was, and whether something was found that uses that page. */
struct fault_loss {
	struct device *device;
	const void *address;
	bool found;
};

typedef int sigaction_function(int signal, const struct sigaction *action, struct sigaction *old);

/* From now on SIGSEGV and SIGBUS come to the guard first; faults outside of a guard go on to the program. `real` is
 * the C library's sigaction(), since the preload library has one that calls fault_sigaction(). To be called once. */
void fault_init(sigaction_function *real);

/* In a forked child. */
void fault_forked(void);

/* sigaction() for the program's handlers of the two signals; the guard stays in front of them. */
int fault_sigaction(int signal, const struct sigaction *action, struct sigaction *old);

/*
 * With the device's lock held, runs `work`. False if `work` touched memory that is not there and
 * was cut off: then the device's recover() has put the queues and keys with memory in that page
 * in error, and that memory is not touched again. If nothing of the device uses that page, the
 * fault is an error of softhca: abort().
 */
bool fault_guard(struct device *d, void (*work)(void *), void *arg);

#endif
