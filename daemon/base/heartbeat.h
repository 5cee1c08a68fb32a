// SPDX-License-Identifier: Apache-2.0
/*
 * A thread's sign of life. The thread counts its rounds; the control thread looks at the counts of all threads in a
 * list every now and then, and wakes each thread so that a sleeping one makes a round too. A thread whose count is
 * the same at two looks has stopped, unless it works on a long job for which it allowed itself more time.
 */
#ifndef DAEMON_BASE_HEARTBEAT_H
#define DAEMON_BASE_HEARTBEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* Embedded in the object of the thread. */
struct heartbeat {
	/* Written by the thread. A beat before a store to allowed_until_ns is seen by a look that sees that store. */
	_Atomic uint64_t beats;
	_Atomic uint64_t allowed_until_ns; /* CLOCK_MONOTONIC; no beat is expected before */

	/* The control thread's. */
	LIST_ENTRY(heartbeat) link;
	bool is_watched;
	bool is_asked; /* to make a round since seen was read */
	uint64_t seen;
	int wake_fd; /* an eventfd; a write to it ends the thread's sleep */
	char name[96];
};

LIST_HEAD(heartbeats, heartbeat);

/* ---- for the thread ------------------------------------------------------------------------------- */

/** To be called in each round. Returns the number of rounds. */
static inline uint64_t heartbeat_beat(struct heartbeat *heartbeat)
{
	uint64_t beats = atomic_load_explicit(&heartbeat->beats, memory_order_relaxed) + 1;

	atomic_store_explicit(&heartbeat->beats, beats, memory_order_relaxed);
	return beats;
}

/** The thread may make no round before that time (CLOCK_MONOTONIC). UINT64_MAX: it ends. */
static inline void heartbeat_allow_until(struct heartbeat *heartbeat, uint64_t until_ns)
{
	atomic_store_explicit(&heartbeat->allowed_until_ns, until_ns, memory_order_release);
}

/** The thread sends commands to a device, which may hang: no beat is expected until heartbeat_resume(). */
static inline void heartbeat_suspend(struct heartbeat *heartbeat)
{
	heartbeat_allow_until(heartbeat, UINT64_MAX);
}

/** The beat comes before the allowance ends. */
static inline void heartbeat_resume(struct heartbeat *heartbeat)
{
	heartbeat_beat(heartbeat);
	heartbeat_allow_until(heartbeat, 0);
}

/* ---- for the control thread ------------------------------------------------------------------------ */

/** Watch a thread under that name from now on. list NULL: no effect. heartbeat->wake_fd is set. */
void heartbeat_watch(struct heartbeats *list, struct heartbeat *heartbeat, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Before the object of the thread is freed. No effect if it is not watched. */
void heartbeat_unwatch(struct heartbeat *heartbeat);

/** A thread that has made no round since the last call; NULL: there is none. Wakes all threads to make one. */
const struct heartbeat *heartbeat_find_stopped(struct heartbeats *list);

#endif
