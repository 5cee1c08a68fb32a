// SPDX-License-Identifier: Apache-2.0
/* Makes, starts and ends the thread of a worker, and its mailboxes. */
#include "daemon/worker/worker.h"

#include "daemon/base/log.h"
#include "daemon/base/numa.h"
#include "daemon/base/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

int worker_init(struct worker *worker, const struct worker_options *options, void (*run)(struct worker *worker))
{
	int r;

	*worker = (struct worker){.spin_ns = options->spin_ns, .cpu = options->cpu, .node = options->node, .run = run};
	snprintf(worker->name, sizeof(worker->name), "%s", options->name);
	r = mailbox_new(&worker->inbox);
	if (r == 0)
		r = mailbox_new(&worker->outbox);
	if (r == 0)
		worker->heartbeat.wake_fd = mailbox_fd(worker->inbox);
	return r;
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;

	worker->run(worker);
	heartbeat_allow_until(&worker->heartbeat, UINT64_MAX);
	return NULL;
}

int worker_start_thread(const struct worker *worker, pthread_t *thread, void *(*run)(void *argument), void *argument)
{
	int r = thread_start(thread, worker->name, worker->cpu, run, argument);
	cpu_set_t allowed, cpus;

	/* It is no error if that fails: the worker works on any CPU. */
	if (r == 0 && worker->cpu < 0 && sched_getaffinity(0, sizeof(allowed), &allowed) == 0 &&
	    numa_cpus(NUMA_SYSFS, worker->node, &allowed, &cpus))
		pthread_setaffinity_np(*thread, sizeof(cpus), &cpus);
	if (r == 0)
		log_debug("worker thread %s started, CPU %d (-1: any)", worker->name, worker->cpu);
	return r;
}

int worker_start(struct worker *worker)
{
	return worker_start_thread(worker, &worker->thread, worker_main, worker);
}

void worker_empty_outbox(struct worker *worker)
{
	struct mail mail;

	while (mailbox_receive(worker->outbox, &mail))
		;
}

void worker_join(struct worker *worker)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	while (pthread_tryjoin_np(worker->thread, NULL) == EBUSY) {
		worker_empty_outbox(worker);
		nanosleep(&nap, NULL);
	}
	heartbeat_unwatch(&worker->heartbeat);
}

void worker_deinit(struct worker *worker)
{
	mailbox_free(worker->inbox);
	mailbox_free(worker->outbox);
}
