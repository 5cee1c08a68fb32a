// SPDX-License-Identifier: Apache-2.0
/*
 * To be preloaded into a client: before its call number END_AT_CALL that the library makes to attach, to open a channel
 * or to use them, it gets the signal END_AT_SIGNAL. Calls count from the first socket of the control socket's type on.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static bool counts;
static int n_calls;

static void count_call(void)
{
	const char *at = getenv("END_AT_CALL"), *number = getenv("END_AT_SIGNAL");

	if (counts && at && number && ++n_calls == atoi(at))
		kill(getpid(), atoi(number));
}

#define COUNTED(result, name, parameters, arguments)                  \
	__attribute__((visibility("default"))) result name parameters \
	{                                                             \
		count_call();                                         \
		return REAL(name) arguments;                          \
	}

__attribute__((visibility("default"))) int socket(int family, int type, int protocol)
{
	counts = counts || (family == AF_UNIX && (type & SOCK_SEQPACKET) == SOCK_SEQPACKET);
	count_call();
	return REAL(socket)(family, type, protocol);
}

COUNTED(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t bytes),
        (fd, level, name, value, bytes))
COUNTED(int, connect, (int fd, const struct sockaddr *address, socklen_t bytes), (fd, address, bytes))
COUNTED(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
COUNTED(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
COUNTED(int, poll, (struct pollfd * fds, nfds_t n, int timeout_ms), (fds, n, timeout_ms))
COUNTED(void *, mmap, (void *address, size_t bytes, int protection, int flags, int fd, off_t offset),
        (address, bytes, protection, flags, fd, offset))
COUNTED(int, madvise, (void *address, size_t bytes, int advice), (address, bytes, advice))
COUNTED(int, munmap, (void *address, size_t bytes), (address, bytes))
COUNTED(int, shutdown, (int fd, int how), (fd, how))
COUNTED(int, close, (int fd), (fd))
COUNTED(ssize_t, write, (int fd, const void *data, size_t bytes), (fd, data, bytes))
