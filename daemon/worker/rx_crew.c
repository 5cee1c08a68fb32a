// SPDX-License-Identifier: Apache-2.0
/*
 * The thread of a crew begins with the first worker and ends with the last one. Control leaves a new worker in the list
 * of those that join; the thread takes it from there.
 */
#include "daemon/worker/rx_crew.h"

#include "daemon/worker/rx_loop.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct rx_crew {
	struct rx_loop loop;  /* the thread's */
	pthread_mutex_t lock; /* of what follows, and of `has_left` of its workers */
	pthread_cond_t left;  /* a worker has left */
	struct worker *joining[RX_LOOP_MAX];
	uint32_t n_joining;
	uint32_t n;            /* workers in all */
	_Atomic bool has_news; /* some join */
	bool runs;             /* there is a thread, or one that has ended and is not joined */
	int wake_fd;
	pthread_t thread;
};

struct rx_crew *rx_crew_new(void)
{
	struct rx_crew *crew = calloc(1, sizeof(*crew));

	if (!crew)
		return NULL;
	crew->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (crew->wake_fd < 0) {
		free(crew);
		return NULL;
	}
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->left, NULL);
	return crew;
}

void rx_crew_free(struct rx_crew *crew)
{
	if (!crew)
		return;
	close(crew->wake_fd);
	pthread_cond_destroy(&crew->left);
	pthread_mutex_destroy(&crew->lock);
	free(crew);
}

uint32_t rx_crew_size(struct rx_crew *crew)
{
	uint32_t n;

	pthread_mutex_lock(&crew->lock);
	n = crew->n;
	pthread_mutex_unlock(&crew->lock);
	return n;
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static void crew_take_up(struct rx_crew *crew)
{
	uint64_t n_writes;

	pthread_mutex_lock(&crew->lock);
	atomic_store_explicit(&crew->has_news, false, memory_order_relaxed);
	eventfd_read(crew->wake_fd, &n_writes);
	while (crew->n_joining > 0)
		rx_loop_add(&crew->loop, crew->joining[--crew->n_joining]);
	pthread_mutex_unlock(&crew->lock);
}

/* False: it was the last one. */
static bool crew_let_go(struct rx_crew *crew, struct worker *worker)
{
	bool goes_on;

	heartbeat_allow_until(&worker->heartbeat, UINT64_MAX);
	pthread_mutex_lock(&crew->lock);
	worker->has_left = true; /* control may free it from now on */
	goes_on = --crew->n > 0;
	pthread_cond_broadcast(&crew->left);
	pthread_mutex_unlock(&crew->lock);
	return goes_on;
}

static void *crew_main(void *argument)
{
	struct rx_crew *crew = argument;
	struct worker *stopped;
	bool goes_on = true;

	while (goes_on) {
		if (atomic_load_explicit(&crew->has_news, memory_order_relaxed))
			crew_take_up(crew);
		if (crew->loop.n > 0)
			rx_loop_round(&crew->loop, crew->wake_fd);
		while (goes_on && (stopped = rx_loop_next_stopped(&crew->loop)))
			goes_on = crew_let_go(crew, stopped);
	}
	return NULL;
}

/* ---- for control --------------------------------------------------------------------------------- */

int rx_crew_start(struct rx_crew *crew, struct worker *worker)
{
	int r = 0;

	pthread_mutex_lock(&crew->lock);
	if (crew->runs && crew->n == 0) { /* its last worker has left, and is not joined yet */
		pthread_join(crew->thread, NULL);
		crew->runs = false;
	}
	worker->has_left = false;
	crew->joining[crew->n_joining++] = worker;
	crew->n++;
	atomic_store_explicit(&crew->has_news, true, memory_order_relaxed);
	eventfd_write(crew->wake_fd, 1);
	if (!crew->runs) {
		r = worker_start_thread(worker, &crew->thread, crew_main, crew);
		crew->runs = r == 0;
	}
	if (r < 0) {
		crew->n--;
		crew->n_joining--;
	}
	pthread_mutex_unlock(&crew->lock);
	return r;
}

void rx_crew_join(struct rx_crew *crew, struct worker *worker)
{
	bool was_last;

	pthread_mutex_lock(&crew->lock);
	while (!worker->has_left) {
		struct timespec until;

		worker_empty_outbox(worker);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&crew->left, &crew->lock, &until);
	}
	was_last = crew->n == 0 && crew->runs;
	crew->runs = crew->runs && !was_last;
	pthread_mutex_unlock(&crew->lock);
	if (was_last)
		pthread_join(crew->thread, NULL);
	heartbeat_unwatch(&worker->heartbeat);
}
