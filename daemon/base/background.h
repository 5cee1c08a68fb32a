// SPDX-License-Identifier: Apache-2.0
/*
 * A thread that runs jobs that may take long (zeroing, locking and freeing memory, reading a configuration, calls that
 * a client can make slow) while the control thread goes on. It runs one job after the other, in the order in which they
 * were added. Control thread only, but for the work.
 */
#ifndef DAEMON_BASE_BACKGROUND_H
#define DAEMON_BASE_BACKGROUND_H

#include "daemon/base/heartbeat.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

/* Embedded in the object that the job is about; in one runner at a time. */
struct background_job {
	STAILQ_ENTRY(background_job) link;
	void (*work)(void *context); /* in the thread; the object belongs to it until done is called */
	void (*done)(void *context); /* from the event loop or background_drain(); may free the object */
	void *context;
	uint64_t allowance_us; /* the watchdog finds the thread stuck if the job takes longer (heartbeat.h) */
};

struct background;

/**
 * Start a thread of that name (15 bytes at most) and nice value, 0 to 19: the daemon may not raise its priority. 0 or
 * -errno.
 */
int background_new(struct background **background, sd_event *event, const char *name, int nice);

/** Wait for the thread. No job may be in the runner. NULL: no effect. */
void background_free(struct background *background);

/**
 * End the runner without waiting for the job that the thread works on. True: there is no such job, the runner is
 * freed, and the jobs in it belong to the caller. False: the job and the runner belong to the thread until the
 * process ends. done is not called in either case.
 */
bool background_abandon(struct background *background);

/** The job may be worked on before this returns. */
void background_add(struct background *background, struct background_job *job);

/** For how long the job at work has taken longer than its allowance; 0: it has not, or there is none. */
uint64_t background_overdue_us(struct background *background);

/** For heartbeat_watch(). While the thread works on a job, it has the allowance of the job. */
struct heartbeat *background_heartbeat(struct background *background);

/**
 * Wait until every job is done, including those that are added meanwhile. False: after patience_us a job is at work
 * that takes longer than its allowance; it and those behind it go on. BACKGROUND_FOR_EVER: wait however long it takes.
 * NULL: true.
 */
#define BACKGROUND_FOR_EVER UINT64_MAX
bool background_drain(struct background *background, uint64_t patience_us);

#endif
