// SPDX-License-Identifier: Apache-2.0
/*
 * The receive worker: it serves one queue and fills one ring, in a thread of its own or in one that it shares with
 * others (rx_crew.h). In each round it polls a batch, publishes it, recycles blocks and posts slots again. No
 * allocation, lock, system call or log per packet.
 */
#ifndef DAEMON_WORKER_RX_WORKER_H
#define DAEMON_WORKER_RX_WORKER_H

#include "daemon/worker/rx_receive.h"
#include "daemon/worker/rx_sum.h"
#include "daemon/worker/worker.h"

#include <stdbool.h>
#include <stdint.h>

struct rx_worker_options {
	struct worker_options worker;
	struct backend_queue *queue; /* outlives the worker */
	struct rx_ring *ring;        /* used by the worker alone from rx_worker_prime() to worker_join() */
	uint32_t receive_queue_slots;
	bool device_timestamps; /* rows have no timestamp until the first MAIL_CLOCK */
	bool kernel_times;      /* with them: of the backend's capabilities */
	uint64_t settle_ns;     /* the backend's capability */
	bool naps;              /* likewise; false: it sleeps until the next packet, whatever the rate */
	struct rx_sum *sum;     /* of the stream; outlives the worker */
	uint32_t queue_index;   /* of the queue in the stream, and of its part in the sum */
};

/* What is settled as of the last reading. */
enum rx_record_state {
	RX_RECORD_WRITTEN, /* it is in the ring */
	RX_RECORD_PARTIAL, /* it is, but fragments were held then: it is written again when none is held */
	RX_RECORD_DUE,     /* it is not in the ring yet */
};

struct rx_worker {
	struct worker base; /* first */
	struct rx_receive receive;
	struct rx_sum *sum;        /* of the stream */
	uint32_t queue_index;      /* in the stream */
	bool has_matched;          /* the last reading of the flow counters is not settled yet */
	struct rx_reading reading; /* the last one */
	uint64_t taken_at_ns;      /* when it came by mail, or its record became due again */
	struct {
		uint64_t at_ns; /* CLOCK_MONOTONIC */
		uint64_t rows;
		struct ring_losses losses;
	} noted;                   /* at the last note */
	struct ring_losses before; /* the same at a time before the reading */
	enum rx_record_state record;
	bool naps;
	uint64_t record_taken; /* when so many slots are taken, a card has completed the packets of the reading */

	uint64_t restarted_at_ns;  /* the last time; 0: never */
	uint64_t restart_pause_ns; /* before the last reset */
	uint64_t restart_at_ns;    /* the queue has failed and is reset then; 0: it works */
	uint64_t drain_ns;
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
