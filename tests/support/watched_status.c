// SPDX-License-Identifier: Apache-2.0
/*
 * watched_status SOCKET CONNECTIONS WATCHERS: on each connection, so many epolls wait for the answers, and the client
 * asks for the status again and again. Each message of an answer calls all these epolls in the time of the thread that
 * sends it. Prints "ready" when all watch, and goes on until it is killed.
 */
#include "lib/ibvcap/protocol.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "watched_status: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static int connect_control(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	return fd;
}

/* The epolls stay when the socket is closed; each is moved to the next connection. */
static void watch(int fd, int *epolls, int n)
{
	for (int i = 0; i < n; i++) {
		if (epolls[i] < 0)
			epolls[i] = epoll_create1(0);
		if (epolls[i] < 0 || epoll_ctl(epolls[i], EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN}))
			fail("epoll");
	}
}

/* False: disconnected. */
static bool ask(int fd)
{
	struct protocol_bare request = {0};
	union protocol_message answer;
	int r;

	protocol_init(&request.header, PROTOCOL_STATUS, sizeof(request));
	if (protocol_send(fd, &request.header, NULL, 0) < 0)
		return false;
	do
		r = protocol_recv(fd, &answer, NULL, NULL);
	while (r == 1 && answer.header.type != PROTOCOL_END && answer.header.type != PROTOCOL_ERROR);
	return r == 1 && answer.header.type == PROTOCOL_END;
}

/* So that max_messages_per_s of a connection, by default 100, and that of the user over eight of them, are kept. */
static void rest(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 25000000}, NULL);
}

static _Noreturn void be_client(const char *path, int n_watchers, int ready)
{
	int *epolls = malloc((size_t)n_watchers * sizeof(*epolls));

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < n_watchers; i++)
		epolls[i] = -1;
	for (bool told = false;;) {
		int fd = connect_control(path);

		if (fd < 0)
			fail(path);
		watch(fd, epolls, n_watchers);
		if (!told && write(ready, "", 1) != 1)
			fail("write");
		told = true;
		while (ask(fd))
			rest();
		close(fd);
		rest();
	}
}

int main(int argc, char **argv)
{
	int n_connections = argc == 4 ? atoi(argv[2]) : 0, ends[2];
	struct rlimit limit;
	char byte;

	if (n_connections <= 0) {
		fprintf(stderr, "usage: watched_status SOCKET CONNECTIONS WATCHERS\n");
		return 2;
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (pipe(ends) < 0)
		fail("pipe");
	for (int i = 0; i < n_connections; i++)
		if (fork() == 0)
			be_client(argv[1], atoi(argv[3]), ends[1]);
	close(ends[1]);
	for (int i = 0; i < n_connections; i++)
		if (read(ends[0], &byte, 1) != 1)
			fail("a client has ended");
	printf("ready\n");
	fflush(stdout);
	while (wait(NULL) > 0)
		;
	return EXIT_FAILURE;
}
