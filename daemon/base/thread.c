// SPDX-License-Identifier: Apache-2.0
/* Starts a thread with its name, its CPU and all signals blocked. */
#include "daemon/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>

int thread_start(pthread_t *thread, const char *name, int32_t cpu, void *(*run)(void *), void *argument)
{
	sigset_t all, before;
	pthread_attr_t attributes;
	char short_name[16];
	int error = pthread_attr_init(&attributes);

	if (error)
		return -error;
	if (cpu >= 0) {
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		CPU_SET((unsigned)cpu, &cpus);
		error = pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
	}
	if (!error) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(thread, &attributes, run, argument);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	pthread_attr_destroy(&attributes);
	if (!error && name) {
		snprintf(short_name, sizeof(short_name), "%s", name);
		pthread_setname_np(*thread, short_name);
	}
	return -error;
}
