// SPDX-License-Identifier: Apache-2.0
/* For messages about a lack of hugepages: how many there are, and what to do about it. */
#ifndef DAEMON_RING_PAGES_H
#define DAEMON_RING_PAGES_H

#include <stdint.h>

#define PAGES_ADVICE_MAX 320
/* The end of a message on too few free hugepages: which processes may use them, and what helps. */
#define PAGES_HOLDERS                                                         \
	"processes that still map the ring of an earlier run may hold some: " \
	"'ibvcap doctor' as root lists them; let them read on, end them, or reserve pages for two runs"

/* Hugepages of one size that a process can get. */
struct pages_supply {
	uint64_t n_free; /* now: that no process has, or that the kernel may make (nr_overcommit_hugepages) */
	uint64_t n_all;  /* if no other process had any */
	uint64_t n_max;  /* that the control groups of this process allow; UINT64_MAX: any number */
};

struct pages_supply pages_read_supply(uint32_t page_bytes);

/**
 * Writes "(F free of N); get them with: echo … > …, or lower KEY" to text, which has PAGES_ADVICE_MAX bytes. If this
 * would leave the machine too little other memory, the text has no command. Returns text.
 */
const char *pages_advice(char *text, uint32_t page_bytes, uint64_t wanted, const char *key);

#endif
