// SPDX-License-Identifier: Apache-2.0
/* A consumer's two pages, made as the control socket makes them, for tests without one. */
#ifndef TESTS_SUPPORT_CONSUMERS_H
#define TESTS_SUPPORT_CONSUMERS_H

#include "daemon/ring/rx_ring.h"

/** Both pages, mapped read-write. 0 or -errno. */
int test_consumer_init(struct ring_consumer *consumer, uint32_t lease_blocks);
void test_consumer_deinit(struct ring_consumer *consumer);

#endif
