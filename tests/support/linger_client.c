// SPDX-License-Identifier: Apache-2.0
/* clang-format off */
/*
 * A client that sends the daemon TCP sockets with unsent data and SO_LINGER. The thread that drops the last reference
 * to such a socket sleeps in the kernel until the linger time is over.
 *
 *     linger_client SOCKET CHANNEL LINGER_SECONDS WAY
 *
 *   self           sends nothing: closes one itself, and prints how long that took
 *   read           beside a request
 *   malformed      beside a message that is not one
 *   unread         behind requests, and disconnects
 *   killed         the same, but the process is killed
 *   refused        on more connections than a user may have
 *   unmapped       through the sender's descriptors, before the memory is said to be mapped
 *   mapped         … after that
 *
 * Prints a line of JSON: messages that were sent with such sockets, none of which waits in close() itself, how many the
 * kernel refused (EPERM: the daemon has switched SO_PASSRIGHTS off), and how many found no way (EPIPE, ECONNRESET: the
 * daemon has shut the socket down or closed it; ENOTSOCK: the descriptor is no socket). Then it keeps the other ends of
 * the connections until it is killed, which ends the sleep.
 */
/* clang-format on */
#include "lib/ibvcap/protocol.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_LINGERING   4 /* sockets in one message */
#define N_MESSAGES    8
#define N_CONNECTIONS 40 /* more than max_clients_per_user, by default 32 */

/* Shared by the processes that send and the one that keeps the peers. */
struct linger_counts {
	_Atomic unsigned sent, refused, broken, failed;
	double seconds;
};

static struct linger_counts *counts;
static const char *path, *channel;
static int linger_seconds, listening;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "linger_client: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- the sockets ----------------------------------------------------------------------------------- */

/* Nobody accepts: the connections, and what was not received, stay in the listener's queue. */
static void listen_for_peers(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int bytes = 4096;

	listening = socket(AF_INET, SOCK_STREAM, 0);
	/* Small, so that little is to be sent before nothing more can be. */
	setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (bind(listening, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listening, 1024) < 0)
		fail("listen");
}

static int make_lingering(void)
{
	static const char data[1 << 16];
	struct linger linger = {.l_onoff = 1, .l_linger = linger_seconds};
	struct sockaddr_in address;
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0), buffer = 4096;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	if (fd < 0 || getsockname(listening, (struct sockaddr *)&address, &bytes) < 0 ||
	    connect(fd, (struct sockaddr *)&address, bytes) < 0)
		fail("connect to the own listener");
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (send(fd, data, sizeof(data), MSG_NOSIGNAL) > 0)
		;
	fcntl(fd, F_SETFL, 0);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return fd;
}

static void count_failure(int error)
{
	if (error == EPERM)
		counts->refused++;
	else if (error == EPIPE || error == ENOTSOCK || error == ECONNRESET)
		counts->broken++;
	else
		counts->failed++;
}

static _Noreturn void send_message(int to, const void *data, size_t bytes)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(N_LINGERING * sizeof(int))];
	} control = {.header = {.cmsg_level = SOL_SOCKET,
	                        .cmsg_type = SCM_RIGHTS,
	                        .cmsg_len = CMSG_LEN(N_LINGERING * sizeof(int))}};
	struct iovec vector = {.iov_base = (void *)data, .iov_len = bytes};
	struct msghdr message = {
		.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.bytes)};
	int fds[N_LINGERING];

	for (int i = 0; i < N_LINGERING; i++)
		fds[i] = make_lingering();
	memcpy(CMSG_DATA(&control.header), fds, sizeof(fds));
	if (sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		count_failure(errno);
		_exit(EXIT_SUCCESS); /* close() at the end of a process does not wait */
	}
	for (int i = 0; i < N_LINGERING; i++)
		close(fds[i]);
	counts->sent++;
	_exit(EXIT_SUCCESS);
}

/*
 * The receiver is to have the last references. If it drops its own first, this process waits in close(): so it is a
 * child, and nobody waits long for it.
 */
static void send_lingering(int to, const void *data, size_t bytes)
{
	const struct timespec step = {.tv_nsec = 1000000};
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		send_message(to, data, bytes);
	}
	for (int i = 0; i < 50 && waitpid(child, NULL, WNOHANG) == 0; i++)
		nanosleep(&step, NULL);
}

/* ---- the ways -------------------------------------------------------------------------------------- */

static int connect_control(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const struct timeval timeout = {.tv_sec = 2};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		fail(path);
	return fd;
}

static void send_request(int fd)
{
	struct protocol_bare request = {0};

	protocol_init(&request.header, PROTOCOL_STATUS, sizeof(request));
	send_lingering(fd, &request, sizeof(request));
}

/* The daemon reads nothing more while it makes the answer to this. */
static int connect_busy(void)
{
	struct protocol_bare request = {0};
	int fd = connect_control();

	protocol_init(&request.header, PROTOCOL_STATUS, sizeof(request));
	if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		fail("send");
	return fd;
}

static void be_read(void)
{
	for (int i = 0; i < N_MESSAGES; i++)
		send_request(connect_busy());
	pause();
}

static void be_malformed(void)
{
	for (int i = 0; i < N_MESSAGES; i++)
		send_lingering(connect_control(), "malformed", 9);
	pause();
}

static void leave_unread(void)
{
	int fd = connect_busy();

	for (int i = 0; i < N_MESSAGES; i++)
		send_request(fd);
	close(fd);
	pause();
}

static void be_killed(void)
{
	int fd = connect_busy();

	for (int i = 0; i < N_MESSAGES; i++)
		send_request(fd);
	raise(SIGKILL);
}

static void be_refused(void)
{
	for (int i = 0; i < N_CONNECTIONS; i++)
		send_request(connect_control());
	pause();
}

static void receive_answer(int fd, enum protocol_type type, int *fds, unsigned *n_fds)
{
	union protocol_message answer;

	if (protocol_recv(fd, &answer, fds, n_fds) != 1)
		fail("no answer");
	if (answer.header.type != type) {
		fprintf(stderr, "linger_client: %s\n",
		        answer.header.type == PROTOCOL_ERROR ? answer.error.text : "an answer of another type");
		exit(EXIT_FAILURE);
	}
}

static void open_channel(int fd, int *fds, unsigned *n_fds)
{
	struct protocol_open_channel request = {.abi_major = IBVCAP_ABI_MAJOR};

	snprintf(request.channel, sizeof(request.channel), "%s", channel);
	protocol_init(&request.header, PROTOCOL_OPEN_CHANNEL, sizeof(request));
	if (protocol_send(fd, &request.header, NULL, 0) < 0)
		fail("send");
	*n_fds = PROTOCOL_FDS_MAX;
	receive_answer(fd, PROTOCOL_OPENED, fds, n_fds);
}

static void say_mapped(int fd)
{
	struct protocol_bare mapped;

	protocol_init(&mapped.header, PROTOCOL_MAPPED, sizeof(mapped));
	if (protocol_send(fd, &mapped.header, NULL, 0) < 0)
		fail("send");
}

/* Through every descriptor that is a socket. */
static void kick(const int *fds, unsigned n_fds)
{
	for (unsigned i = 0; i < n_fds; i++)
		for (int k = 0; k < N_MESSAGES; k++)
			send_lingering(fds[i], "k", 1);
}

static void kick_unmapped(void)
{
	int fds[PROTOCOL_FDS_MAX], fd = connect_control();
	unsigned n_fds;

	open_channel(fd, fds, &n_fds);
	kick(fds, n_fds);
	say_mapped(fd);
	pause();
}

static void kick_mapped(void)
{
	int fds[PROTOCOL_FDS_MAX], fd = connect_control();
	unsigned n_fds;

	open_channel(fd, fds, &n_fds);
	say_mapped(fd);
	receive_answer(fd, PROTOCOL_READY, NULL, NULL);
	kick(fds, n_fds);
	pause();
}

static void close_own(void)
{
	int fd = make_lingering();
	double before = now();

	close(fd);
	counts->seconds = now() - before;
	exit(EXIT_SUCCESS);
}

/* ---- all ways -------------------------------------------------------------------------------------- */

static void (*find_way(const char *name))(void)
{
	static const struct {
		const char *name;
		void (*go)(void);
	} ways[] = {{"self", close_own},         {"read", be_read},      {"malformed", be_malformed},
	            {"unread", leave_unread},    {"killed", be_killed},  {"refused", be_refused},
	            {"unmapped", kick_unmapped}, {"mapped", kick_mapped}};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].name, name) == 0)
			return ways[i].go;
	return NULL;
}

int main(int argc, char **argv)
{
	void (*go)(void) = argc == 5 ? find_way(argv[4]) : NULL;
	struct timespec step = {.tv_nsec = 10000000};
	unsigned n, before = 0;
	pid_t child;

	if (!go) {
		fprintf(stderr, "usage: linger_client SOCKET CHANNEL LINGER_SECONDS WAY\n");
		return 2;
	}
	path = argv[1];
	channel = argv[2];
	linger_seconds = atoi(argv[3]);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		fail("mmap");
	listen_for_peers();
	child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		go();
	}
	/* Until the child has ended, or sends nothing any more; 10 s at most. */
	for (int round = 0; round < 40 && waitpid(child, NULL, WNOHANG) == 0; round++) {
		n = counts->sent + counts->refused + counts->broken + counts->failed;
		if (n > 0 && n == before)
			break;
		before = n;
		for (int i = 0; i < 25; i++)
			nanosleep(&step, NULL);
	}
	printf("{\"sent\": %u, \"refused\": %u, \"broken\": %u, \"failed\": %u, \"seconds\": %.3f}\n", counts->sent,
	       counts->refused, counts->broken, counts->failed, counts->seconds);
	fflush(stdout);
	pause();
}
