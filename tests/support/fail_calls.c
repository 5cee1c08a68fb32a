// SPDX-License-Identifier: Apache-2.0
/*
 * To be preloaded into the daemon: lets one call of it fail, the one at which a countdown comes to 0. The countdown is in a
 * file that the test maps too (FAIL_CALLS): two int64, the calls still to be let through (below 0: all) and the calls
 * made. Only what the program itself calls counts: its libraries' own calls are theirs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <systemd/sd-event.h>
#include <unistd.h>

struct control {
	_Atomic int64_t countdown;
	_Atomic int64_t calls;
};

static struct control *control;
static uintptr_t program_start, program_end;

/* The program is the first that is told of. */
static int find_program(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD && header->p_flags & PF_X) {
			program_start = info->dlpi_addr + header->p_vaddr;
			program_end = program_start + header->p_memsz;
		}
	}
	return 1;
}

static __attribute__((constructor)) void set_up(void)
{
	const char *path = getenv("FAIL_CALLS");
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
	void *address;

	if (fd < 0)
		return;
	address = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (address == MAP_FAILED)
		return;
	dl_iterate_phdr(find_program, NULL);
	control = address;
}

static bool fails(void *caller)
{
	if (!control || (uintptr_t)caller < program_start || (uintptr_t)caller >= program_end)
		return false;
	atomic_fetch_add(&control->calls, 1);
	return atomic_load(&control->countdown) >= 0 && atomic_fetch_sub(&control->countdown, 1) == 0;
}

#define FAILS() fails(__builtin_return_address(0))

static void *next_of(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* result NAME(parameters): -1 with error, or what the real one says. */
#define FAILING(result, failure, error, name, parameters, arguments)                                                      \
	result name parameters;                                                                                           \
	result name parameters                                                                                            \
	{                                                                                                                 \
		static result(*_Atomic next) parameters;                                                                  \
                                                                                                                          \
		if (FAILS()) {                                                                                            \
			errno = error;                                                                                    \
			return failure;                                                                                   \
		}                                                                                                         \
		if (!next)                                                                                                \
			next = (result(*) parameters)next_of(#name);                                                      \
		return next arguments;                                                                                    \
	}

FAILING(int, -1, EMFILE, memfd_create, (const char *name, unsigned flags), (name, flags))
FAILING(int, -1, ENOSPC, ftruncate, (int fd, off_t bytes), (fd, bytes))
FAILING(int, -1, ENOMEM, madvise, (void *address, size_t bytes, int advice), (address, bytes, advice))
FAILING(int, -1, EPERM, fchmod, (int fd, mode_t mode), (fd, mode))
FAILING(int, -1, EMFILE, socket, (int family, int type, int protocol), (family, type, protocol))
FAILING(int, -1, EMFILE, socketpair, (int family, int type, int protocol, int fds[2]), (family, type, protocol, fds))
FAILING(int, -1, EMFILE, pipe2, (int fds[2], int flags), (fds, flags))
FAILING(int, -1, EMFILE, eventfd, (unsigned value, int flags), (value, flags))
FAILING(int, -1, EMFILE, accept4, (int fd, struct sockaddr *address, socklen_t *bytes, int flags), (fd, address, bytes, flags))
FAILING(int, -1, ENOBUFS, setsockopt, (int fd, int level, int name, const void *value, socklen_t bytes),
	(fd, level, name, value, bytes))
FAILING(int, -1, ENOBUFS, getsockopt, (int fd, int level, int name, void *value, socklen_t *bytes),
	(fd, level, name, value, bytes))
FAILING(ssize_t, -1, ENOMEM, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
FAILING(ssize_t, -1, ENOMEM, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
FAILING(void *, MAP_FAILED, ENOMEM, mmap, (void *address, size_t bytes, int protection, int flags, int fd, off_t offset),
	(address, bytes, protection, flags, fd, offset))
FAILING(ssize_t, -1, EAGAIN, getrandom, (void *buffer, size_t bytes, unsigned flags), (buffer, bytes, flags))
FAILING(int, EAGAIN, EAGAIN, pthread_create,
	(pthread_t * thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument),
	(thread, attributes, main, argument))
FAILING(int, -ENOMEM, ENOMEM, sd_event_add_io,
	(sd_event * event, sd_event_source **source, int fd, uint32_t events, sd_event_io_handler_t handler, void *context),
	(event, source, fd, events, handler, context))
FAILING(int, -ENOMEM, ENOMEM, sd_event_add_time,
	(sd_event * event, sd_event_source **source, clockid_t clock, uint64_t at_us, uint64_t accuracy_us,
	 sd_event_time_handler_t handler, void *context),
	(event, source, clock, at_us, accuracy_us, handler, context))
FAILING(char *, NULL, ENOMEM, strdup, (const char *text), (text))

/* These come before the dynamic linker can be asked for others. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);

static void *out_of_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

void *malloc(size_t bytes)
{
	return FAILS() ? out_of_memory() : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	return FAILS() ? out_of_memory() : __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes)
{
	return FAILS() ? out_of_memory() : __libc_realloc(memory, bytes);
}

void *reallocarray(void *memory, size_t n, size_t bytes)
{
	size_t all;

	if (FAILS() || __builtin_mul_overflow(n, bytes, &all))
		return out_of_memory();
	return __libc_realloc(memory, all);
}

static int open_next(const char *path, int flags, mode_t mode)
{
	static int (*_Atomic next)(const char *, int, ...);

	if (!next)
		next = (int (*)(const char *, int, ...))next_of("open");
	return next(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	if (FAILS()) {
		errno = EMFILE;
		return -1;
	}
	va_start(arguments, flags);
	mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return open_next(path, flags, mode);
}
