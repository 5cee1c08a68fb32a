// SPDX-License-Identifier: Apache-2.0
/*
 * The device's clock: it runs freely and counts CLOCK_MONOTONIC_RAW in the frequency of the profile. libmlx5 reads
 * the clock as plain memory, so a thread has to write it there. A reader sees a value that is stale by at most the
 * thread's period plus the delay of the scheduler; by less while frames flow.
 *
 * A reader can find out how stale: each value is taken from the clock after the value before it was written. So a value
 * that the reader sees for the first time was taken after its last reading of the value before the previous one. For
 * that the thread writes a few values close together.
 */
#ifndef SOFTHCA_DEVICE_CLOCK_H
#define SOFTHCA_DEVICE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

uint64_t clock_raw_ns(void);
uint64_t clock_cycles(uint64_t raw_ns, uint32_t khz);

/* A completion's timestamp in real-time mode (PRM): seconds << 32 | nanoseconds. */
uint64_t clock_real_time_stamp(uint64_t realtime_ns);

/* CLOCK_REALTIME minus CLOCK_MONOTONIC_RAW, now. */
int64_t clock_realtime_offset_ns(void);

/* The memory that one open device maps: the counter page, and the page for mlx5dv_get_clock_info(). */
struct clock_pages {
	void *counter; /* two big-endian words, high first, at byte `counter_offset` */
	size_t counter_offset;
	void *info;   /* struct mlx5_ib_clock_info */
	uint32_t khz; /* 0: the profile has no clock and nothing is mapped; the thread still calls watch() */
	LIST_ENTRY(clock_pages) link;
};

struct clock {
	pthread_mutex_t lock;
	pthread_mutex_t thread_lock; /* held while the thread is started or ended; taken before `lock` */
	pthread_t thread;
	bool running, stop;
	unsigned int period_us;
	LIST_HEAD(, clock_pages) pages;
	/* Called regularly while a device is open, without the clock's lock. May be NULL. */
	void (*watch)(void *arg);
	void *watch_arg;
};

void clock_init(struct clock *clock, unsigned int period_us);
/* Adds a device's pages. The thread runs while there are any. 0, or -EAGAIN if no thread could be started. */
int clock_add(struct clock *clock, struct clock_pages *pages);
void clock_remove(struct clock *clock, struct clock_pages *pages);
/* Writes the counters now, unless another thread does so at the moment. A busy device thread keeps them fresher in
 * this way than the clock's own thread can, which needs a wake-up each time. */
void clock_tick(struct clock *clock);

#endif
