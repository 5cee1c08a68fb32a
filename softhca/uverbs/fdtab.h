// SPDX-License-Identifier: Apache-2.0
/*
 * Which descriptors of the program stand for an emulated object. For a descriptor that does not, the answer takes no
 * lock, because every read() and close() of the program asks. A caller that finds an object gets a reference, as a
 * system call does (fdget): if another thread closes the descriptor, the object ends only afterwards.
 */
#ifndef SOFTHCA_UVERBS_FDTAB_H
#define SOFTHCA_UVERBS_FDTAB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum fd_kind { FD_ANY, FD_UVERBS, FD_CHANNEL, FD_SYSFS_DIR, FD_SYSFS_FILE, FD_NETLINK, FD_CM, FD_UDMABUF, FD_DMABUF };

/* Embedded in the object. There is one reference for each descriptor and each call that uses it. */
struct fd_object {
	enum fd_kind kind;
	atomic_uint refs;
	/* of the file behind the descriptor; tells an entry whose descriptor was closed without our seeing it */
	dev_t dev;
	ino_t ino;
	void (*release)(struct fd_object *o);
	unsigned int generation; /* of the process that made it: grows by one with each fork(); 0: in no table yet */
};

#define FDTAB_SIZE 65536

struct fdtab {
	pthread_mutex_t lock; /* held from finding an entry until the reference is taken */
	_Atomic(struct fd_object *) fds[FDTAB_SIZE];
};

void fdtab_init(struct fdtab *t); /* a zeroed table */
/* In a forked child: objects that are there now are inherited from now on. A thread that does not exist here may hold
 * their locks, so they are never released. */
void fdtab_forked(struct fdtab *t);
bool fd_object_is_inherited(const struct fd_object *o);

/* Takes over the caller's reference. 0, or -EMFILE for a descriptor beyond the table. */
int fdtab_set(struct fdtab *t, int fd, struct fd_object *o);
/* Is there an entry? It may be a stale one. */
bool fdtab_has(struct fdtab *t, int fd);
/* A reference to the object behind `fd`, or NULL if there is none of this kind. */
struct fd_object *fdtab_find(struct fdtab *t, int fd, enum fd_kind kind);
/* To be called when the descriptor is being closed. Gives the entry's reference to the caller; NULL if there was no
 * entry. */
struct fd_object *fdtab_take(struct fdtab *t, int fd);
void fd_object_get(struct fd_object *o);
void fd_object_put(struct fd_object *o);

#endif
