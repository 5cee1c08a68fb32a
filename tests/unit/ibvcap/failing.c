// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/ibvcap/failing.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

static _Thread_local int64_t countdown = -1;
static _Thread_local bool fired, stays, counting;
static _Thread_local int64_t allocated, n_calls;

void failing_after(int64_t n)
{
	countdown = n;
	fired = stays = false;
	n_calls = 0;
}

void failing_from(int64_t n)
{
	failing_after(n);
	stays = true;
}

int64_t failing_count_calls(void)
{
	return n_calls;
}

bool failing_has_fired(void)
{
	return fired;
}

void failing_count_memory(void)
{
	allocated = 0;
	counting = true;
}

int64_t failing_stop_counting(void)
{
	counting = false;
	return allocated;
}

static bool fails(int error)
{
	n_calls++;
	if (countdown < 0 || (countdown > 0 && countdown--))
		return false;
	if (!stays)
		countdown = -1;
	fired = true;
	errno = error;
	return true;
}

#define FAILING(result, failure, error, name, parameters, arguments)     \
	result __real_##name parameters;                                 \
	result __wrap_##name parameters;                                 \
	result __wrap_##name parameters                                  \
	{                                                                \
		return fails(error) ? failure : __real_##name arguments; \
	}

FAILING(int, -1, EMFILE, socket, (int family, int type, int protocol), (family, type, protocol))
FAILING(int, -1, ENOMEM, setsockopt, (int fd, int level, int name, const void *value, socklen_t bytes),
        (fd, level, name, value, bytes))
FAILING(int, -1, ENOMEM, connect, (int fd, const struct sockaddr *address, socklen_t bytes), (fd, address, bytes))
FAILING(ssize_t, -1, ENOMEM, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
FAILING(ssize_t, -1, ENOMEM, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
FAILING(int, -1, ENOMEM, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
FAILING(int, -1, ENOMEM, ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *time, const sigset_t *mask),
        (fds, n, time, mask))
FAILING(int, -1, EINVAL, fcntl, (int fd, int command, long argument), (fd, command, argument))
FAILING(int, -1, EIO, fstat, (int fd, struct stat *status), (fd, status))
FAILING(void *, MAP_FAILED, ENOMEM, mmap,
        (void *address, size_t bytes, int protection, int flags, int fd, off_t offset),
        (address, bytes, protection, flags, fd, offset))
FAILING(int, -1, ENOMEM, madvise, (void *address, size_t bytes, int advice), (address, bytes, advice))
FAILING(int, -1, EMFILE, epoll_create1, (int flags), (flags))
FAILING(int, -1, EMFILE, timerfd_create, (int clock, int flags), (clock, flags))

int __real_epoll_ctl(int fd, int what, int other, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int what, int other, struct epoll_event *event);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void __real_free(void *memory);
void __wrap_free(void *memory);

void *__real_reallocarray(void *memory, size_t n, size_t bytes);
void *__wrap_reallocarray(void *memory, size_t n, size_t bytes);

/* Taking a descriptor out needs nothing. */
int __wrap_epoll_ctl(int fd, int what, int other, struct epoll_event *event)
{
	return what == EPOLL_CTL_ADD && fails(ENOMEM) ? -1 : __real_epoll_ctl(fd, what, other, event);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	void *memory = fails(ENOMEM) ? NULL : __real_calloc(n, bytes);

	allocated += counting && memory;
	return memory;
}

void *__wrap_reallocarray(void *memory, size_t n, size_t bytes)
{
	void *more = fails(ENOMEM) ? NULL : __real_reallocarray(memory, n, bytes);

	allocated += counting && !memory && more;
	return more;
}

char *__wrap_strdup(const char *text)
{
	char *copy = fails(ENOMEM) ? NULL : __real_strdup(text);

	allocated += counting && copy;
	return copy;
}

void __wrap_free(void *memory)
{
	allocated -= counting && memory;
	__real_free(memory);
}
