// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/kept.h"

#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#define SMALL_PAGE 4096

/* Where the kernel let memory be watched and said nothing of its end, each place that was had once would be lost. */
static int try_to_watch(struct kept_watch *watch)
{
	struct shm memory = SHM_INIT;
	const struct shm *const segments[] = {&memory};
	struct kept kept = {0};
	int r = shm_create(&memory, "ibvcap-kept-test", 1, SMALL_PAGE);

	if (r < 0)
		return r;
	kept_take(watch, &kept, segments, 1);
	if (kept.n == 0)
		r = -errno;
	shm_deinit(&memory);
	if (r == 0 && kept_look(&kept))
		r = -ENOTSUP;
	kept_drop(&kept);
	return r;
}

int kept_watch_init(struct kept_watch *watch)
{
	int r;

	LIST_INIT(&watch->list);
	watch->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	r = watch->inotify < 0 ? -errno : try_to_watch(watch);
	if (r < 0)
		kept_watch_deinit(watch);
	return r;
}

void kept_watch_deinit(struct kept_watch *watch)
{
	if (watch->inotify >= 0)
		close(watch->inotify);
	watch->inotify = -1;
}

void kept_take(struct kept_watch *watch, struct kept *kept, const struct shm *const *segments, unsigned n)
{
	char path[32];

	kept->n = 0;
	kept->watch = watch;
	LIST_INSERT_HEAD(&watch->list, kept, link);
	for (unsigned i = 0; i < n && i < KEPT_MAX && watch->inotify >= 0; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", segments[i]->fd);
		int r = segments[i]->fd < 0 ? -1 : inotify_add_watch(watch->inotify, path, IN_DELETE_SELF);

		if (r >= 0)
			kept->watches[kept->n++] = r;
	}
}

static void forget(struct kept_watch *watch, int gone)
{
	struct kept *kept;

	LIST_FOREACH (kept, &watch->list, link)
		for (unsigned i = 0; i < kept->n; i++)
			if (kept->watches[i] == gone)
				kept->watches[i--] = kept->watches[--kept->n];
}

/* An event has no name behind it, since what is watched is no directory. */
void kept_watch_read(struct kept_watch *watch)
{
	struct inotify_event events[64];
	ssize_t bytes;

	while ((bytes = read(watch->inotify, events, sizeof(events))) > 0)
		for (size_t i = 0; i < (size_t)bytes / sizeof(events[0]); i++)
			if (events[i].mask & IN_DELETE_SELF)
				forget(watch, events[i].wd);
}

bool kept_look(struct kept *kept)
{
	if (kept->n > 0)
		kept_watch_read(kept->watch);
	return kept->n > 0;
}

void kept_drop(struct kept *kept)
{
	while (kept->n > 0)
		inotify_rm_watch(kept->watch->inotify, kept->watches[--kept->n]);
	if (kept->watch)
		LIST_REMOVE(kept, link);
	kept->watch = NULL;
}
