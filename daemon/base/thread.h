// SPDX-License-Identifier: Apache-2.0
/* Every thread of the daemon but the control thread is started here: signals belong to the control thread. */
#ifndef DAEMON_BASE_THREAD_H
#define DAEMON_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/**
 * Start a thread with all signals blocked. cpu: set before its first instruction; -1: any. name: 15 characters are
 * kept; NULL: that of the caller. 0 or -errno; -EINVAL: no such CPU, or not for this process.
 */
int thread_start(pthread_t *thread, const char *name, int32_t cpu, void *(*run)(void *), void *argument);

#endif
