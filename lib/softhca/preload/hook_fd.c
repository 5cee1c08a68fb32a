// SPDX-License-Identifier: Apache-2.0
/* Calls on descriptors, and socket(). Whatever is not ours goes straight on. */
#include "ethtool.h"
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static struct uverbs_file *uverbs_of(int fd)
{
	return (struct uverbs_file *)fdtab_find(&root_peek()->fdtab, fd, FD_UVERBS);
}

/* -EIO in a forked child: the device stayed with the parent. */
static int alive(void)
{
	return root_is_owner() ? 0 : -EIO;
}

HOOK ssize_t write(int fd, const void *buf, size_t bytes)
{
	struct uverbs_file *f;
	ssize_t r;

	if (!fdtab_peek(&root_peek()->fdtab, fd) || !(f = uverbs_of(fd)))
		return REAL(write)(fd, buf, bytes);
	r = alive();
	if (!r)
		r = uverbs_write(f, buf, bytes);
	return ERRNO_RETURN(r);
}

HOOK int ioctl(int fd, unsigned long request, ...)
{
	struct uverbs_file *f;
	va_list ap;
	void *arg;
	int r;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (request == SIOCETHTOOL && root_get()->n_devices && ethtool_ours(arg, &r))
		return ERRNO_RETURN(r);
	if (!fdtab_peek(&root_peek()->fdtab, fd) || !(f = uverbs_of(fd)))
		return REAL(ioctl)(fd, request, arg);
	if (request != RDMA_VERBS_IOCTL) {
		errno = ENOTTY;
		return -1;
	}
	r = alive();
	if (!r)
		r = uverbs_ioctl(f, arg);
	return ERRNO_RETURN(r);
}

/* sysfs makes the text anew for a read from the start; counters are read that way. */
static int refresh_at_start(int fd, off_t at)
{
	struct fd_object *o = fdtab_peek(&root_peek()->fdtab, fd);

	if (!o || o->kind != FD_SYSFS_FILE || at)
		return 0;
	o = fdtab_find(&root_peek()->fdtab, fd, FD_SYSFS_FILE);
	return o ? vfs_refresh((struct sysfs_fd *)o, fd) : 0;
}

static int refresh_read(int fd)
{
	struct fd_object *o = fdtab_peek(&root_peek()->fdtab, fd);

	if (!o || o->kind == FD_CHANNEL || o->kind == FD_UVERBS)
		return 0;
	return o->kind == FD_SYSFS_DIR ? -EISDIR : refresh_at_start(fd, lseek(fd, 0, SEEK_CUR));
}

HOOK ssize_t read(int fd, void *buf, size_t bytes)
{
	int r = refresh_read(fd);

	return r ? ERRNO_RETURN(r) : REAL(read)(fd, buf, bytes);
}

ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t buf_bytes);
HOOK ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t buf_bytes)
{
	int r = refresh_read(fd);

	return r ? ERRNO_RETURN(r) : REAL(__read_chk)(fd, buf, bytes, buf_bytes);
}

HOOK ssize_t pread(int fd, void *buf, size_t bytes, off_t at)
{
	int r = refresh_at_start(fd, at);

	return r ? ERRNO_RETURN(r) : REAL(pread)(fd, buf, bytes, at);
}

HOOK ssize_t pread64(int fd, void *buf, size_t bytes, off_t at)
{
	int r = refresh_at_start(fd, at);

	return r ? ERRNO_RETURN(r) : REAL(pread64)(fd, buf, bytes, at);
}

/* The descriptor goes first, so that its number is free when the object's end is under way. */
HOOK int close(int fd)
{
	bool ours = fdtab_peek(&root_peek()->fdtab, fd) && root_is_owner();
	struct fd_object *o = ours ? fdtab_take(&root_peek()->fdtab, fd) : NULL;
	int r = REAL(close)(fd), saved = errno;

	if (o) {
		fd_object_put(o);
		errno = saved;
	}
	return r;
}

static void copy_entry(int from, int to)
{
	struct fd_object *o = fdtab_peek(&root_peek()->fdtab, from);
	struct fd_object *old;

	if (!o && !fdtab_peek(&root_peek()->fdtab, to))
		return;
	if (!root_is_owner())
		return;
	if (o) {
		fd_object_get(o);
		if (fdtab_set(&root_peek()->fdtab, to, o))
			fd_object_put(o);
	} else {
		old = fdtab_take(&root_peek()->fdtab, to);
		if (old)
			fd_object_put(old);
	}
}

HOOK int dup(int fd)
{
	int r = REAL(dup)(fd);

	if (r >= 0)
		copy_entry(fd, r);
	return r;
}

HOOK int dup2(int from, int to)
{
	int r = REAL(dup2)(from, to);

	if (r >= 0 && from != to)
		copy_entry(from, to);
	return r;
}

HOOK int dup3(int from, int to, int flags)
{
	int r = REAL(dup3)(from, to, flags);

	if (r >= 0)
		copy_entry(from, to);
	return r;
}

#define FCNTL_BODY(name)                                                                           \
	va_list ap;                                                                                \
	void *arg;                                                                                 \
	int r;                                                                                     \
	va_start(ap, command);                                                                     \
	arg = va_arg(ap, void *);                                                                  \
	va_end(ap);                                                                                \
	r = REAL(name)(fd, command, arg);                                                          \
	if (r >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC))                          \
		copy_entry(fd, r);                                                                 \
	return r

HOOK int fcntl(int fd, int command, ...)
{
	FCNTL_BODY(fcntl);
}

HOOK int fcntl64(int fd, int command, ...)
{
	FCNTL_BODY(fcntl64);
}

/* libibverbs asks RDMA netlink first; where the kernel has it, its (empty) answer would win. */
HOOK int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && root_get()->n_devices) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return REAL(socket)(domain, type, protocol);
}
