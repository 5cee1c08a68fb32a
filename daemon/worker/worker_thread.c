// SPDX-License-Identifier: Apache-2.0
/* Starts a worker's thread, and says so. */
#include "daemon/worker/worker_thread.h"

#include "daemon/base/log.h"
#include "daemon/base/numa.h"
#include "daemon/base/thread.h"

#include <sched.h>

/* It is no error if that fails: the worker works on any CPU. */
static void worker_thread_keep_on_node(pthread_t thread, int32_t node)
{
	cpu_set_t allowed, cpus;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && numa_cpus(NUMA_SYSFS, node, &allowed, &cpus))
		pthread_setaffinity_np(thread, sizeof(cpus), &cpus);
}

int worker_thread_start(pthread_t *thread, const char *name, int32_t cpu, int32_t node, void *(*run)(void *),
                        void *argument)
{
	int r = thread_start(thread, name, cpu, run, argument);

	if (r == 0 && cpu < 0)
		worker_thread_keep_on_node(*thread, node);
	if (r == 0)
		log_debug("worker thread %.15s started, CPU %d (-1: any)", name, cpu);
	return r;
}
