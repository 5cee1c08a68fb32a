// SPDX-License-Identifier: Apache-2.0
/*
 * The library's side of an attachment, over the daemon's own mappings: for ThreadSanitizer, which compares addresses
 * and would see none of a consumer's accesses through mappings of its own, and for children, which inherit them.
 */
#ifndef TESTS_SUPPORT_READERS_H
#define TESTS_SUPPORT_READERS_H

#include "daemon/ring/rx_ring.h"
#include "lib/ibvcap/rx/rx.h"

struct test_reader {
	struct ibvcap_rx rx;
	struct rx_queue queue; /* parts[0] of rx */
};

/** What rx_map.c makes of the daemon's descriptors. consumer is in the ring; NULL: a tap. -ENOMEM. */
int test_reader_init(struct test_reader *reader, const struct rx_ring *ring, const struct ring_consumer *consumer);
void test_reader_deinit(struct test_reader *reader);

#endif
