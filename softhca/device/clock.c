// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the device's clock into the pages that libmlx5 reads as plain memory. One thread does that for all open
 * devices; it also calls the function that watches the ports.
 */
#include "clock.h"

#include "../wire/clock_now.h"
#include "../wire/own_thread.h"

#include <endian.h>
#include <rdma/mlx5-abi.h>
#include <sys/prctl.h>

#define NS_PER_S 1000000000ULL
/* mlx5_core renews the info page from a work item; this thread does so as often. */
#define INFO_PERIOD_NS  (NS_PER_S / 10)
#define WATCH_PERIOD_NS 50000000ull
#define INFO_SHIFT      20
/* The thread writes the counter so often in a row, so far apart. See clock.h. */
#define WRITES          4
#define WRITES_APART_NS 300
#define OFFSET_TRIES    4

uint64_t clock_raw_ns(void)
{
	return clock_now_ns(CLOCK_MONOTONIC_RAW);
}

uint64_t clock_cycles(uint64_t raw_ns, uint32_t khz)
{
	return (uint64_t)((unsigned __int128)raw_ns * khz / 1000000u);
}

uint64_t clock_real_time_stamp(uint64_t realtime_ns)
{
	return realtime_ns / NS_PER_S << 32 | realtime_ns % NS_PER_S;
}

/* The tightest of a few: in the others the thread may have been interrupted. */
int64_t clock_realtime_offset_ns(void)
{
	uint64_t tightest = UINT64_MAX;
	int64_t offset = 0;

	for (int i = 0; i < OFFSET_TRIES; i++) {
		uint64_t before = clock_raw_ns(), real = clock_now_ns(CLOCK_REALTIME), after = clock_raw_ns();

		if (after - before >= tightest)
			continue;
		tightest = after - before;
		offset = (int64_t)(real - before - tightest / 2);
	}
	return offset;
}

static void clock_write_counter(const struct clock_pages *p, uint64_t cycles)
{
	uint32_t *word = (void *)((uint8_t *)p->counter + p->counter_offset);

	/* One aligned 8-byte store: libmlx5 reads high, low, high and accepts the value if both highs are equal. */
	__atomic_store_n((uint64_t *)word, htobe64(cycles), __ATOMIC_RELEASE);
}

static void clock_write_info(const struct clock_pages *p)
{
	struct mlx5_ib_clock_info *info = p->info;
	uint64_t raw = clock_raw_ns();
	uint32_t sign = info->sign;

	/* The sequence is odd while the page changes (mlx5_ib: MLX5_IB_CLOCK_INFO_KERNEL_UPDATING). */
	__atomic_store_n(&info->sign, sign | MLX5_IB_CLOCK_INFO_KERNEL_UPDATING, __ATOMIC_SEQ_CST);
	info->nsec = raw + (uint64_t)clock_realtime_offset_ns();
	info->cycles = clock_cycles(raw, p->khz);
	info->frac = 0;
	info->mult = (uint32_t)((1000000ULL << INFO_SHIFT) / p->khz);
	info->shift = INFO_SHIFT;
	info->mask = UINT64_MAX >> 1;
	info->overflow_period = INFO_PERIOD_NS;
	__atomic_store_n(&info->sign, (sign & ~1u) + 2, __ATOMIC_RELEASE);
}

/* With the lock held: a value is taken from the clock after the value before it was written. */
static uint64_t clock_write(struct clock *c)
{
	uint64_t raw_ns = clock_raw_ns();
	struct clock_pages *p;

	LIST_FOREACH (p, &c->pages, link)
		if (p->khz)
			clock_write_counter(p, clock_cycles(raw_ns, p->khz));
	return raw_ns;
}

static uint64_t clock_write_in_a_row(struct clock *c)
{
	uint64_t written_ns = clock_write(c);

	for (int i = 1; i < WRITES; i++) {
		while (clock_raw_ns() < written_ns + WRITES_APART_NS)
			;
		written_ns = clock_write(c);
	}
	return written_ns;
}

void clock_tick(struct clock *clock)
{
	if (pthread_mutex_trylock(&clock->lock))
		return;
	clock_write(clock);
	pthread_mutex_unlock(&clock->lock);
}

static void *clock_thread(void *arg)
{
	struct clock *c = arg;
	uint64_t next_info = 0, next_watch = 0;
	struct timespec nap = {.tv_nsec = (long)c->period_us * 1000};

	prctl(PR_SET_TIMERSLACK, 1000UL);
	prctl(PR_SET_NAME, "softhca-clock");
	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		uint64_t raw = clock_write_in_a_row(c);

		if (raw >= next_info) {
			struct clock_pages *p;

			LIST_FOREACH (p, &c->pages, link)
				if (p->khz)
					clock_write_info(p);
			next_info = raw + INFO_PERIOD_NS;
		}
		pthread_mutex_unlock(&c->lock);
		if (c->watch && raw >= next_watch) {
			c->watch(c->watch_arg);
			next_watch = raw + WATCH_PERIOD_NS;
		}
		nanosleep(&nap, NULL);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

void clock_init(struct clock *clock, unsigned int period_us)
{
	pthread_mutex_init(&clock->lock, NULL);
	pthread_mutex_init(&clock->thread_lock, NULL);
	clock->period_us = period_us;
	clock->running = clock->stop = false;
	clock->watch = NULL;
	LIST_INIT(&clock->pages);
}

int clock_add(struct clock *clock, struct clock_pages *pages)
{
	int r = 0;

	pthread_mutex_lock(&clock->thread_lock);
	pthread_mutex_lock(&clock->lock);
	if (pages->khz) {
		clock_write_counter(pages, clock_cycles(clock_raw_ns(), pages->khz));
		clock_write_info(pages);
	}
	if (!clock->running) {
		clock->stop = false;
		r = own_thread_start(&clock->thread, NULL, clock_thread, clock);
		clock->running = !r;
	}
	if (!r)
		LIST_INSERT_HEAD(&clock->pages, pages, link);
	pthread_mutex_unlock(&clock->lock);
	pthread_mutex_unlock(&clock->thread_lock);
	return r;
}

void clock_remove(struct clock *clock, struct clock_pages *pages)
{
	bool was_last;

	pthread_mutex_lock(&clock->thread_lock);
	pthread_mutex_lock(&clock->lock);
	LIST_REMOVE(pages, link);
	was_last = LIST_EMPTY(&clock->pages);
	clock->stop = was_last;
	pthread_mutex_unlock(&clock->lock);
	if (was_last) {
		pthread_join(clock->thread, NULL);
		clock->running = false;
	}
	pthread_mutex_unlock(&clock->thread_lock);
}
