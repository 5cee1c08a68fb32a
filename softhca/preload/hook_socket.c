// SPDX-License-Identifier: Apache-2.0
/*
 * Sockets of RDMA netlink. The program gets a netlink socket of its own namespace's NETLINK_USERSOCK, which the kernel
 * binds, polls and reads as any other. What the program sends to the kernel is answered here, by a second socket that
 * sends to the first.
 */
#include "root.h"

#include "../nldev/nldev.h"
#include "../uverbs/user_memory.h"
#include "../wire/own_fd.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define MAX_REQUEST 65536
#define MAX_IOV     64

/* A message that the program's socket has no room for: the kernel continues a dump when the program has read. */
struct reply {
	STAILQ_ENTRY(reply) link;
	size_t bytes;
	uint8_t message[];
};

struct netlink_socket {
	struct fd_object fd_object;
	pthread_mutex_t lock;
	STAILQ_HEAD(, reply) waiting;
	struct sockaddr_nl program; /* address of its socket */
	int reply_fd;
};

static void netlink_release(struct fd_object *o)
{
	struct netlink_socket *s = (struct netlink_socket *)o;
	struct reply *r;

	while ((r = STAILQ_FIRST(&s->waiting))) {
		STAILQ_REMOVE_HEAD(&s->waiting, link);
		free(r);
	}
	pthread_mutex_destroy(&s->lock);
	own_fd_close(s->reply_fd);
	free(s);
}

/* A descriptor, or negative errno. */
static int netlink_open(int type)
{
	int fd = REAL(socket)(AF_NETLINK, type, NETLINK_USERSOCK), r;
	struct netlink_socket *s;

	if (fd < 0)
		return -errno;
	s = calloc(1, sizeof(*s));
	r = -ENOMEM;
	if (!s)
		goto fail;
	s->fd_object.kind = FD_NETLINK;
	s->fd_object.refs = 1;
	s->fd_object.release = netlink_release;
	pthread_mutex_init(&s->lock, NULL);
	STAILQ_INIT(&s->waiting);
	s->reply_fd = own_fd(REAL(socket)(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK));
	r = s->reply_fd < 0 ? s->reply_fd : fdtab_set(&root_get()->fdtab, fd, &s->fd_object);
	if (!r)
		return fd;
	netlink_release(&s->fd_object);
fail:
	own_fd_close(fd);
	return r;
}

HOOK int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && root_get()->n_devices)
		return ERRNO_RETURN(root_is_owner() ? netlink_open(type) : -EPROTONOSUPPORT);
	return REAL(socket)(domain, type, protocol);
}

static bool netlink_put(const struct netlink_socket *s, const void *message, size_t bytes)
{
	return REAL(sendto)(s->reply_fd, message, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
	                    (const struct sockaddr *)&s->program, sizeof(s->program)) >= 0;
}

/* With the lock held. */
static void netlink_flush(struct netlink_socket *s)
{
	struct reply *r;

	while ((r = STAILQ_FIRST(&s->waiting)) && netlink_put(s, r->message, r->bytes)) {
		STAILQ_REMOVE_HEAD(&s->waiting, link);
		free(r);
	}
}

static void netlink_emit(void *arg, const void *message, size_t bytes)
{
	struct netlink_socket *s = arg;
	struct reply *r;

	netlink_flush(s);
	if (STAILQ_EMPTY(&s->waiting) && netlink_put(s, message, bytes))
		return;
	r = malloc(sizeof(*r) + bytes);
	if (!r)
		return;
	r->bytes = bytes;
	memcpy(r->message, message, bytes);
	STAILQ_INSERT_TAIL(&s->waiting, r, link);
}

/* A socket that sends is bound (netlink_sendmsg: netlink_autobind). */
static int netlink_bind(struct netlink_socket *s, int fd)
{
	const struct sockaddr_nl any = {.nl_family = AF_NETLINK};
	socklen_t len = sizeof(s->program);

	if (getsockname(fd, (struct sockaddr *)&s->program, &len))
		return -errno;
	if (s->program.nl_pid)
		return 0;
	if (bind(fd, (const struct sockaddr *)&any, sizeof(any)))
		return -errno;
	return getsockname(fd, (struct sockaddr *)&s->program, &len) ? -errno : 0;
}

static int netlink_answer(struct netlink_socket *s, int fd, const void *datagram, size_t bytes)
{
	struct root *root = root_get();
	struct nldev n = {
		.devices = root->devices,
		.n_devices = root_n_rdma(root),
		.emit = netlink_emit,
		.arg = s,
	};
	int r;

	pthread_mutex_lock(&s->lock);
	r = netlink_bind(s, fd);
	n.port_id = s->program.nl_pid;
	if (!r)
		nldev_answer(&n, datagram, bytes);
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Reads what the program sends. The number of bytes, or negative errno. */
static ssize_t netlink_gather(const struct msghdr *m, uint8_t *to)
{
	struct iovec iov[MAX_IOV];
	size_t n = 0;

	if (m->msg_iovlen > MAX_IOV)
		return -EMSGSIZE;
	if (user_memory_read(iov, (uintptr_t)m->msg_iov, m->msg_iovlen * sizeof(*iov)))
		return -EFAULT;
	for (size_t i = 0; i < m->msg_iovlen; i++) {
		if (iov[i].iov_len > MAX_REQUEST - n)
			return -EMSGSIZE;
		if (user_memory_read(to + n, (uintptr_t)iov[i].iov_base, iov[i].iov_len))
			return -EFAULT;
		n += iov[i].iov_len;
	}
	return (ssize_t)n;
}

static ssize_t netlink_sendmsg(struct fd_object *o, int fd, const struct msghdr *m)
{
	uint8_t *datagram = malloc(MAX_REQUEST);
	ssize_t n = datagram ? netlink_gather(m, datagram) : -ENOMEM;
	int r = !root_is_owner() || fd_object_is_inherited(o) ? -EIO : 0;

	if (n >= 0 && !r)
		r = netlink_answer((struct netlink_socket *)o, fd, datagram, (size_t)n);
	free(datagram);
	return r ? r : n;
}

/* A reference to the socket if `fd` is one of RDMA netlink, or NULL. */
static struct fd_object *netlink_find(int fd)
{
	return fdtab_find(&root_peek()->fdtab, fd, FD_NETLINK);
}

HOOK ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct fd_object *o = netlink_find(fd);
	struct msghdr m;
	ssize_t r;

	if (!o)
		return REAL(sendmsg)(fd, message, flags);
	r = user_memory_read(&m, (uintptr_t)message, sizeof(m));
	if (!r)
		r = netlink_sendmsg(o, fd, &m);
	fd_object_put(o);
	return ERRNO_RETURN(r);
}

HOOK ssize_t sendto(int fd, const void *buf, size_t bytes, int flags, const struct sockaddr *to, socklen_t to_bytes)
{
	struct fd_object *o = netlink_find(fd);
	struct iovec iov = {(void *)buf, bytes};
	const struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t r;

	if (!o)
		return REAL(sendto)(fd, buf, bytes, flags, to, to_bytes);
	r = netlink_sendmsg(o, fd, &m);
	fd_object_put(o);
	return ERRNO_RETURN(r);
}

HOOK ssize_t send(int fd, const void *buf, size_t bytes, int flags)
{
	return fdtab_has(&root_peek()->fdtab, fd) ? sendto(fd, buf, bytes, flags, NULL, 0)
	                                          : REAL(send)(fd, buf, bytes, flags);
}

/* Reading makes room for messages that wait. */
static ssize_t netlink_received(int fd, ssize_t result)
{
	int saved = errno;
	struct fd_object *o = netlink_find(fd);
	struct netlink_socket *s = (struct netlink_socket *)o;

	if (o && root_is_owner() && !fd_object_is_inherited(o)) {
		pthread_mutex_lock(&s->lock);
		netlink_flush(s);
		pthread_mutex_unlock(&s->lock);
	}
	fd_object_put(o);
	errno = saved;
	return result;
}

HOOK ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	return netlink_received(fd, REAL(recvmsg)(fd, message, flags));
}

HOOK ssize_t recvfrom(int fd, void *buf, size_t bytes, int flags, struct sockaddr *from, socklen_t *from_bytes)
{
	return netlink_received(fd, REAL(recvfrom)(fd, buf, bytes, flags, from, from_bytes));
}

HOOK ssize_t recv(int fd, void *buf, size_t bytes, int flags)
{
	return netlink_received(fd, REAL(recv)(fd, buf, bytes, flags));
}
