// SPDX-License-Identifier: Apache-2.0
/*
 * The receive worker: it serves one queue and fills one ring, in a thread of its own or in one that it shares with
 * others (rx_crew.h). In each round it polls a batch, publishes it, recycles blocks and posts slots again. No
 * allocation, lock, system call or log per packet.
 */
#ifndef DAEMON_WORKER_RX_WORKER_H
#define DAEMON_WORKER_RX_WORKER_H

#include "daemon/backend/backend.h"
#include "daemon/ring/rx_ring.h"
#include "daemon/worker/worker.h"

#include <stdbool.h>
#include <stdint.h>

struct reassembly;
struct rx_sum;

struct rx_worker_options {
	struct worker_options worker;
	struct backend_queue *queue; /* of the device; outlives the worker */
	struct reassembly
		*reassembly;  /* joins fragments of the queue, which it owns; outlives the worker; NULL: none */
	struct rx_ring *ring; /* used by the worker alone from rx_worker_prime() to worker_join() */
	uint32_t receive_queue_slots;
	bool device_timestamps; /* rows have no timestamp until the first MAIL_CLOCK */
	bool kernel_times;      /* with them: of the backend's capabilities */
	uint64_t settle_ns;     /* the backend's capability */
	bool naps;              /* likewise; false: it sleeps until the next packet, whatever the rate */
	struct rx_sum *sum;     /* of the stream; outlives the worker */
	uint32_t queue_index;   /* of the queue in the stream, and of its part in the sum */
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
struct backend_queue *rx_worker_queue(const struct worker *worker);

struct rx_worker_pace {
	bool naps;
	uint64_t rows; /* since the start */
	uint32_t queue_slots;
};

struct rx_worker_pace rx_worker_pace(const struct worker *worker);

#endif
