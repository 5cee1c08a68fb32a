// SPDX-License-Identifier: Apache-2.0
/*
 * The receive worker: one thread that serves one queue and fills one ring. In each round it polls a batch, publishes
 * it, recycles blocks and posts slots again. No allocation, lock, system call or log per packet.
 */
#ifndef DAEMON_WORKER_RX_WORKER_H
#define DAEMON_WORKER_RX_WORKER_H

#include "daemon/backend/backend.h"
#include "daemon/base/heartbeat.h"
#include "daemon/clock/clock.h"
#include "daemon/ring/rx_ring.h"
#include "daemon/worker/mailbox.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct rx_sum;

#define RX_WORKER_SPIN_FOREVER UINT64_MAX

struct rx_worker_options {
	const char *name;            /* of the thread, 15 characters are kept */
	struct backend_queue *queue; /* outlives the worker */
	struct rx_ring *ring;        /* used by the worker alone from rx_worker_prime() to rx_worker_join() */
	uint32_t receive_queue_slots;
	uint64_t spin_ns;       /* between the last packet and sleep; RX_WORKER_SPIN_FOREVER: the worker never sleeps */
	int32_t cpu;            /* -1: not pinned */
	int32_t node;           /* whose CPUs it has if it is not pinned; NUMA_ANY: those of all */
	bool device_timestamps; /* rows have no timestamp until the first MAIL_CLOCK */
	bool kernel_times;      /* with them: of the backend's capabilities */
	uint64_t settle_ns;     /* the backend's capability */
	struct rx_sum *sum;     /* of the stream; outlives the worker */
	uint32_t queue_index;   /* of the queue in the stream, and of its part in the sum */
};

struct rx_worker;

int rx_worker_new(struct rx_worker **worker, const struct rx_worker_options *options);
/** Post slots until the queue is full. Before the queue is started. Control's thread. */
int rx_worker_prime(struct rx_worker *worker);
/** Start the thread. */
int rx_worker_start(struct rx_worker *worker);
/** Wait for the end of the thread, after MAIL_STOP was sent or the worker sent MAIL_FAILED. Control's thread. */
void rx_worker_join(struct rx_worker *worker);
void rx_worker_free(struct rx_worker *worker);

/** One round without sleeping. Returns the work done (packets and mails), or -errno: the queue cannot be reset. */
int rx_worker_do_work(struct rx_worker *worker);

struct mailbox *rx_worker_inbox(struct rx_worker *worker);  /* control sends */
struct mailbox *rx_worker_outbox(struct rx_worker *worker); /* control receives */
/** For heartbeat_watch(), once the thread is started; rx_worker_join() ends the watch. */
struct heartbeat *rx_worker_heartbeat(struct rx_worker *worker);

#endif
