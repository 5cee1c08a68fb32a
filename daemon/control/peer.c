// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel who connected, by options of the connected socket. */
#include "daemon/control/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5, include/uapi/asm-generic/socket.h */
#endif

static int compare_peer_groups(const void *a, const void *b)
{
	gid_t left = *(const gid_t *)a, right = *(const gid_t *)b;

	return (left > right) - (left < right);
}

/* The kernel has them in ascending order, but for the mapping of the daemon's user namespace. */
static void sort_peer_groups(gid_t *groups, uint32_t n_groups)
{
	for (uint32_t i = 1; i < n_groups; i++) {
		if (groups[i - 1] > groups[i]) {
			qsort(groups, n_groups, sizeof(*groups), compare_peer_groups);
			return;
		}
	}
}

/* The first call has no room, so the kernel returns the size that is needed. */
static int read_peer_groups(int fd, gid_t **groups, uint32_t *n_groups, uint32_t n_max)
{
	socklen_t bytes = 0;

	*groups = NULL;
	*n_groups = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) == 0 || bytes == 0)
		return 0;
	if (errno != ERANGE)
		return -errno;
	if (bytes / sizeof(**groups) > n_max)
		return 0;
	*groups = malloc(bytes);
	if (!*groups)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, *groups, &bytes) < 0) {
		int error = errno;

		free(*groups);
		*groups = NULL;
		return -error;
	}
	*n_groups = bytes / sizeof(**groups);
	sort_peer_groups(*groups, *n_groups);
	return 0;
}

int peer_read(int fd, struct peer *peer)
{
	struct ucred credentials;
	socklen_t bytes = sizeof(credentials);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) < 0)
		return -errno;
	*peer = (struct peer){.pid = credentials.pid, .uid = credentials.uid, .gid = credentials.gid};
	return 0;
}

int peer_read_groups(int fd, struct peer *peer, gid_t **groups, uint32_t n_max)
{
	int r = read_peer_groups(fd, groups, &peer->n_groups, n_max);

	peer->groups = *groups;
	return r;
}

/* SO_PEERPIDFD refers to the process that connected; its number may belong to another process by now. */
int peer_open_pidfd(int fd, const struct peer *peer)
{
	socklen_t bytes = sizeof(int);
	int pidfd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0)
		return pidfd;
	if (errno != ENOPROTOOPT || peer->pid <= 0)
		return -errno;
	pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
	return pidfd < 0 ? -errno : pidfd;
}
