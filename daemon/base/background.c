// SPDX-License-Identifier: Apache-2.0
/*
 * The background runner: a queue of jobs that a thread empties, and a queue of worked jobs that the event loop
 * empties by calling done. One mutex guards both; an eventfd wakes the loop.
 */
#include "daemon/base/background.h"

#include "daemon/base/time.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

STAILQ_HEAD(job_queue, background_job);

struct background {
	pthread_t thread;
	bool runs;
	struct heartbeat heartbeat; /* the thread sleeps on its wake_fd */
	int bell;                   /* rung when a job was worked */
	sd_event_source *rung;
	pthread_mutex_t mutex; /* for everything below */
	pthread_cond_t worked_one;
	struct job_queue queued;
	struct job_queue worked;
	struct background_job *at_work;
	const void *served; /* the user of the last job */
	bool stop;
};

/* ---- the thread ------------------------------------------------------------------------------------ */

/* The oldest job of another user than the last one, if there is one: a user with many jobs delays nobody for long. */
static struct background_job *background_take_job(struct background *background)
{
	struct background_job *job;

	STAILQ_FOREACH (job, &background->queued, link)
		if (job->user != background->served)
			break;
	if (!job)
		job = STAILQ_FIRST(&background->queued);
	if (!job)
		return NULL;
	STAILQ_REMOVE(&background->queued, job, background_job, link);
	background->served = job->user;
	heartbeat_allow_until(&background->heartbeat, time_monotonic_ns() + job->allowance_us * 1000);
	return job;
}

static void *background_main(void *context)
{
	struct background *background = context;
	eventfd_t rings;

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
		job->work(job);
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
			job->done(job);
	} while (job);
}

static int on_background_rung(sd_event_source *source, int fd, uint32_t events, void *context)
{
	eventfd_t count;

	(void)source;
	(void)events;
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

void background_drain(struct background *background)
{
	bool is_empty = !background;

	while (!is_empty) {
		pthread_mutex_lock(&background->mutex);
		while (background->at_work || !STAILQ_EMPTY(&background->queued))
			pthread_cond_wait(&background->worked_one, &background->mutex);
		is_empty = STAILQ_EMPTY(&background->worked);
		pthread_mutex_unlock(&background->mutex);
		background_finish(background);
	}
}

/* ---- life ------------------------------------------------------------------------------------------ */

/* All signals are the control thread's. */
static int background_start(struct background *background, const char *name)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&background->thread, NULL, background_main, background);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	background->runs = error == 0;
	if (error == 0)
		pthread_setname_np(background->thread, name);
	return -error;
}

int background_new(struct background **out, sd_event *event, const char *name)
{
	struct background *background = calloc(1, sizeof(*background));
	int r;

	if (!background)
		return -ENOMEM;
	pthread_mutex_init(&background->mutex, NULL);
	pthread_cond_init(&background->worked_one, NULL);
	STAILQ_INIT(&background->queued);
	STAILQ_INIT(&background->worked);
	background->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	background->heartbeat.wake_fd = eventfd(0, EFD_CLOEXEC);
	r = background->bell < 0 || background->heartbeat.wake_fd < 0 ? -errno : 0;
	if (r == 0)
		r = sd_event_add_io(event, &background->rung, background->bell, EPOLLIN, on_background_rung,
		                    background);
	if (r >= 0)
		r = background_start(background, name);
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
