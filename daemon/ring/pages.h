// SPDX-License-Identifier: Apache-2.0
/* For messages about a lack of hugepages: how many there are, and what to do about it. */
#ifndef DAEMON_RING_PAGES_H
#define DAEMON_RING_PAGES_H

#include <stdint.h>

#define PAGES_ADVICE_MAX 320

/** Hugepages of that size that no process has. */
uint64_t pages_count_free(uint32_t page_bytes);

/**
 * Writes "(F free of N); get them with: echo … > …, or lower KEY" to text, which has PAGES_ADVICE_MAX bytes. If this
 * would leave the machine too little other memory, the text has no command. Returns text.
 */
const char *pages_advice(char *text, uint32_t page_bytes, uint64_t wanted, const char *key);

#endif
