// SPDX-License-Identifier: Apache-2.0
/* The rounds and sleeps of a thread that runs receive workers: one, or several of one interface. Its thread only. */
#ifndef DAEMON_WORKER_RX_LOOP_H
#define DAEMON_WORKER_RX_LOOP_H

#include "daemon/worker/worker.h"

#include <stdint.h>

#define RX_LOOP_MAX 64

struct rx_loop {
	struct worker *workers[RX_LOOP_MAX]; /* of several, all nap */
	uint32_t n;
	uint64_t slept_at_ns; /* CLOCK_MONOTONIC, when the last sleep began */
	uint64_t rows;        /* of all workers then */
	uint64_t gap_ns;      /* from one packet to the next, a mean */
};

/** There is room for it. */
void rx_loop_add(struct rx_loop *loop, struct worker *worker);
/**
 * A round of each worker. When there is nothing to do: sleep until a completion, mail, a write to wake_fd (-1: none),
 * or the end of a nap.
 */
void rx_loop_round(struct rx_loop *loop, int wake_fd);
/** A worker that has stopped leaves the loop. NULL: there is none. */
struct worker *rx_loop_next_stopped(struct rx_loop *loop);

/** Control: start a thread for one worker. 0 or -errno. */
int rx_loop_start(struct worker *worker);

#endif
