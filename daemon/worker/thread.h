// SPDX-License-Identifier: Apache-2.0
/* A worker's thread. */
#ifndef DAEMON_WORKER_THREAD_H
#define DAEMON_WORKER_THREAD_H

#include <pthread.h>
#include <stdint.h>

#define THREAD_CPU_ADVICE                                                                                              \
	"the daemon may not use such a CPU; accepted is -1, or one that is in /sys/devices/system/cpu/online and, if " \
	"the service has any, in its AllowedCPUs="

/**
 * Signals belong to the control thread; the CPU (-1: any) is set before the first instruction of the loop. 15
 * characters of the name are kept. 0 or -errno; -EINVAL: no such CPU, or not for this process.
 */
int thread_start(pthread_t *thread, const char *name, int32_t cpu, void *(*run)(void *), void *argument);

#endif
