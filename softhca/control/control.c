// SPDX-License-Identifier: Apache-2.0
/*
 * The thread that answers `softhca objects` and its like. System calls open and close the sockets, as in
 * uverbs/event_channel.c.
 */
#include "control.h"

#include "../wire/own_fd.h"
#include "../wire/own_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define STACK_BYTES   (256u << 10)
#define SLOW_CLIENT_S 1 /* a client that does not read for so long is disconnected */

static void control_close(int *fd)
{
	own_fd_close(*fd);
	*fd = -1;
}

/* The inode of a descriptor; 0 if it is closed. A program that closes all its descriptors closes ours, too, and may get
 * their numbers then. */
static ino_t control_inode(int fd)
{
	struct statx stx;

	return syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &stx) ? 0 : stx.stx_ino;
}

static void control_forget(struct control *c)
{
	c->started = false;
	c->listener = c->listening = -1;
	for (int i = 0; i < CONTROL_MAX_CLIENTS; i++)
		c->clients[i] = -1;
	pthread_mutex_init(&c->lock, NULL);
}

void control_init(struct control *c, struct trace *trace, struct device *devices, unsigned int n_devices)
{
	c->trace = trace;
	c->devices = devices;
	c->n_devices = n_devices;
	control_forget(c);
}

void control_forked(struct control *c)
{
	control_close(&c->listener);
	for (int i = 0; i < CONTROL_MAX_CLIENTS; i++)
		control_close(&c->clients[i]);
	control_forget(c);
}

static void control_refuse(int fd, const char *why)
{
	char packet[CONTROL_MAX_REQUEST];
	int n = snprintf(packet, sizeof(packet), "%c%s", CONTROL_ERROR, why);

	/* If a request is unread when the socket is closed, the client gets ECONNRESET in place of the answer. */
	shutdown(fd, SHUT_RD);
	while (recv(fd, packet + n, sizeof(packet) - (size_t)n, MSG_DONTWAIT) > 0)
		;
	send(fd, packet, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool control_may_ask(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && (!peer.uid || peer.uid == geteuid());
}

static void control_accept(struct control *c)
{
	const struct timeval patience = {.tv_sec = SLOW_CLIENT_S};
	int fd = own_fd((int)syscall(SYS_accept4, c->listener, NULL, NULL, SOCK_CLOEXEC)), i = 0;

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	while (i < CONTROL_MAX_CLIENTS && c->clients[i] >= 0)
		i++;
	if (i < CONTROL_MAX_CLIENTS && control_may_ask(fd)) {
		c->clients[i] = fd;
		return;
	}
	control_refuse(fd, i < CONTROL_MAX_CLIENTS ? "only the user of the process and root may ask it"
	                                           : "too many ask at the same time");
	own_fd_close(fd);
}

static void control_serve(struct control *c, int *client)
{
	char request[CONTROL_MAX_REQUEST];
	ssize_t n = recv(*client, request, sizeof(request), MSG_DONTWAIT);

	if (n > 0 && *client != c->listening && control_request(c, *client, request, (size_t)n))
		return;
	/* A client that gets the trace sends nothing more: it has hung up. */
	if (*client == c->listening)
		control_stop_trace(c);
	control_close(client);
}

static void *control_thread(void *arg)
{
	struct control *c = arg;
	const ino_t inode = control_inode(c->listener);

	prctl(PR_SET_NAME, "softhca-control");
	for (;;) {
		struct pollfd fds[1 + CONTROL_MAX_CLIENTS] = {{.fd = c->listener, .events = POLLIN}};

		for (int i = 0; i < CONTROL_MAX_CLIENTS; i++)
			fds[1 + i] = (struct pollfd){.fd = c->clients[i], .events = POLLIN};
		if (poll(fds, 1 + CONTROL_MAX_CLIENTS, -1) < 0)
			continue;
		if (control_inode(c->listener) != inode)
			return NULL;
		for (int i = 0; i < CONTROL_MAX_CLIENTS; i++)
			if (fds[1 + i].revents)
				control_serve(c, &c->clients[i]);
		if (fds[0].revents)
			control_accept(c);
	}
}

/* An abstract name needs no place in a file system, and goes with the process however that ends. */
static int control_listen(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "softhca-%d", getpid());
	int fd = own_fd((int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));

	if (fd >= 0 &&
	    (bind(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) ||
	     listen(fd, CONTROL_MAX_CLIENTS)))
		control_close(&fd);
	return fd;
}

static bool control_start_thread(struct control *c)
{
	pthread_attr_t attr;
	pthread_t thread;
	bool started;

	if (pthread_attr_init(&attr))
		return false;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	started = !own_thread_start(&thread, &attr, control_thread, c);
	pthread_attr_destroy(&attr);
	return started;
}

void control_start(struct control *c)
{
	int saved = errno;

	pthread_mutex_lock(&c->lock);
	if (!c->started) {
		c->started = true;
		c->listener = control_listen();
		if (c->listener >= 0 && !control_start_thread(c))
			control_close(&c->listener);
	}
	pthread_mutex_unlock(&c->lock);
	errno = saved;
}
