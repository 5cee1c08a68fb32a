// SPDX-License-Identifier: Apache-2.0
/* Hugepages that were not there: how many there are, and the command that gets more. */
#ifndef DAEMON_RING_PAGES_H
#define DAEMON_RING_PAGES_H

#include <stdint.h>

#define PAGES_ADVICE_MAX 192

/** "(F free of N); get them with: echo … > …", for so many wanted. Returns text, of PAGES_ADVICE_MAX bytes. */
const char *pages_advice(char *text, uint32_t page_bytes, uint64_t wanted);

#endif
