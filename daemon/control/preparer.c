// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/preparer.h"

#include "daemon/base/time.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

STAILQ_HEAD(job_queue, job);

struct preparer {
	pthread_t thread;
	bool runs;
	int bell; /* rung when something was worked */
	sd_event_source *rung;
	pthread_mutex_t mutex; /* all below */
	pthread_cond_t changed;
	struct job_queue queued;
	struct job_queue worked;
	unsigned n_unfinished;  /* queued or being worked */
	uid_t served;           /* whose turn it was */
	bool is_asked;          /* whether the thread goes on, and it has not since */
	uint64_t busy_until_us; /* CLOCK_MONOTONIC: the work that it is at may take so long */
	bool stop;
};

/* ---- the thread ------------------------------------------------------------------------------------ */

/* The oldest, but of somebody else than the last, if there is one: who comes and goes all the time keeps nobody out. */
static struct job *take_job(struct preparer *preparer)
{
	struct job *job;

	STAILQ_FOREACH (job, &preparer->queued, link)
		if (job->user != preparer->served)
			break;
	if (!job)
		job = STAILQ_FIRST(&preparer->queued);
	if (!job)
		return NULL;
	STAILQ_REMOVE(&preparer->queued, job, job, link);
	preparer->served = job->user;
	preparer->busy_until_us = time_monotonic_ns() / 1000 + time_for_memory_us(job->bytes);
	return job;
}

static void *preparer_main(void *context)
{
	struct preparer *preparer = context;

	pthread_mutex_lock(&preparer->mutex);
	while (!preparer->stop) {
		struct job *job = take_job(preparer);

		preparer->is_asked = false;
		if (!job) {
			pthread_cond_wait(&preparer->changed, &preparer->mutex);
			continue;
		}
		pthread_mutex_unlock(&preparer->mutex);
		job->work(job);
		pthread_mutex_lock(&preparer->mutex);
		STAILQ_INSERT_TAIL(&preparer->worked, job, link);
		preparer->n_unfinished--;
		preparer->busy_until_us = 0;
		pthread_cond_broadcast(&preparer->changed);
		eventfd_write(preparer->bell, 1);
	}
	pthread_mutex_unlock(&preparer->mutex);
	return NULL;
}

/* ---- control's --------------------------------------------------------------------------------------- */

/* Outside of the mutex: what is done may add something. */
static void finish(struct preparer *preparer)
{
	struct job *job;

	do {
		pthread_mutex_lock(&preparer->mutex);
		job = STAILQ_FIRST(&preparer->worked);
		if (job)
			STAILQ_REMOVE_HEAD(&preparer->worked, link);
		pthread_mutex_unlock(&preparer->mutex);
		if (job)
			job->done(job);
	} while (job);
}

static int on_rung(sd_event_source *source, int fd, uint32_t events, void *context)
{
	eventfd_t count;

	(void)source;
	(void)events;
	eventfd_read(fd, &count);
	finish(context);
	return 0;
}

void preparer_add(struct preparer *preparer, struct job *job)
{
	pthread_mutex_lock(&preparer->mutex);
	STAILQ_INSERT_TAIL(&preparer->queued, job, link);
	preparer->n_unfinished++;
	pthread_cond_broadcast(&preparer->changed);
	pthread_mutex_unlock(&preparer->mutex);
}

bool preparer_is_alive(struct preparer *preparer)
{
	bool alive;

	pthread_mutex_lock(&preparer->mutex);
	alive = !preparer->is_asked || time_monotonic_ns() / 1000 < preparer->busy_until_us;
	preparer->is_asked = true;
	pthread_cond_broadcast(&preparer->changed);
	pthread_mutex_unlock(&preparer->mutex);
	return alive;
}

void preparer_drain(struct preparer *preparer)
{
	bool is_empty;

	do {
		pthread_mutex_lock(&preparer->mutex);
		while (preparer->n_unfinished > 0)
			pthread_cond_wait(&preparer->changed, &preparer->mutex);
		is_empty = STAILQ_EMPTY(&preparer->worked);
		pthread_mutex_unlock(&preparer->mutex);
		finish(preparer);
	} while (!is_empty);
}

/* Signals are the control thread's. */
static int start(struct preparer *preparer)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&preparer->thread, NULL, preparer_main, preparer);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	preparer->runs = error == 0;
	if (error == 0)
		pthread_setname_np(preparer->thread, "preparer");
	return -error;
}

int preparer_new(struct preparer **out, sd_event *event)
{
	struct preparer *preparer = calloc(1, sizeof(*preparer));
	int r;

	if (!preparer)
		return -ENOMEM;
	pthread_mutex_init(&preparer->mutex, NULL);
	pthread_cond_init(&preparer->changed, NULL);
	STAILQ_INIT(&preparer->queued);
	STAILQ_INIT(&preparer->worked);
	preparer->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = preparer->bell < 0 ? -errno : 0;
	if (r == 0)
		r = sd_event_add_io(event, &preparer->rung, preparer->bell, EPOLLIN, on_rung, preparer);
	if (r >= 0)
		r = start(preparer);
	if (r < 0) {
		preparer_free(preparer);
		return r;
	}
	*out = preparer;
	return 0;
}

void preparer_free(struct preparer *preparer)
{
	if (!preparer)
		return;
	if (preparer->runs) {
		pthread_mutex_lock(&preparer->mutex);
		preparer->stop = true;
		pthread_cond_broadcast(&preparer->changed);
		pthread_mutex_unlock(&preparer->mutex);
		pthread_join(preparer->thread, NULL);
	}
	sd_event_source_disable_unref(preparer->rung);
	if (preparer->bell >= 0)
		close(preparer->bell);
	pthread_cond_destroy(&preparer->changed);
	pthread_mutex_destroy(&preparer->mutex);
	free(preparer);
}
