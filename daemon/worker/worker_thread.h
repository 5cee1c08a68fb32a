// SPDX-License-Identifier: Apache-2.0
/* A worker's thread. */
#ifndef DAEMON_WORKER_WORKER_THREAD_H
#define DAEMON_WORKER_WORKER_THREAD_H

#include <pthread.h>
#include <stdint.h>

/** thread_start(), and a debug message. With the CPU -1 it runs on the CPUs of the NUMA node, if that is known. */
int worker_thread_start(pthread_t *thread, const char *name, int32_t cpu, int32_t node, void *(*run)(void *),
                        void *argument);

#endif
