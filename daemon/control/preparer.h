// SPDX-License-Identifier: Apache-2.0
/*
 * What takes its time, and keeps nobody waiting but who asked for it: zeroing and locking memory of many MiB, giving it
 * back. One thread does one piece after the other, no two of one user's while another waits; control serves its clients
 * meanwhile. Control thread only, but for the work.
 */
#ifndef DAEMON_CONTROL_PREPARER_H
#define DAEMON_CONTROL_PREPARER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

/* Embedded in what the work is about; in no queue but one. */
struct job {
	STAILQ_ENTRY(job) link;
	void (*work)(struct job *job); /* by the thread; what it looks at stays until done */
	void (*done)(struct job *job); /* from the loop, or from preparer_drain(); may free what the job is in */
	uid_t user;                    /* whose it is: in turns */
	uint64_t bytes;                /* of memory that it is about: it has its time by those */
};

struct preparer;

/** Starts the thread. 0 or -errno. */
int preparer_new(struct preparer **preparer, sd_event *event);
/** Nothing is queued. NULL is fine. */
void preparer_free(struct preparer *preparer);

void preparer_add(struct preparer *preparer, struct job *job);

/**
 * Has the thread done a piece, or had nothing to do, since this was last asked, or is it at one that may still take its
 * time? Wakes it. True at first.
 */
bool preparer_is_alive(struct preparer *preparer);

/** Wait until all is done, also what that adds. */
void preparer_drain(struct preparer *preparer);

#endif
