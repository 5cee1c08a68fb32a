// SPDX-License-Identifier: Apache-2.0
/* Watches memfds by inotify: IN_DELETE_SELF comes when the last mapping and the last descriptor of one are gone. */
#include "daemon/control/retained_memory.h"

#include "lib/base/size.h"

#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Probe once: on a kernel that accepts the watch but never reports IN_DELETE_SELF, every place would be lost. */
static int try_to_watch(struct retained_watch *watch)
{
	struct shm segment = SHM_INIT;
	const struct shm *const segments[] = {&segment};
	struct retained_memory memory = {0};
	int r = shm_create(&segment, "ibvcap-retained-test", 1, SMALL_PAGE_BYTES);

	if (r < 0)
		return r;
	retained_memory_watch(watch, &memory, segments, 1);
	if (memory.n == 0)
		r = -errno;
	shm_deinit(&segment);
	if (r == 0 && retained_memory_exists(&memory))
		r = -ENOTSUP;
	retained_memory_drop(&memory);
	return r;
}

int retained_watch_init(struct retained_watch *watch)
{
	int r;

	LIST_INIT(&watch->list);
	watch->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	r = watch->inotify < 0 ? -errno : try_to_watch(watch);
	if (r < 0)
		retained_watch_deinit(watch);
	return r;
}

void retained_watch_deinit(struct retained_watch *watch)
{
	if (watch->inotify >= 0)
		close(watch->inotify);
	watch->inotify = -1;
}

void retained_memory_watch(struct retained_watch *watch, struct retained_memory *memory,
                           const struct shm *const *segments, unsigned n)
{
	char path[32];

	memory->n = 0;
	memory->watch = watch;
	LIST_INSERT_HEAD(&watch->list, memory, link);
	for (unsigned i = 0; i < n && i < RETAINED_MEMORY_MAX && watch->inotify >= 0; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", segments[i]->fd);
		int r = segments[i]->fd < 0 ? -1 : inotify_add_watch(watch->inotify, path, IN_DELETE_SELF);

		if (r >= 0)
			memory->watches[memory->n++] = r;
	}
}

static void forget_watch(struct retained_watch *watch, int gone)
{
	struct retained_memory *memory;

	LIST_FOREACH (memory, &watch->list, link)
		for (unsigned i = 0; i < memory->n; i++)
			if (memory->watches[i] == gone)
				memory->watches[i--] = memory->watches[--memory->n];
}

/* A watched file is no directory, so no name follows an event: all events have the same size. */
void retained_watch_read(struct retained_watch *watch)
{
	struct inotify_event events[64];
	ssize_t bytes;

	while ((bytes = read(watch->inotify, events, sizeof(events))) > 0)
		for (size_t i = 0; i < (size_t)bytes / sizeof(events[0]); i++)
			if (events[i].mask & IN_DELETE_SELF)
				forget_watch(watch, events[i].wd);
}

bool retained_memory_exists(struct retained_memory *memory)
{
	if (memory->n > 0)
		retained_watch_read(memory->watch);
	return memory->n > 0;
}

void retained_memory_drop(struct retained_memory *memory)
{
	while (memory->n > 0)
		inotify_rm_watch(memory->watch->inotify, memory->watches[--memory->n]);
	if (memory->watch)
		LIST_REMOVE(memory, link);
	memory->watch = NULL;
}
