// SPDX-License-Identifier: Apache-2.0
/*
 * Which file descriptors of the program stand for something of ours. Looking one up takes no
 * lock, because every read() and close() of the program comes past.
 */
#ifndef SOFTHCA_UVERBS_FDTAB_H
#define SOFTHCA_UVERBS_FDTAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum fd_kind { FD_UVERBS, FD_CHANNEL, FD_SYSFS_DIR, FD_SYSFS_FILE };

/* Embedded in the object a descriptor stands for; one reference a descriptor. */
struct fd_object {
	enum fd_kind kind;
	atomic_uint refs;
	dev_t dev; /* of the file behind it: tells a stale entry, closed behind our back */
	ino_t ino;
	void (*release)(struct fd_object *o);
};

#define FDTAB_SIZE 65536

struct fdtab {
	_Atomic(struct fd_object *) fds[FDTAB_SIZE];
};

/* Takes over the caller's reference. 0, or -EMFILE for a descriptor beyond the table. */
int fdtab_set(struct fdtab *t, int fd, struct fd_object *o);
/* The object of `kind` behind `fd`, or NULL. No reference is taken. */
struct fd_object *fdtab_find(struct fdtab *t, int fd, enum fd_kind kind);
/* Any kind; does not check for staleness. */
struct fd_object *fdtab_peek(struct fdtab *t, int fd);
/* The descriptor is being closed: gives the entry's reference to the caller, or NULL. */
struct fd_object *fdtab_take(struct fdtab *t, int fd);
void fd_object_get(struct fd_object *o);
void fd_object_put(struct fd_object *o);

#endif
