// SPDX-License-Identifier: Apache-2.0
/* A worker's thread. */
#ifndef DAEMON_WORKER_WORKER_THREAD_H
#define DAEMON_WORKER_WORKER_THREAD_H

#include <pthread.h>
#include <stdint.h>

#define THREAD_CPU_ADVICE                                                                                              \
	"the daemon may not use such a CPU; accepted is -1, or one that is in /sys/devices/system/cpu/online and, if " \
	"the service has any, in its AllowedCPUs="

/** thread_start(), and a debug message. */
int worker_thread_start(pthread_t *thread, const char *name, int32_t cpu, void *(*run)(void *), void *argument);

#endif
