// SPDX-License-Identifier: Apache-2.0
/* What the kernel says of the process at the other end, also a kernel before 6.5, which has no SO_PEERPIDFD. */
#include "daemon/control/peer.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEER_PIDFD 77 /* SO_PEERPIDFD */

static int pidfd_error; /* 0: the kernel answers */

/* In place of libc's. */
int getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	if (level == SOL_SOCKET && option == PEER_PIDFD && pidfd_error) {
		errno = pidfd_error;
		return -1;
	}
	int r = (int)syscall(SYS_getsockopt, fd, level, option, value, bytes);

	/* As in a user namespace that maps groups in another order. */
	if (r == 0 && level == SOL_SOCKET && option == SO_PEERGROUPS && *bytes >= 2 * sizeof(gid_t)) {
		gid_t *groups = value, first = groups[0];

		groups[0] = groups[1];
		groups[1] = first;
	}
	return r;
}

/* A child that connects with these groups and waits to be killed; our end of the connection. */
static int connect_child(pid_t *child, const gid_t *groups, size_t n_groups)
{
	int ends[2];
	char byte;

	cr_assert(eq(int, pipe(ends), 0));
	*child = fork();
	if (*child == 0) {
		int pair[2];

		/* The peer of a pair is the process that made it. The test gets one end by its number. */
		if ((n_groups && setgroups(n_groups, groups) < 0) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
			_exit(1);
		byte = (char)pair[0];
		if (write(ends[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	cr_assert(eq(long, read(ends[0], &byte, 1), 1));
	close(ends[0]);

	int pidfd = (int)syscall(SYS_pidfd_open, *child, 0);
	int fd = (int)syscall(SYS_pidfd_getfd, pidfd, byte, 0);

	close(pidfd);
	cr_assert(ge(int, fd, 0));
	return fd;
}

static bool has_died(int pidfd, int timeout_ms)
{
	struct pollfd pollfd = {.fd = pidfd, .events = POLLIN};

	return poll(&pollfd, 1, timeout_ms) == 1;
}

static void expect_a_descriptor_of_the_child(int error)
{
	struct peer peer;
	pid_t child;
	int fd = connect_child(&child, NULL, 0), pidfd;

	cr_assert(eq(int, peer_read(fd, &peer), 0));
	cr_expect(eq(int, peer.pid, child));
	cr_expect(eq(u32, peer.uid, geteuid()));
	pidfd_error = error;
	pidfd = peer_open_pidfd(fd, &peer);
	pidfd_error = 0;
	cr_assert(ge(int, pidfd, 0));
	cr_expect(not(has_died(pidfd, 0)));
	kill(child, SIGKILL);
	cr_expect(has_died(pidfd, 20000));
	waitpid(child, NULL, 0);
	close(pidfd);
	close(fd);
}

Test(peer, the_kernel_has_a_descriptor_of_the_process_that_connected)
{
	expect_a_descriptor_of_the_child(0);
}

Test(peer, before_linux_6_5_the_process_is_found_by_its_number)
{
	expect_a_descriptor_of_the_child(ENOPROTOOPT);
}

Test(peer, a_process_that_is_gone_or_has_no_number_here_has_no_descriptor)
{
	struct peer peer;
	pid_t child;
	int fd = connect_child(&child, NULL, 0);

	cr_assert(eq(int, peer_read(fd, &peer), 0));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	pidfd_error = ENOPROTOOPT;
	cr_expect(eq(int, peer_open_pidfd(fd, &peer), -ESRCH));
	peer.pid = 0; /* of another PID namespace */
	cr_expect(eq(int, peer_open_pidfd(fd, &peer), -ENOPROTOOPT));
	pidfd_error = ESRCH; /* newer kernels, for a process that is gone */
	peer.pid = getpid();
	cr_expect(eq(int, peer_open_pidfd(fd, &peer), -ESRCH), "its number may be another's by now");
	pidfd_error = 0;
	close(fd);
}

Test(peer, groups_are_read_in_order_and_none_if_there_are_too_many)
{
	const gid_t given[] = {70, 50, 60};
	struct peer peer = {0};
	gid_t *groups;
	pid_t child;

	if (geteuid() != 0)
		cr_skip_test("needs root to choose groups");
	int fd = connect_child(&child, given, 3);

	cr_assert(eq(int, peer_read_groups(fd, &peer, &groups, 3), 0));
	cr_assert(eq(u32, peer.n_groups, 3));
	for (uint32_t i = 0; i < 3; i++)
		cr_expect(eq(u32, peer.groups[i], 50 + 10 * i));
	free(groups);
	cr_assert(eq(int, peer_read_groups(fd, &peer, &groups, 2), 0));
	cr_expect(eq(u32, peer.n_groups, 0));
	cr_expect(eq(ptr, groups, NULL));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(fd);
}
