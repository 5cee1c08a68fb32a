// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a device's clock and CLOCK_REALTIME as a pair whose bracket is true, however old the reading is.
 *
 * A card's clock is read between the two readings of CLOCK_REALTIME around it, by the driver or here. The clock of a
 * device in software is a page that a thread writes from time to time, so a reading is older than its bracket by an
 * unknown time. Such a clock stands still between two readings that follow each other; the clock of a card never does,
 * because it ticks in less time than a reading takes.
 */
#ifndef DAEMON_CLOCK_CLOCK_READER_H
#define DAEMON_CLOCK_CLOCK_READER_H

#include "daemon/clock/clock.h"

struct clock_reader {
	/**
	 * The device's clock: raw, and before_ns and after_ns if the device's driver reads CLOCK_REALTIME around it;
	 * else they stay 0. 0 or -errno.
	 */
	int (*read)(void *context, struct clock_pair *pair);
	/** CLOCK_REALTIME. */
	uint64_t (*utc_ns)(void *context);
	void *context;
};

/**
 * Read the tightest pair of a few. A page is watched up to patience_ns for values that follow each other closely: so
 * long this call may take. -EAGAIN: the page was not written often enough meanwhile, or CLOCK_REALTIME was set.
 */
int clock_read_pair(const struct clock_reader *reader, uint64_t patience_ns, struct clock_pair *pair);

#endif
