// SPDX-License-Identifier: Apache-2.0
#include "fdtab.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Not fstat(): that one is ours. */
static int identify(int fd, dev_t *dev, ino_t *ino)
{
	struct statx stx;

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &stx))
		return -errno;
	*dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
	*ino = stx.stx_ino;
	return 0;
}

int fdtab_set(struct fdtab *t, int fd, struct fd_object *o)
{
	struct fd_object *old;
	int r;

	if (fd < 0 || fd >= FDTAB_SIZE)
		return -EMFILE;
	r = identify(fd, &o->dev, &o->ino);
	if (r)
		return r;
	old = atomic_exchange(&t->fds[fd], o);
	if (old)
		fd_object_put(old); /* it was closed where we could not see it */
	return 0;
}

struct fd_object *fdtab_peek(struct fdtab *t, int fd)
{
	return fd < 0 || fd >= FDTAB_SIZE
		       ? NULL
		       : atomic_load_explicit(&t->fds[fd], memory_order_acquire);
}

static bool is_stale(const struct fd_object *o, int fd)
{
	dev_t dev;
	ino_t ino;

	return identify(fd, &dev, &ino) || dev != o->dev || ino != o->ino;
}

struct fd_object *fdtab_find(struct fdtab *t, int fd, enum fd_kind kind)
{
	struct fd_object *o = fdtab_peek(t, fd);

	return o && o->kind == kind && !is_stale(o, fd) ? o : NULL;
}

struct fd_object *fdtab_take(struct fdtab *t, int fd)
{
	if (!fdtab_peek(t, fd))
		return NULL;
	return atomic_exchange(&t->fds[fd], NULL);
}

void fd_object_get(struct fd_object *o)
{
	atomic_fetch_add(&o->refs, 1);
}

void fd_object_put(struct fd_object *o)
{
	if (o && atomic_fetch_sub(&o->refs, 1) == 1)
		o->release(o);
}
