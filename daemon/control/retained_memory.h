// SPDX-License-Identifier: Apache-2.0
/*
 * Memory that a client keeps though it has left: mapped, or by a descriptor of any kind. Its pages are there for as long as
 * it likes, so they count as its own until it lets go of them. The kernel says when a memfd, which no directory has, is
 * gone for everybody, by an inotify watch, which does not keep it itself. Control thread only.
 */
#ifndef DAEMON_CONTROL_KEPT_H
#define DAEMON_CONTROL_KEPT_H

#include "lib/ibvcap/shm.h"

#include <stdbool.h>
#include <sys/queue.h>

#define KEPT_MAX 3

struct retained_watch {
	int inotify; /* readable when something has gone; -1: nothing is watched */
	LIST_HEAD(, retained_memory) list;
};

struct retained_memory {
	LIST_ENTRY(retained_memory) link;
	struct retained_watch *watch; /* NULL: in no list */
	int watches[KEPT_MAX];        /* of segments that are not gone yet */
	unsigned n;
};

/** -errno: nothing will be watched. */
int retained_watch_init(struct retained_watch *watch);
/** All were dropped. */
void retained_watch_deinit(struct retained_watch *watch);

/**
 * Watch so many segments, at most KEPT_MAX, that are about to be unmapped and closed here; what is not open, or what the
 * kernel's limits do not let be watched, is not.
 */
void retained_memory_watch(struct retained_watch *watch, struct retained_memory *memory,
                           const struct shm *const *segments, unsigned n);

/** Hear what has gone, of all. */
void retained_watch_read(struct retained_watch *watch);

/** Is one of them still there? */
bool retained_memory_exists(struct retained_memory *memory);

/** What was never taken is dropped already. */
void retained_memory_drop(struct retained_memory *memory);

#endif
