// SPDX-License-Identifier: Apache-2.0
/* Calls on descriptors. A call on a descriptor that is not emulated goes straight to the C library. */
#include "ethtool.h"
#include "../uverbs/pitfalls.h"
#include "udmabuf.h"
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* -EIO in a forked child: what the parent has open stays with the parent. */
static int hook_check_owner(const struct fd_object *o)
{
	return root_is_owner() && !fd_object_is_inherited(o) ? 0 : -EIO;
}

HOOK ssize_t write(int fd, const void *buf, size_t bytes)
{
	struct fd_object *o = fdtab_find(&root_peek()->fdtab, fd, FD_ANY);
	ssize_t r;

	if (!o || (o->kind != FD_UVERBS && o->kind != FD_CM)) {
		fd_object_put(o);
		return REAL(write)(fd, buf, bytes);
	}
	r = hook_check_owner(o);
	if (!r)
		r = o->kind == FD_CM ? cm_write((struct cm_file *)o, fd, buf, bytes)
		                     : uverbs_write((struct uverbs_file *)o, buf, bytes);
	fd_object_put(o);
	return ERRNO_RETURN(r);
}

static bool hook_ioctl_ours(struct fd_object *o, unsigned long request, void *arg, int *result)
{
	switch (o->kind) {
	case FD_UVERBS:
		*result = request == RDMA_VERBS_IOCTL ? hook_check_owner(o) : -ENOTTY;
		if (!*result)
			*result = uverbs_ioctl((struct uverbs_file *)o, arg);
		return true;
	case FD_UDMABUF:
		*result = udmabuf_ioctl(root_peek(), request, arg);
		return true;
	case FD_DMABUF:
		*result = udmabuf_ioctl_buffer(request, arg);
		return true;
	default:
		return false;
	}
}

HOOK int ioctl(int fd, unsigned long request, ...)
{
	struct fd_object *o;
	va_list ap;
	void *arg;
	bool ours;
	int r;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (request == SIOCETHTOOL && root_get()->n_devices && ethtool_ours(arg, &r))
		return ERRNO_RETURN(r);
	o = fdtab_find(&root_peek()->fdtab, fd, FD_ANY);
	ours = o && hook_ioctl_ours(o, request, arg, &r);
	fd_object_put(o);
	return ours ? ERRNO_RETURN(r) : REAL(ioctl)(fd, request, arg);
}

/* sysfs makes the text anew when a file is read from its start. Programs read counters in this way. */
static int hook_refresh_at_start(int fd, off_t at)
{
	struct fd_object *o = at ? NULL : fdtab_find(&root_peek()->fdtab, fd, FD_SYSFS_FILE);
	int r = o ? vfs_refresh((struct sysfs_fd *)o, fd) : 0;

	fd_object_put(o);
	return r;
}

static int hook_refresh_read(int fd)
{
	struct fd_object *o = fdtab_find(&root_peek()->fdtab, fd, FD_ANY);
	int r = 0;

	if (o && o->kind == FD_SYSFS_DIR)
		r = -EISDIR;
	else if (o && o->kind == FD_SYSFS_FILE)
		r = hook_refresh_at_start(fd, lseek(fd, 0, SEEK_CUR));
	fd_object_put(o);
	return r;
}

/* If the descriptor is an event channel, reading has made room in it. */
static void hook_flush_channel(int fd)
{
	int saved = errno;
	struct fd_object *o = fdtab_find(&root_peek()->fdtab, fd, FD_CHANNEL);

	if (o && root_is_owner() && !fd_object_is_inherited(o))
		event_channel_flush((struct event_channel *)o);
	fd_object_put(o);
	errno = saved;
}

static void hook_look_at_wait(int fd)
{
	struct root *root = root_peek();
	int saved = errno;
	struct fd_object *o =
		root->n_devices && root->devices[0].config.warnings ? fdtab_find(&root->fdtab, fd, FD_CHANNEL) : NULL;

	if (o && root_is_owner() && !fd_object_is_inherited(o))
		pitfall_of_wait(root->devices, root->n_devices, (struct event_channel *)o);
	fd_object_put(o);
	errno = saved;
}

HOOK ssize_t read(int fd, void *buf, size_t bytes)
{
	ssize_t r = hook_refresh_read(fd);

	if (r)
		return ERRNO_RETURN(r);
	hook_look_at_wait(fd);
	r = REAL(read)(fd, buf, bytes);
	if (fdtab_has(&root_peek()->fdtab, fd))
		hook_flush_channel(fd);
	return r;
}

ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t buf_bytes);
HOOK ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t buf_bytes)
{
	return bytes <= buf_bytes ? read(fd, buf, bytes) : REAL(__read_chk)(fd, buf, bytes, buf_bytes);
}

HOOK ssize_t pread(int fd, void *buf, size_t bytes, off_t at)
{
	int r = hook_refresh_at_start(fd, at);

	return r ? ERRNO_RETURN(r) : REAL(pread)(fd, buf, bytes, at);
}

HOOK ssize_t pread64(int fd, void *buf, size_t bytes, off_t at)
{
	int r = hook_refresh_at_start(fd, at);

	return r ? ERRNO_RETURN(r) : REAL(pread64)(fd, buf, bytes, at);
}

/* The descriptor is closed first, so that its number is free while the object is being released. */
HOOK int close(int fd)
{
	bool ours = fdtab_has(&root_peek()->fdtab, fd) && root_is_owner();
	struct fd_object *o = ours ? fdtab_take(&root_peek()->fdtab, fd) : NULL;
	int r = REAL(close)(fd), saved = errno;

	if (o) {
		fd_object_put(o); /* a call of another thread that uses the object holds a reference of its own */
		errno = saved;
	}
	return r;
}

static void hook_copy_entry(int from, int to)
{
	struct fdtab *t = &root_peek()->fdtab;
	struct fd_object *o;

	if ((!fdtab_has(t, from) && !fdtab_has(t, to)) || !root_is_owner())
		return;
	o = fdtab_find(t, from, FD_ANY);
	if (!o || fdtab_set(t, to, o)) /* fdtab_set() takes the reference over */
		fd_object_put(o);
	if (!o)
		fd_object_put(fdtab_take(t, to));
}

HOOK int dup(int fd)
{
	int r = REAL(dup)(fd);

	if (r >= 0)
		hook_copy_entry(fd, r);
	return r;
}

HOOK int dup2(int from, int to)
{
	int r = REAL(dup2)(from, to);

	if (r >= 0 && from != to)
		hook_copy_entry(from, to);
	return r;
}

HOOK int dup3(int from, int to, int flags)
{
	int r = REAL(dup3)(from, to, flags);

	if (r >= 0)
		hook_copy_entry(from, to);
	return r;
}

#define FCNTL_BODY(name)                                                  \
	va_list ap;                                                       \
	void *arg;                                                        \
	int r;                                                            \
	va_start(ap, command);                                            \
	arg = va_arg(ap, void *);                                         \
	va_end(ap);                                                       \
	r = REAL(name)(fd, command, arg);                                 \
	if (r >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC)) \
		hook_copy_entry(fd, r);                                   \
	return r

HOOK int fcntl(int fd, int command, ...)
{
	FCNTL_BODY(fcntl);
}

HOOK int fcntl64(int fd, int command, ...)
{
	FCNTL_BODY(fcntl64);
}
