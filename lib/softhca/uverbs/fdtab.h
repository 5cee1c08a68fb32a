// SPDX-License-Identifier: Apache-2.0
/*
 * Which file descriptors of the program stand for something of ours. That one does not costs no
 * lock, because every read() and close() of the program comes past. Who finds an object holds a
 * reference to it, as a system call does (fdget): another thread's close() ends it afterwards.
 */
#ifndef SOFTHCA_UVERBS_FDTAB_H
#define SOFTHCA_UVERBS_FDTAB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum fd_kind { FD_UVERBS, FD_CHANNEL, FD_SYSFS_DIR, FD_SYSFS_FILE };

/* Embedded in the object a descriptor stands for; one reference a descriptor and call. */
struct fd_object {
	enum fd_kind kind;
	atomic_uint refs;
	dev_t dev; /* of the file behind it: tells a stale entry, closed behind our back */
	ino_t ino;
	void (*release)(struct fd_object *o);
};

#define FDTAB_SIZE 65536

struct fdtab {
	pthread_mutex_t lock; /* from finding an entry to having the reference */
	_Atomic(struct fd_object *) fds[FDTAB_SIZE];
};

/* Of a zeroed table; also in a forked child, where a thread that is not there may have the lock. */
void fdtab_init(struct fdtab *t);

/* Takes over the caller's reference. 0, or -EMFILE for a descriptor beyond the table. */
int fdtab_set(struct fdtab *t, int fd, struct fd_object *o);
/* Is there an entry, if only a stale one? */
bool fdtab_has(struct fdtab *t, int fd);
/* A reference to the object behind `fd`, or NULL. */
struct fd_object *fdtab_get(struct fdtab *t, int fd);
/* The same, if the object is of this kind. */
struct fd_object *fdtab_find(struct fdtab *t, int fd, enum fd_kind kind);
/* The descriptor is being closed: gives the entry's reference to the caller, or NULL. */
struct fd_object *fdtab_take(struct fdtab *t, int fd);
void fd_object_get(struct fd_object *o);
void fd_object_put(struct fd_object *o);

#endif
