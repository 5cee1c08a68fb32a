// SPDX-License-Identifier: Apache-2.0
#include "daemon/task.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *run(void *context)
{
	struct task *task = context;

	task->work(task->context);
	eventfd_write(task->bell, 1);
	return NULL;
}

static int on_rung(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct task *task = context;

	(void)source;
	(void)fd;
	(void)events;
	task->done(task->context);
	return 0;
}

int task_begin(struct task *task, sd_event *event, void (*work)(void *context), void (*done)(void *context),
               void *context)
{
	int r;

	*task = (struct task){.bell = eventfd(0, EFD_CLOEXEC), .work = work, .done = done, .context = context};
	if (task->bell < 0)
		return -errno;
	r = sd_event_add_io(event, &task->rung, task->bell, EPOLLIN, on_rung, task);
	if (r >= 0)
		r = -pthread_create(&task->thread, NULL, run, task);
	task->runs = r == 0;
	if (r < 0)
		task_end(task);
	return r;
}

void task_end(struct task *task)
{
	if (task->runs)
		pthread_join(task->thread, NULL);
	sd_event_source_disable_unref(task->rung);
	if (task->bell >= 0)
		close(task->bell);
	*task = (struct task)TASK_INIT;
}

bool task_try_end(struct task *task)
{
	if (task->runs && pthread_tryjoin_np(task->thread, NULL) != 0) {
		task->rung = sd_event_source_disable_unref(task->rung);
		pthread_detach(task->thread);
		return false;
	}
	task->runs = false;
	task_end(task);
	return true;
}
