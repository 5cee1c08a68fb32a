// SPDX-License-Identifier: Apache-2.0
/*
 * The background runner: a queue of jobs that a thread empties, and a queue of worked jobs that the event loop
 * empties by calling done. One mutex guards both; an eventfd wakes the loop.
 */
#include "daemon/base/background.h"

#include "daemon/base/thread.h"
#include "lib/base/time.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

STAILQ_HEAD(job_queue, background_job);

struct background {
	pthread_t thread;
	bool runs;
	int nice;
	struct heartbeat heartbeat; /* the thread sleeps on its wake_fd */
	int bell;                   /* rung when a job was worked */
	sd_event_source *rung;
	pthread_mutex_t mutex; /* for everything below */
	pthread_cond_t worked_one;
	struct job_queue queued;
	struct job_queue worked;
	struct background_job *at_work;
	uint64_t overdue_ns; /* CLOCK_MONOTONIC: when the allowance of the job at work ends */
	bool stop;
};

/* ---- the thread ------------------------------------------------------------------------------------ */

static struct background_job *background_take_job(struct background *background)
{
	struct background_job *job = STAILQ_FIRST(&background->queued);

	if (!job)
		return NULL;
	STAILQ_REMOVE_HEAD(&background->queued, link);
	background->overdue_ns = time_monotonic_ns() + job->allowance_us * 1000;
	heartbeat_allow_until(&background->heartbeat, background->overdue_ns);
	return job;
}

static void *background_main(void *context)
{
	struct background *background = context;
	eventfd_t rings;

	if (background->nice)
		setpriority(PRIO_PROCESS, (id_t)gettid(), background->nice);
	pthread_mutex_lock(&background->mutex);
	while (!background->stop) {
		struct background_job *job = background->at_work = background_take_job(background);

		pthread_mutex_unlock(&background->mutex);
		heartbeat_beat(&background->heartbeat);
		if (!job) {
			eventfd_read(background->heartbeat.wake_fd, &rings);
			pthread_mutex_lock(&background->mutex);
			continue;
		}
		job->work(job->context);
		heartbeat_beat(&background->heartbeat); /* before its allowance ends */
		pthread_mutex_lock(&background->mutex);
		STAILQ_INSERT_TAIL(&background->worked, job, link);
		background->at_work = NULL;
		heartbeat_allow_until(&background->heartbeat, 0);
		pthread_cond_broadcast(&background->worked_one);
		eventfd_write(background->bell, 1);
	}
	pthread_mutex_unlock(&background->mutex);
	return NULL;
}

/* ---- the event loop's side ------------------------------------------------------------------------- */

/* done is called without the mutex, because it may add a job. */
static void background_finish(struct background *background)
{
	struct background_job *job;

	do {
		pthread_mutex_lock(&background->mutex);
		job = STAILQ_FIRST(&background->worked);
		if (job)
			STAILQ_REMOVE_HEAD(&background->worked, link);
		pthread_mutex_unlock(&background->mutex);
		if (job)
			job->done(job->context);
	} while (job);
}

static int on_background_rung(sd_event_source *, int fd, uint32_t, void *context)
{
	eventfd_t count;

	eventfd_read(fd, &count);
	background_finish(context);
	return 0;
}

void background_add(struct background *background, struct background_job *job)
{
	pthread_mutex_lock(&background->mutex);
	STAILQ_INSERT_TAIL(&background->queued, job, link);
	pthread_mutex_unlock(&background->mutex);
	eventfd_write(background->heartbeat.wake_fd, 1);
}

struct heartbeat *background_heartbeat(struct background *background)
{
	return &background->heartbeat;
}

/* When the patience ends: at until_ns, but not before the allowance of the job at work. */
static uint64_t background_gives_up_at_ns(const struct background *background, uint64_t until_ns)
{
	return background->at_work && background->overdue_ns > until_ns ? background->overdue_ns : until_ns;
}

/* Waits for a job to be worked, or for the end of the patience. The mutex is held. */
static void background_wait(struct background *background, uint64_t until_ns)
{
	uint64_t end_ns = background_gives_up_at_ns(background, until_ns);
	const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000), .tv_nsec = (long)(end_ns % 1000000000)};

	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&background->worked_one, &background->mutex);
	else
		pthread_cond_timedwait(&background->worked_one, &background->mutex, &end);
}

uint64_t background_overdue_us(struct background *background)
{
	uint64_t now_ns = time_monotonic_ns(), overdue_ns = now_ns;

	pthread_mutex_lock(&background->mutex);
	if (background->at_work)
		overdue_ns = background->overdue_ns;
	pthread_mutex_unlock(&background->mutex);
	return now_ns > overdue_ns ? (now_ns - overdue_ns) / 1000 : 0;
}

bool background_drain(struct background *background, uint64_t patience_us)
{
	uint64_t until_ns = patience_us == BACKGROUND_FOR_EVER ? UINT64_MAX : time_monotonic_ns() + patience_us * 1000;
	bool is_empty = !background, is_over = false;

	while (!is_empty && !is_over) {
		pthread_mutex_lock(&background->mutex);
		while (background->at_work || !STAILQ_EMPTY(&background->queued)) {
			is_over = time_monotonic_ns() >= background_gives_up_at_ns(background, until_ns);
			if (is_over)
				break;
			background_wait(background, until_ns);
		}
		is_empty = !is_over && STAILQ_EMPTY(&background->worked);
		pthread_mutex_unlock(&background->mutex);
		background_finish(background);
	}
	return is_empty;
}

/* ---- life ------------------------------------------------------------------------------------------ */

int background_new(struct background **out, sd_event *event, const char *name, int nice)
{
	struct background *background = calloc(1, sizeof(*background));
	pthread_condattr_t monotonic;
	int r;

	if (!background)
		return -ENOMEM;
	background->nice = nice;
	pthread_mutex_init(&background->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&background->worked_one, &monotonic);
	pthread_condattr_destroy(&monotonic);
	STAILQ_INIT(&background->queued);
	STAILQ_INIT(&background->worked);
	background->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	background->heartbeat.wake_fd = eventfd(0, EFD_CLOEXEC);
	r = background->bell < 0 || background->heartbeat.wake_fd < 0 ? -errno : 0;
	if (r == 0)
		r = sd_event_add_io(event, &background->rung, background->bell, EPOLLIN, on_background_rung,
		                    background);
	if (r >= 0)
		r = thread_start(&background->thread, name, -1, background_main, background);
	background->runs = r == 0;
	if (r < 0) {
		background_free(background);
		return r;
	}
	*out = background;
	return 0;
}

/* Returns whether a job is at work. */
static bool background_stop(struct background *background)
{
	bool is_at_work;

	pthread_mutex_lock(&background->mutex);
	background->stop = true;
	is_at_work = background->at_work;
	pthread_mutex_unlock(&background->mutex);
	eventfd_write(background->heartbeat.wake_fd, 1);
	return is_at_work;
}

void background_free(struct background *background)
{
	if (!background)
		return;
	heartbeat_unwatch(&background->heartbeat);
	background_stop(background);
	if (background->runs)
		pthread_join(background->thread, NULL);
	sd_event_source_disable_unref(background->rung);
	if (background->bell >= 0)
		close(background->bell);
	if (background->heartbeat.wake_fd >= 0)
		close(background->heartbeat.wake_fd);
	pthread_cond_destroy(&background->worked_one);
	pthread_mutex_destroy(&background->mutex);
	free(background);
}

bool background_abandon(struct background *background)
{
	if (background_stop(background)) {
		heartbeat_unwatch(&background->heartbeat);
		sd_event_source_disable_unref(background->rung);
		pthread_detach(background->thread);
		return false;
	}
	background_free(background);
	return true;
}
