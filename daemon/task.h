// SPDX-License-Identifier: Apache-2.0
/* Work that may take its time, in a thread of its own: the control thread goes on, and hears when it is done. */
#ifndef DAEMON_TASK_H
#define DAEMON_TASK_H

#include <pthread.h>
#include <stdbool.h>
#include <systemd/sd-event.h>

struct task {
	pthread_t thread;
	bool runs;
	int bell;
	sd_event_source *rung;
	void (*work)(void *context); /* in the thread: context is its own until done */
	void (*done)(void *context); /* from the event loop; ends the task */
	void *context;
};

#define TASK_INIT          \
	{                  \
		.bell = -1 \
	}

/** Begin; task stays where it is until it ends. 0, or -errno: then neither is called. */
int task_begin(struct task *task, sd_event *event, void (*work)(void *context), void (*done)(void *context),
               void *context);

/** Wait for the thread. done is not called any more. Any state. */
void task_end(struct task *task);

/** The same without waiting. False: it works still, and has the task and its context until the process ends. */
bool task_try_end(struct task *task);

#endif
