// SPDX-License-Identifier: Apache-2.0
/* The client's end of the control sockets: finds processes, connects and reads answers. */
#include "ask.h"

#include "../control/control.h"
#include "../wire/complain.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

#define NAME "softhca-"

/* A descriptor, or -1. `name`: the process' own number, which differs from ours in another PID namespace. */
static int ask_connect_to(int name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, NAME "%d", name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    !connect(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)))
		return fd;
	close(fd);
	return -1;
}

static pid_t ask_peer(int fd)
{
	struct ucred peer = {};
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) ? -1 : peer.pid;
}

int ask_find(pid_t *pids, int max)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512];
	int n = 0;

	while (f && n < max && fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, " @" NAME);
		int fd = at ? ask_connect_to(atoi(at + 2 + strlen(NAME))) : -1, i = 0;

		if (fd < 0)
			continue;
		pids[n] = ask_peer(fd);
		close(fd);
		while (pids[i] != pids[n]) /* each connection of a process has its name */
			i++;
		n += i == n && pids[n] > 0;
	}
	if (f)
		fclose(f);
	return n;
}

/* The last number of NSpid is the one in the process' own PID namespace. */
static int ask_own_pid(pid_t pid)
{
	char path[64], line[256];
	int own = pid;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "NSpid:", 6) && strrchr(line, '\t'))
			own = atoi(strrchr(line, '\t'));
	if (f)
		fclose(f);
	return own;
}

/* Goes to the network namespace of the process, which takes root. */
static bool ask_enter(pid_t pid)
{
	char path[64];
	int fd;
	bool there;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	there = fd >= 0 && !setns(fd, CLONE_NEWNET);
	if (fd >= 0)
		close(fd);
	return there;
}

static int ask_connect(pid_t pid)
{
	int name = ask_own_pid(pid), fd = ask_connect_to(name);

	if (fd < 0 && ask_enter(pid))
		fd = ask_connect_to(name);
	/* Anybody can take a name. */
	if (fd >= 0 && ask_peer(fd) != pid) {
		close(fd);
		fd = -1;
	}
	if (fd < 0 && kill(pid, 0) < 0 && errno == ESRCH)
		complain("there is no process %d; softhca objects lists those that have a device", pid);
	else if (fd < 0)
		complain("process %d does not answer: it has opened no softhca device, or it is in another network "
		         "namespace; see: ip netns identify %d",
		         pid, pid);
	return fd;
}

bool ask_print(void *arg, char kind, const char *bytes, size_t n)
{
	(void)arg;
	return kind == TRACE_TEXT && fwrite(bytes, 1, n, stdout) == n && !fflush(stdout);
}

int ask(pid_t pid, const char *request, ask_reader *read, void *arg)
{
	static char packet[CONTROL_MAX_PACKET];
	int fd = ask_connect(pid), status = EX_OK;
	ssize_t n;

	if (fd < 0)
		return EX_UNAVAILABLE;
	send(fd, request, strlen(request), MSG_NOSIGNAL); /* if it fails, the answer says why */
	while (!status && (n = recv(fd, packet, sizeof(packet), 0)) != 0) {
		if (n < 0 && errno == EINTR)
			break;
		if (n < 0 || packet[0] == CONTROL_ERROR) {
			complain("process %d: %.*s", pid, n < 0 ? 64 : (int)n - 1,
			         n < 0 ? strerror(errno) : packet + 1);
			status = EX_UNAVAILABLE;
		} else if (!read(arg, packet[0], packet + 1, (size_t)n - 1)) {
			break;
		}
	}
	close(fd);
	return status;
}
