// SPDX-License-Identifier: Apache-2.0
/* System calls, threads, capabilities and libsystemd: see fail_calls.c. */
#include "tests/support/fail_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>
#include <unistd.h>

/* ---- files and memory ---------------------------------------------------------------------------- */

FAILING(int, -1, EMFILE, memfd_create, (const char *name, unsigned flags), (name, flags))
FAILING(int, -1, ENOSPC, ftruncate, (int fd, off_t bytes), (fd, bytes))
FAILING(int, -1, ENOMEM, madvise, (void *address, size_t bytes, int advice), (address, bytes, advice))
FAILING(int, -1, ENOMEM, mlock, (const void *address, size_t bytes), (address, bytes))
FAILING(int, -1, EPERM, fchmod, (int fd, mode_t mode), (fd, mode))
FAILING(int, -1, EPERM, chmod, (const char *path, mode_t mode), (path, mode))
FAILING(int, -1, EPERM, chown, (const char *path, uid_t user, gid_t group), (path, user, group))
FAILING(int, -1, EPERM, fchown, (int fd, uid_t user, gid_t group), (fd, user, group))
FAILING(int, -1, ENOMEM, lstat, (const char *path, struct stat *status), (path, status))
FAILING(int, -1, ENOMEM, fstat, (int fd, struct stat *status), (fd, status))
FAILING(int, -1, EMFILE, dup, (int fd), (fd))
FAILING(void *, MAP_FAILED, ENOMEM, mmap,
        (void *address, size_t bytes, int protection, int flags, int fd, off_t offset),
        (address, bytes, protection, flags, fd, offset))
FAILING(ssize_t, -1, EAGAIN, getrandom, (void *buffer, size_t bytes, unsigned flags), (buffer, bytes, flags))
FAILING(FILE *, NULL, EMFILE, fopen, (const char *path, const char *mode), (path, mode))
FAILING(DIR *, NULL, EMFILE, opendir, (const char *path), (path))
FAILING(ssize_t, -1, EIO, read, (int fd, void *buffer, size_t bytes), (fd, buffer, bytes))
FAILING(int, -1, EPERM, getrlimit, (__rlimit_resource_t resource, struct rlimit *limit), (resource, limit))
FAILING(int, -1, EPERM, setrlimit, (__rlimit_resource_t resource, const struct rlimit *limit), (resource, limit))

int open(const char *path, int flags, ...)
{
	static int (*_Atomic next)(const char *, int, ...);
	va_list arguments;
	mode_t mode;

	if (FAILS()) {
		errno = EMFILE;
		return -1;
	}
	va_start(arguments, flags);
	mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	if (!next)
		next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	return next(path, flags, mode);
}

/* int NAME(int, what, ...) with at most one argument more, of a word. */
#define FAILING_CONTROL(error, name, type)                                       \
	int name(int fd, type what, ...)                                         \
	{                                                                        \
		static int (*_Atomic next)(int, type, ...);                      \
		va_list arguments;                                               \
		unsigned long argument;                                          \
                                                                                 \
		if (FAILS()) {                                                   \
			errno = error;                                           \
			return -1;                                               \
		}                                                                \
		va_start(arguments, what);                                       \
		argument = va_arg(arguments, unsigned long);                     \
		va_end(arguments);                                               \
		if (!next)                                                       \
			next = (int (*)(int, type, ...))dlsym(RTLD_NEXT, #name); \
		return next(fd, what, argument);                                 \
	}

FAILING_CONTROL(EPERM, fcntl, int)
FAILING_CONTROL(ENODEV, ioctl, unsigned long)

/* pidfd_open; not a notifier's futex. */
long syscall(long number, ...)
{
	static long (*_Atomic next)(long, ...);
	va_list arguments;
	long a[6];

	if (fail_calls_now(CALLER, true)) {
		errno = EMFILE;
		return -1;
	}
	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- sockets and interfaces ---------------------------------------------------------------------- */

FAILING(int, -1, EMFILE, socket, (int family, int type, int protocol), (family, type, protocol))
FAILING(int, -1, EMFILE, socketpair, (int family, int type, int protocol, int fds[2]), (family, type, protocol, fds))
FAILING(int, -1, EMFILE, pipe2, (int fds[2], int flags), (fds, flags))
FAILING(int, -1, EMFILE, eventfd, (unsigned value, int flags), (value, flags))
FAILING(int, -1, EMFILE, accept4, (int fd, struct sockaddr *address, socklen_t *bytes, int flags),
        (fd, address, bytes, flags))
FAILING(int, -1, ENOMEM, bind, (int fd, const struct sockaddr *address, socklen_t bytes), (fd, address, bytes))
FAILING(int, -1, ENOMEM, listen, (int fd, int backlog), (fd, backlog))
FAILING(int, -1, ENOMEM, connect, (int fd, const struct sockaddr *address, socklen_t bytes), (fd, address, bytes))
FAILING(int, -1, ENOBUFS, setsockopt, (int fd, int level, int name, const void *value, socklen_t bytes),
        (fd, level, name, value, bytes))
FAILING(int, -1, ENOBUFS, getsockopt, (int fd, int level, int name, void *value, socklen_t *bytes),
        (fd, level, name, value, bytes))
FAILING(ssize_t, -1, ENOMEM, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
FAILING(ssize_t, -1, ENOMEM, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
FAILING(int, -1, ENOMEM, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
FAILING(int, -1, ENOMEM, ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask),
        (fds, n, timeout, mask))
FAILING(unsigned, 0, ENOBUFS, if_nametoindex, (const char *name), (name))
FAILING(struct if_nameindex *, NULL, ENOBUFS, if_nameindex, (void), ())

/* ---- threads and capabilities -------------------------------------------------------------------- */

FAILING(int, EAGAIN, EAGAIN, pthread_create,
        (pthread_t * thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument),
        (thread, attributes, main, argument))
FAILING(int, ENOMEM, ENOMEM, pthread_attr_init, (pthread_attr_t * attributes), (attributes))
FAILING(int, EINVAL, EINVAL, pthread_attr_setaffinity_np,
        (pthread_attr_t * attributes, size_t bytes, const cpu_set_t *cpus), (attributes, bytes, cpus))
FAILING(cap_t, NULL, ENOMEM, cap_init, (void), ())
FAILING(cap_t, NULL, ENOMEM, cap_get_proc, (void), ())
FAILING(int, -1, EPERM, cap_set_proc, (cap_t capabilities), (capabilities))
FAILING(char *, NULL, ENOMEM, cap_to_text, (cap_t capabilities, ssize_t *bytes), (capabilities, bytes))
FAILING(int, -1, EPERM, cap_drop_bound, (cap_value_t capability), (capability))
FAILING(int, -1, EPERM, cap_reset_ambient, (void), ())

/* ---- libsystemd ---------------------------------------------------------------------------------- */

FAILING(int, -ENOMEM, ENOMEM, sd_event_new, (sd_event * *event), (event))
FAILING(int, -ENOMEM, ENOMEM, sd_event_loop, (sd_event * event), (event))
FAILING(int, -ENOMEM, ENOMEM, sd_event_add_io,
        (sd_event * event, sd_event_source **source, int fd, uint32_t events, sd_event_io_handler_t handler,
         void *context),
        (event, source, fd, events, handler, context))
FAILING(int, -ENOMEM, ENOMEM, sd_event_add_time,
        (sd_event * event, sd_event_source **source, clockid_t clock, uint64_t at_us, uint64_t accuracy_us,
         sd_event_time_handler_t handler, void *context),
        (event, source, clock, at_us, accuracy_us, handler, context))
FAILING(int, -ENOMEM, ENOMEM, sd_event_add_time_relative,
        (sd_event * event, sd_event_source **source, clockid_t clock, uint64_t after_us, uint64_t accuracy_us,
         sd_event_time_handler_t handler, void *context),
        (event, source, clock, after_us, accuracy_us, handler, context))
FAILING(int, -ENOMEM, ENOMEM, sd_event_add_signal,
        (sd_event * event, sd_event_source **source, int number, sd_event_signal_handler_t handler, void *context),
        (event, source, number, handler, context))
FAILING(int, -ENOMEM, ENOMEM, sd_event_add_defer,
        (sd_event * event, sd_event_source **source, sd_event_handler_t handler, void *context),
        (event, source, handler, context))
FAILING(int, -ENOMEM, ENOMEM, sd_listen_fds_with_names, (int unset, char ***names), (unset, names))
FAILING(int, -EIO, EIO, sd_is_socket_unix, (int fd, int type, int listening, const char *path, size_t bytes),
        (fd, type, listening, path, bytes))
