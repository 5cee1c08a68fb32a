// SPDX-License-Identifier: Apache-2.0
/*
 * A consumer that wants to write what it may only read: attaches by the control protocol, then tries one
 * way on one segment. ring_attacker SOCKET STREAM WAY SEGMENT; prints what happened.
 *
 * Exit: 0 the kernel refused it (or left the segment as it was), 1 it worked, 2 it could not be tried.
 */
#include "lib/ibvcap/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum { REFUSED = 0, WORKED = 1, NOT_TRIED = 2 };

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "ring_attacker: %s: %s\n", what, strerror(errno));
	exit(NOT_TRIED);
}

static void attach(const char *path, const char *stream, int fds[PROTOCOL_FD_N])
{
	struct protocol_attach request = {.abi_major = IBVCAP_ABI_MAJOR};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	union protocol_message answer;
	unsigned n_fds = PROTOCOL_FD_N;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	snprintf(request.stream, sizeof(request.stream), "%s", stream);
	protocol_init(&request.header, PROTOCOL_ATTACH, sizeof(request));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		give_up("connect");
	if (protocol_send(fd, &request.header, NULL, 0) < 0 || protocol_recv(fd, &answer, fds, &n_fds) != 1)
		give_up("attach");
	if (answer.header.type != PROTOCOL_ATTACHED || n_fds != PROTOCOL_FD_N) {
		fprintf(stderr, "ring_attacker: not attached: %s\n", answer.error.text);
		exit(NOT_TRIED);
	}
}

static int result(bool worked)
{
	printf("%s\n", worked ? "worked" : strerror(errno));
	return worked ? WORKED : REFUSED;
}

static size_t size_of(int fd)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		give_up("fstat");
	return (size_t)status.st_size;
}

/* ---- the ways ------------------------------------------------------------------------------------ */

static int try_mmap(int fd)
{
	return result(mmap(NULL, size_of(fd), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
}

static int try_mprotect(int fd)
{
	size_t bytes = size_of(fd);
	void *address = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);

	if (address == MAP_FAILED)
		give_up("mmap for reading");
	return result(mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0);
}

static int try_write(int fd)
{
	return result(pwrite(fd, "x", 1, 0) == 1);
}

static int reopen(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR);
}

static int try_reopen(int fd)
{
	return result(reopen(fd) >= 0);
}

/* The mode is what keeps another user from opening it again: so it must not be ours to change. */
static int try_chmod(int fd)
{
	return result(fchmod(fd, 0666) == 0);
}

static int try_shrink(int fd)
{
	return result(ftruncate(fd, 0) == 0);
}

static int try_grow(int fd)
{
	return result(ftruncate(fd, (off_t)size_of(fd) * 2) == 0);
}

static int try_punch(int fd)
{
	return result(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)size_of(fd)) == 0);
}

/* Throwing the pages of a mapping away would zero them for everybody. */
static int try_remove(int fd)
{
	size_t bytes = size_of(fd);
	void *address = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);

	if (address == MAP_FAILED)
		give_up("mmap for reading");
	return result(madvise(address, bytes, MADV_REMOVE) == 0);
}

/* The descriptor of the daemon's own, through the daemon's /proc. */
static int try_daemons_own(int fd)
{
	struct stat mine, theirs;
	char path[64];
	bool worked = false;
	int error = 0;

	if (fstat(fd, &mine) < 0)
		give_up("fstat");
	const char *pid = getenv("DAEMON_PID");

	if (!pid)
		give_up("DAEMON_PID is not set");
	for (int i = 0; i < 256 && !worked; i++) {
		int own;

		snprintf(path, sizeof(path), "/proc/%s/fd/%d", pid, i);
		own = open(path, O_RDWR);
		if (own < 0)
			error = errno;
		else
			worked = fstat(own, &theirs) == 0 && theirs.st_ino == mine.st_ino;
	}
	errno = error;
	return result(worked);
}

struct way {
	const char *name;
	int (*try)(int fd);
};

static const struct way ways[] = {
	{"mmap", try_mmap},     {"mprotect", try_mprotect},       {"write", try_write}, {"reopen", try_reopen},
	{"chmod", try_chmod},   {"shrink", try_shrink},           {"grow", try_grow},   {"punch", try_punch},
	{"remove", try_remove}, {"daemons-own", try_daemons_own},
};

static const char *const segments[] = {
	[PROTOCOL_FD_PAYLOAD] = "payload",      [PROTOCOL_FD_HEADERS] = "headers",    [PROTOCOL_FD_RING] = "ring",
	[PROTOCOL_FD_CONSUMER_STATE] = "state", [PROTOCOL_FD_CONSUMER_PAGE] = "page",
};

int main(int argc, char **argv)
{
	int fds[PROTOCOL_FD_N];
	int fd = -1;

	if (argc != 5) {
		fprintf(stderr, "usage: ring_attacker SOCKET STREAM WAY SEGMENT\n");
		return NOT_TRIED;
	}
	attach(argv[1], argv[2], fds);
	for (size_t i = 0; i < sizeof(segments) / sizeof(segments[0]); i++)
		if (strcmp(segments[i], argv[4]) == 0)
			fd = fds[i];
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && fd >= 0; i++)
		if (strcmp(ways[i].name, argv[3]) == 0)
			return ways[i].try(fd);
	fprintf(stderr, "ring_attacker: no way '%s' or no segment '%s'\n", argv[3], argv[4]);
	return NOT_TRIED;
}
