// SPDX-License-Identifier: Apache-2.0
/*
 * A thread that several receive workers of one interface share. With a thread for each of many streams, the threads
 * would wake for a few packets each. Control's thread; join() any thread but the crew's.
 */
#ifndef DAEMON_WORKER_RX_CREW_H
#define DAEMON_WORKER_RX_CREW_H

#include "daemon/worker/worker.h"

struct rx_crew;

/** NULL: no memory, or no descriptor. */
struct rx_crew *rx_crew_new(void);
/** It has no workers any more. NULL is allowed. */
void rx_crew_free(struct rx_crew *crew);

/** Workers that it has, at most RX_LOOP_MAX. */
uint32_t rx_crew_size(struct rx_crew *crew);
/** In place of worker_start(): for workers that nap, and have no CPU of their own. 0 or -errno. */
int rx_crew_start(struct rx_crew *crew, struct worker *worker);
/** In place of worker_join(), for a worker that was started so. */
void rx_crew_join(struct rx_crew *crew, struct worker *worker);

#endif
