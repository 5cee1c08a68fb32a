// SPDX-License-Identifier: Apache-2.0
/* An open device: makes it for open(), and releases it when its last descriptor is closed. */
#include "command.h"
#include "uverbs.h"

#include "../device/injection.h"
#include "../device/netdev.h"
#include "../wire/own_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* mmap() of the device needs memory behind every offset that libmlx5 uses: doorbell pages and the clock. A sparse
 * memfd provides it, and only pages that are touched cost memory. */
#define BAR_BYTES (256ull << 20)

static bool uverbs_has_dead_file(const struct device *d)
{
	const struct uverbs_file *f;

	LIST_FOREACH (f, &d->files, link)
		if (f->dead)
			return true;
	return false;
}

static void uverbs_file_release(struct fd_object *o)
{
	struct uverbs_file *f = (struct uverbs_file *)o;
	struct event_channel *c;

	/* As the kernel does when the last descriptor is closed: destroy everything that is still there, users
	 * first. */
	if (f->has_context)
		injection_command(f->device);
	flows_leave_kernel(f);
	objects_destroy_all(f);
	context_unmap_clock(f); /* while a child that is forked now still sees an open file */
	device_lock(f->device);
	LIST_REMOVE(f, link);
	f->device->halted &= uverbs_has_dead_file(f->device);
	f->device->n_contexts -= f->has_context;
	device_unlock(f->device);
	while ((c = STAILQ_FIRST(&f->async))) {
		STAILQ_REMOVE_HEAD(&f->async, link);
		fd_object_put(&c->fd_object);
	}
	syscall(SYS_close, f->memfd);
	pthread_mutex_destroy(&f->context_lock);
	free(f);
}

int uverbs_open(struct device *device, const struct uverbs_env *env, int flags)
{
	int fd = memfd_create("uverbs", MFD_CLOEXEC | MFD_ALLOW_SEALING), r;
	struct uverbs_file *f;

	if (fd < 0)
		return -errno;
	if (!(flags & O_CLOEXEC))
		fcntl(fd, F_SETFD, 0);
	f = calloc(1, sizeof(*f));
	if (!f || ftruncate(fd, BAR_BYTES) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		r = f ? -errno : -ENOMEM;
		goto fail;
	}
	STAILQ_INIT(&f->async);
	f->fd_object.kind = FD_UVERBS;
	f->fd_object.refs = 1;
	f->fd_object.release = uverbs_file_release;
	f->device = device;
	f->fdtab = env->fdtab;
	f->memlock = env->memlock;
	f->clock = env->clock;
	pthread_mutex_init(&f->context_lock, NULL);
	f->memfd = own_fd_copy(fd);
	if (f->memfd < 0) {
		r = f->memfd;
		goto fail;
	}
	device_lock(device);
	if (LIST_EMPTY(&device->files)) /* no context has watched the port until now */
		device->port_active = netdev_link_up(device_port_netdev(device));
	LIST_INSERT_HEAD(&device->files, f, link);
	device_unlock(device);
	r = fdtab_set(env->fdtab, fd, &f->fd_object);
	if (!r)
		return fd;
	fd_object_put(&f->fd_object);
	f = NULL;
fail:
	free(f);
	syscall(SYS_close, fd);
	return r;
}
