// SPDX-License-Identifier: Apache-2.0
/*
 * The list of missing numbers that a tracker keeps: ranges of one source and run each, in the order in which they were
 * found. It has room for a fixed count of ranges; later ones are not kept. No allocation after missing_init().
 */
#ifndef IBVCAP_MISSING_H
#define IBVCAP_MISSING_H

#include <ibvcap/ibvcap.h>

struct missing {
	struct ibvcap_missing *ranges; /* NULL: there is no list */
	uint64_t *last_ns;             /* of each source: timestamp of the packet with its highest number */
	uint32_t n;
	uint32_t max;
};

/** max 0: no list. 0; -ENOMEM. */
int missing_init(struct missing *missing, uint32_t max, uint32_t max_sources);
void missing_deinit(struct missing *missing);

/** A packet came at this time, behind n missing numbers, the first of which is first; n 0: none is missing. */
void missing_add(struct missing *missing, uint32_t source, uint32_t run, uint64_t first, uint64_t n, uint64_t time_ns);

/** Of n numbers from first on, the missing ones came after all. */
void missing_remove(struct missing *missing, uint32_t source, uint32_t run, uint64_t first, uint64_t n);

#endif
