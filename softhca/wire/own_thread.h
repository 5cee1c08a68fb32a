// SPDX-License-Identifier: Apache-2.0
/* Threads of softhca itself. */
#ifndef SOFTHCA_WIRE_OWN_THREAD_H
#define SOFTHCA_WIRE_OWN_THREAD_H

#include <pthread.h>

/* Starts a thread that handles no signals of the program, but the faults that it causes itself. `attr` may be NULL. 0
 * or negative errno. */
int own_thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

#endif
