// SPDX-License-Identifier: Apache-2.0
/* Pins: blocks that a lossless consumer has not acquired. Inside the ring only. */
#ifndef DAEMON_RING_PINS_H
#define DAEMON_RING_PINS_H

#include "daemon/ring/rx_ring.h"

/** Does any consumer pin that block number? */
bool pins_hold(struct rx_ring *ring, uint64_t number);

/** A consumer has left the ring: does another of its account pin the oldest block? */
void pins_end(struct rx_ring *ring, const struct ring_consumer *consumer);

/** It broke the rules. Once: the first reason is the one that is told. */
void rx_ring_put_out(struct rx_ring *ring, struct ring_consumer *consumer, enum ibvcap_disconnect reason);

#endif
