// SPDX-License-Identifier: Apache-2.0
/* Starts a worker's thread, and says so. */
#include "daemon/worker/worker_thread.h"

#include "daemon/base/log.h"
#include "daemon/base/thread.h"

int worker_thread_start(pthread_t *thread, const char *name, int32_t cpu, void *(*run)(void *), void *argument)
{
	int r = thread_start(thread, name, cpu, run, argument);

	if (r == 0)
		log_debug("worker thread %.15s started, CPU %d (-1: any)", name, cpu);
	return r;
}
