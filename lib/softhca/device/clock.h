// SPDX-License-Identifier: Apache-2.0
/*
 * The device's clock: free-running, CLOCK_MONOTONIC_RAW counted in the profile's frequency.
 * libmlx5 reads it as plain memory, so a thread writes it there: a reader sees a value that is
 * stale by at most the period and the scheduler's delay; by less while frames flow.
 */
#ifndef SOFTHCA_DEVICE_CLOCK_H
#define SOFTHCA_DEVICE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

uint64_t clock_raw_ns(void);
uint64_t clock_realtime_ns(void);
uint64_t clock_cycles(uint64_t raw_ns, uint32_t khz);

/* A completion's timestamp in real-time mode (PRM): seconds << 32 | nanoseconds. */
uint64_t clock_real_time_stamp(uint64_t realtime_ns);

/* Offset CLOCK_REALTIME − CLOCK_MONOTONIC_RAW, now. */
int64_t clock_realtime_offset_ns(void);

/* What one open device maps: the counter page and the page for mlx5dv_get_clock_info(). */
struct clock_pages {
	void *counter; /* two big-endian words, high first, at byte `counter_offset` */
	size_t counter_offset;
	void *info;   /* struct mlx5_ib_clock_info */
	uint32_t khz; /* 0: no clock, nothing is mapped; there is still something to watch */
	LIST_ENTRY(clock_pages) link;
};

struct clock {
	pthread_mutex_t lock;
	pthread_mutex_t thread_lock; /* from starting or ending the thread until it is done; taken first */
	pthread_t thread;
	bool running, stop;
	unsigned int period_us;
	LIST_HEAD(, clock_pages) pages;
	/* What else is to be looked at while devices are open; without the clock's lock. May be NULL. */
	void (*watch)(void *arg);
	void *watch_arg;
};

void clock_init(struct clock *clock, unsigned int period_us);
/* The thread runs while there are pages. 0 or -EAGAIN (no thread). */
int clock_add(struct clock *clock, struct clock_pages *pages);
void clock_remove(struct clock *clock, struct clock_pages *pages);
/* Write the counters now, unless another thread is at it: a busy device thread keeps them fresher
 * than the clock's own thread, which costs a wake-up each time. */
void clock_tick(struct clock *clock);

#endif
