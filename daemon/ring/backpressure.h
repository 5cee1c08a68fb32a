// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the ring only: lossless consumers that hold a block up, and the eviction of a consumer that broke the rules.
 * A lossless consumer stalls the queue while the oldest block is due for reuse and the consumer has not acquired all of
 * it: no memory is recycled then, and the device drops packets once its receive queue is empty.
 */
#ifndef DAEMON_RING_BACKPRESSURE_H
#define DAEMON_RING_BACKPRESSURE_H

#include "daemon/ring/rx_ring.h"

/** Does a lossless consumer still need that block number? */
bool backpressure_holds(struct rx_ring *ring, uint64_t number);

/** A consumer has left the ring. Its user stops being charged unless another of the user's consumers stalls. */
void backpressure_release(struct rx_ring *ring, const struct ring_consumer *consumer);

/** The consumer broke the rules: rx_ring_next_evicted() takes it out. The first reason is the one reported. */
static inline void rx_ring_evict(struct rx_ring *ring, struct ring_consumer *consumer, enum ibvcap_disconnect reason)
{
	if (consumer->bad)
		return;
	consumer->bad = reason;
	ring->n_bad++;
}

#endif
