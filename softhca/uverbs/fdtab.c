// SPDX-License-Identifier: Apache-2.0
/* The table of the program's descriptors that stand for emulated objects. */
#include "fdtab.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static unsigned int current_generation = 1;

/* Not fstat(), which would be the interposed one. */
static int fdtab_identify(int fd, dev_t *dev, ino_t *ino)
{
	struct statx stx;

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &stx))
		return -errno;
	*dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
	*ino = stx.stx_ino;
	return 0;
}

void fdtab_init(struct fdtab *t)
{
	pthread_mutex_init(&t->lock, NULL);
}

void fdtab_forked(struct fdtab *t)
{
	current_generation++;
	fdtab_init(t);
}

bool fd_object_is_inherited(const struct fd_object *o)
{
	return o->generation != current_generation;
}

static struct fd_object *fdtab_exchange(struct fdtab *t, int fd, struct fd_object *o)
{
	struct fd_object *old;

	pthread_mutex_lock(&t->lock);
	old = atomic_exchange(&t->fds[fd], o);
	pthread_mutex_unlock(&t->lock);
	return old;
}

int fdtab_set(struct fdtab *t, int fd, struct fd_object *o)
{
	int r;

	if (fd < 0 || fd >= FDTAB_SIZE)
		return -EMFILE;
	r = fdtab_identify(fd, &o->dev, &o->ino);
	if (r)
		return r;
	if (!o->generation)
		o->generation = current_generation;
	/* the old entry is of a descriptor that was closed where we could not see it */
	fd_object_put(fdtab_exchange(t, fd, o));
	return 0;
}

bool fdtab_has(struct fdtab *t, int fd)
{
	return fd >= 0 && fd < FDTAB_SIZE && atomic_load_explicit(&t->fds[fd], memory_order_relaxed);
}

static bool fd_object_is_stale(const struct fd_object *o, int fd)
{
	dev_t dev;
	ino_t ino;

	return fdtab_identify(fd, &dev, &ino) || dev != o->dev || ino != o->ino;
}

struct fd_object *fdtab_find(struct fdtab *t, int fd, enum fd_kind kind)
{
	struct fd_object *o;

	if (!fdtab_has(t, fd))
		return NULL;
	pthread_mutex_lock(&t->lock);
	o = atomic_load(&t->fds[fd]);
	if (o && kind != FD_ANY && o->kind != kind)
		o = NULL;
	if (o)
		fd_object_get(o);
	pthread_mutex_unlock(&t->lock);
	if (!o || !fd_object_is_stale(o, fd))
		return o;
	fd_object_put(o);
	return NULL;
}

struct fd_object *fdtab_take(struct fdtab *t, int fd)
{
	return fdtab_has(t, fd) ? fdtab_exchange(t, fd, NULL) : NULL;
}

void fd_object_get(struct fd_object *o)
{
	atomic_fetch_add(&o->refs, 1);
}

void fd_object_put(struct fd_object *o)
{
	if (o && atomic_fetch_sub(&o->refs, 1) == 1 && !(o->generation && fd_object_is_inherited(o)))
		o->release(o);
}
