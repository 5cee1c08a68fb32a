// SPDX-License-Identifier: Apache-2.0
/* A worker's thread. */
#ifndef DAEMON_WORKER_THREAD_H
#define DAEMON_WORKER_THREAD_H

#include <pthread.h>
#include <stdint.h>

/**
 * Signals belong to the control thread; the CPU (-1: any) is set before the first instruction of the loop. 15
 * characters of the name are kept. 0 or -errno.
 */
int thread_start(pthread_t *thread, const char *name, int32_t cpu, void *(*run)(void *), void *argument);

#endif
