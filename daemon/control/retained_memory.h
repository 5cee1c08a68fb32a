// SPDX-License-Identifier: Apache-2.0
/*
 * A client may keep our memfds after it disconnected: mapped, or by a descriptor that it may have passed on. That
 * memory counts against the limits of its user until the kernel frees it, so that memory given to clients stays
 * bounded. An inotify watch for IN_DELETE_SELF on the memfd tells when that is, and does not itself keep the memory.
 * Control thread only.
 */
#ifndef DAEMON_CONTROL_RETAINED_MEMORY_H
#define DAEMON_CONTROL_RETAINED_MEMORY_H

#include "lib/ibvcap/shm.h"

#include <stdbool.h>
#include <sys/queue.h>

#define RETAINED_MEMORY_MAX 3

struct retained_watch {
	int inotify; /* readable when memory was freed; -1: nothing is watched */
	LIST_HEAD(, retained_memory) list;
};

struct retained_memory {
	LIST_ENTRY(retained_memory) link;
	struct retained_watch *watch;     /* NULL: not watched */
	int watches[RETAINED_MEMORY_MAX]; /* of segments that still exist */
	unsigned n;
};

/** 0, or -errno: memory will not be watched. */
int retained_watch_init(struct retained_watch *watch);
/** Nothing is watched any more. */
void retained_watch_deinit(struct retained_watch *watch);

/**
 * Watch n segments, at most RETAINED_MEMORY_MAX, which the caller is about to unmap and close. A segment that is not
 * open, or that the kernel's limits on watches exclude, is left out.
 */
void retained_memory_watch(struct retained_watch *watch, struct retained_memory *memory,
                           const struct shm *const *segments, unsigned n);

/** Read which of all watched segments were freed. */
void retained_watch_read(struct retained_watch *watch);

/** Does one of the segments still exist? */
bool retained_memory_exists(struct retained_memory *memory);

/** Watch no more. No effect if it is not watched. */
void retained_memory_drop(struct retained_memory *memory);

#endif
