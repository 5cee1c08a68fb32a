// SPDX-License-Identifier: Apache-2.0
/*
 * Closes sockets of clients whose user's thread is stuck in a close(), which happens on kernels before 6.16 only
 * (listener.c). What sleeps there is the last close() of a TCP socket with SO_LINGER that the client sent. The kernel
 * does not let a thread that ends wait for it (inet_release() looks at PF_EXITING). So a thread copies the table of
 * descriptors, the control thread closes the sockets in its own table, which is not the last close(), and the thread
 * ends and with it the copy. Control thread only.
 */
#ifndef DAEMON_CONTROL_DROPPED_SOCKETS_H
#define DAEMON_CONTROL_DROPPED_SOCKETS_H

#define DROPPED_SOCKETS_MAX 256

/* All zero: none. */
struct dropped_sockets {
	int fds[DROPPED_SOCKETS_MAX];
	unsigned n;
};

/** Takes the socket over. It is closed by the next dropped_sockets_close(), or now if there are many. */
void dropped_sockets_add(struct dropped_sockets *sockets, int fd);

/** Close them; waits until the thread has its copy, for microseconds. */
void dropped_sockets_close(struct dropped_sockets *sockets);

#endif
