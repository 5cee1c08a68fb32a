// SPDX-License-Identifier: Apache-2.0
/* The part of a worker that does not depend on the direction: its thread, its mailboxes and its sign of life. */
#ifndef DAEMON_WORKER_WORKER_H
#define DAEMON_WORKER_WORKER_H

#include "daemon/base/heartbeat.h"
#include "daemon/worker/mailbox.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define WORKER_SPIN_FOREVER UINT64_MAX

struct worker_options {
	const char *name; /* of the thread, 15 characters are kept */
	uint64_t spin_ns; /* between the last packet and sleep; WORKER_SPIN_FOREVER: the worker never sleeps */
	int32_t cpu;      /* -1: not pinned */
	int32_t node;     /* a worker without a CPU of its own runs on the CPUs of this node; NUMA_ANY: on all */
};

/* First in struct rx_worker and struct tx_worker. */
struct worker {
	struct mailbox *inbox;  /* control sends */
	struct mailbox *outbox; /* control receives */
	struct heartbeat
		heartbeat; /* for heartbeat_watch(), once the thread is started; worker_join() ends the watch */
	uint64_t spin_ns;
	uint64_t idle_since_ns; /* 0: the last round did work */
	int32_t cpu;
	int32_t node;
	char name[16];
	pthread_t thread;
	void (*run)(struct worker *worker); /* the thread */
	bool stopped;
	bool has_left; /* its crew (rx_crew.h), if it has one */
};

/** On failure: call worker_deinit(). */
int worker_init(struct worker *worker, const struct worker_options *options, void (*run)(struct worker *worker));
/** Start the thread. 0 or -errno. */
int worker_start(struct worker *worker);
/** Start a thread with the name and on the CPU of the worker. 0 or -errno. */
int worker_start_thread(const struct worker *worker, pthread_t *thread, void *(*run)(void *argument), void *argument);
/** The worker takes no MAIL_STOP while its outbox is full, and control does not read it any more. */
void worker_empty_outbox(struct worker *worker);
/** Wait for the end of the thread, after MAIL_STOP was sent or the worker sent MAIL_FAILED. Control's thread. */
void worker_join(struct worker *worker);
void worker_deinit(struct worker *worker);

/** After a round without work: has the worker found none for spin_ns? */
static inline bool worker_is_to_sleep(struct worker *worker, uint64_t now_ns)
{
	if (worker->idle_since_ns == 0)
		worker->idle_since_ns = now_ns;
	return now_ns - worker->idle_since_ns >= worker->spin_ns;
}

#endif
