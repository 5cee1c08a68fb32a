// SPDX-License-Identifier: Apache-2.0
/* For messages about a lack of hugepages: how many there are, and the command that gets more. */
#ifndef DAEMON_RING_PAGES_H
#define DAEMON_RING_PAGES_H

#include <stdint.h>

#define PAGES_ADVICE_MAX 192

/** Writes "(F free of N); get them with: echo … > …" to text, which has PAGES_ADVICE_MAX bytes. Returns text. */
const char *pages_advice(char *text, uint32_t page_bytes, uint64_t wanted);

#endif
