// SPDX-License-Identifier: Apache-2.0
/*
 * The receive worker: it serves one queue and fills one ring, in a thread of its own or in one that it shares with
 * others (rx_crew.h). In each round it polls a batch, publishes it, recycles blocks and posts slots again. No
 * allocation, lock, system call or log per packet.
 */
#ifndef DAEMON_WORKER_RX_WORKER_H
#define DAEMON_WORKER_RX_WORKER_H

#include "daemon/losses/losses.h"
#include "daemon/worker/rx_receive.h"
#include "daemon/worker/worker.h"

#include <stdbool.h>
#include <stdint.h>

struct rx_worker_options {
	struct worker_options worker;
	struct backend_queue *queue; /* outlives the worker */
	struct rx_ring *ring;        /* used by the worker alone from rx_worker_prime() to worker_join() */
	bool device_timestamps;      /* rows have no timestamp until the first MAIL_CLOCK */
	bool verify_checksums;       /* rows with a wrong checksum are marked */
	bool kernel_times;           /* with device_timestamps: of the backend's capabilities */
	bool naps;                   /* likewise; false: it sleeps until the next packet, whatever the rate */
	struct losses_queue *losses; /* of the queue; outlives the worker */
};

struct rx_worker {
	struct worker base; /* first */
	struct rx_receive receive;
	struct losses_queue *losses;
	const struct backend_queue *device; /* the queue, or the one that it takes its frames from */
	bool naps;

	uint64_t restarted_at_ns;  /* the last time; 0: never */
	uint64_t restart_pause_ns; /* before the last reset */
	uint64_t restart_at_ns;    /* the queue has failed and is reset then; 0: it works */
	bool stopping;
	uint64_t stopping_at_ns;
	bool failed; /* it has stopped since the queue cannot be reset */
};

int rx_worker_new(struct worker **worker, const struct rx_worker_options *options);
/** Post slots until the queue is full. Before the queue is started. Control's thread. */
int rx_worker_prime(struct worker *worker);
void rx_worker_free(struct worker *worker);

/** One round without sleeping. Returns the work done (packets and mails), or -errno: the queue cannot be reset. */
int rx_worker_do_work(struct worker *worker);

/* ---- for the thread that runs it (rx_loop.h) ------------------------------------------------------ */

/** Before the first round. */
void rx_worker_begin(struct worker *worker);
/** After rx_worker_do_work() failed: end it. */
void rx_worker_fail(struct worker *worker, int error);
/** Is there something to look after though no packet comes? */
bool rx_worker_is_busy(const struct worker *worker);

#endif
