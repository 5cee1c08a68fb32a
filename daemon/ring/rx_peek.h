// SPDX-License-Identifier: Apache-2.0
/* A look at a few bytes of a published row. Any thread, beside the worker. */
#ifndef DAEMON_RING_RX_PEEK_H
#define DAEMON_RING_RX_PEEK_H

#include "daemon/ring/rx_ring.h"

/* Bytes of the UDP payload, all of them in the payload rows or all in the application's header rows. */
struct rx_peek_field {
	uint32_t offset;
	uint32_t bytes;
};

/**
 * Copy the field of a row and its time. False: the row is not published or recycled, it has no time, or its packet has
 * no such field.
 */
bool rx_peek(const struct rx_ring *ring, uint64_t sequence, struct rx_peek_field field, uint8_t *to,
             uint64_t *timestamp_ns);

#endif
