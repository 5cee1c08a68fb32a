// SPDX-License-Identifier: Apache-2.0
/* Consumers of one behaviour each, as far as a worker sees of them; for bench_ring. */
#ifndef TESTS_BENCH_RING_BEHAVIOURS_H
#define TESTS_BENCH_RING_BEHAVIOURS_H

#include "daemon/ring/rx_ring.h"

#define QUOTA 4u /* lease blocks of each */

/** Make n consumers and add them to the ring. -ENOMEM. */
int behaviours_add(struct rx_ring *ring, struct ring_consumer *consumers, uint32_t n);

/** Each does once what it does over and over. */
void behaviours_act(const struct rx_ring *ring, struct ring_consumer *consumers, uint32_t n, uint32_t round);

#endif
