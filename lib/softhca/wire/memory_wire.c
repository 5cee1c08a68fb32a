// SPDX-License-Identifier: Apache-2.0
/*
 * A cable between two devices, in one program or in two programs of the same network namespace. Each end has a ring in
 * which it receives, and gives the other end the ring's descriptor.
 *
 * An end is known by an abstract UNIX socket. Only one process can have that name, and the kernel frees it when the
 * process ends, however it ends. The end that comes second says hello with its ring and is answered with the other
 * ring. So an end that is opened anew replaces the earlier one. A message without a descriptor wakes an end that
 * sleeps.
 */
#include "engine.h"
#include "link.h"
#include "memory_ring.h"
#include "clock_now.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define VLAN_TAG_BYTES 4
#define HELLO_CHECK_NS 1000000u
#define ANSWER_MS      200

struct hello {
	char magic[16];
	uint32_t answer; /* 1: the receiver should answer with its own ring */
};
#define MAGIC "softhca-wire-1"

struct memory_wire {
	struct wire base;
	int socket, ring_fd;
	struct sockaddr_un peer;
	socklen_t peer_len;
	struct link_facts link;
	struct memory_ring in, out;
	uint64_t next_check_ns;
};

static socklen_t memory_wire_name(struct sockaddr_un *name, const char *netdev, const char *other)
{
	int n;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	/* An abstract name: its first byte is 0. */
	n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "softhca-wire/%s/%s", netdev, other);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* The control part of a message that carries one descriptor. */
union control {
	struct cmsghdr header;
	uint8_t space[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

/* False if the other end does not exist; it will say hello when it is opened. */
static bool memory_wire_say_hello(const struct memory_wire *m, bool answer)
{
	struct hello hello = {.magic = MAGIC, .answer = answer};
	struct iovec iov = {.iov_base = &hello, .iov_len = sizeof(hello)};
	union control control = {};
	struct msghdr msg = {.msg_name = (void *)&m->peer,
	                     .msg_namelen = m->peer_len,
	                     .msg_iov = &iov,
	                     .msg_iovlen = 1,
	                     .msg_control = &control,
	                     .msg_controllen = CMSG_SPACE(sizeof(int))};

	control.header =
		(struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
	memcpy(CMSG_DATA(&control.header), &m->ring_fd, sizeof(int));
	return syscall(SYS_sendmsg, m->socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* Returns the message's descriptor, or -1. A descriptor is closed unless the sender is of the same user, or root. */
static int memory_wire_take_fd(struct msghdr *msg)
{
	bool trusted = false;
	int fd = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		for (size_t at = CMSG_LEN(0); c->cmsg_type == SCM_RIGHTS && at + sizeof(fd) <= c->cmsg_len;
		     at += sizeof(fd)) {
			if (fd >= 0)
				syscall(SYS_close, fd); /* more than one: not from softhca */
			memcpy(&fd, (uint8_t *)c + at, sizeof(fd));
		}
		if (c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred who;

			memcpy(&who, CMSG_DATA(c), sizeof(who));
			trusted = who.uid == geteuid() || who.uid == 0;
		}
	}
	if (fd >= 0 && !trusted) {
		syscall(SYS_close, fd);
		fd = -1;
	}
	return fd;
}

/* False if there is no message. */
static bool memory_wire_hear_hello(struct memory_wire *m)
{
	struct hello hello = {};
	struct iovec iov = {.iov_base = &hello, .iov_len = sizeof(hello)};
	union control control = {};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n = syscall(SYS_recvmsg, m->socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct memory_ring ring;
	int fd;

	if (n < 0)
		return false;
	fd = memory_wire_take_fd(&msg);
	if (fd < 0)
		return true;
	if (n == sizeof(hello) && !memcmp(hello.magic, MAGIC, sizeof(MAGIC)) && !memory_ring_map(&ring, fd)) {
		memory_ring_unmap(&m->out);
		m->out = ring;
		if (hello.answer)
			memory_wire_say_hello(m, false);
	}
	syscall(SYS_close, fd);
	return true;
}

static void memory_wire_look_for_peer(struct memory_wire *m)
{
	uint64_t now = clock_now_ns(CLOCK_MONOTONIC);

	if (now < m->next_check_ns)
		return;
	m->next_check_ns = now + HELLO_CHECK_NS;
	while (memory_wire_hear_hello(m))
		;
}

static bool memory_wire_poll_socket(const struct memory_wire *m, unsigned int timeout_us)
{
	struct timespec ts = {.tv_sec = timeout_us / 1000000, .tv_nsec = (long)(timeout_us % 1000000) * 1000};
	struct pollfd p = {.fd = m->socket, .events = POLLIN};

	return ppoll(&p, 1, &ts, NULL) > 0;
}

static int memory_wire_receive(struct wire *wire, struct wire_frame *frames, int max)
{
	struct memory_wire *m = (struct memory_wire *)wire;
	struct memory_slot *s;
	int n = 0;

	memory_wire_look_for_peer(m);
	/* A fixed number, and not "while there are frames": a hostile other end could fill the ring for ever. */
	for (int i = 0; i < max && (s = memory_ring_next(&m->in)); i++) {
		uint32_t len = __atomic_load_n(&s->len, __ATOMIC_RELAXED);

		if (len < ETH_HLEN || len > m->in.slot_bytes - sizeof(*s))
			continue; /* not from a softhca */
		frames[n++] = (struct wire_frame){
			.data = s->frame,
			.len = len,
			.addressed = link_addressed(&m->link, s->frame),
			.realtime_ns = s->realtime_ns,
		};
	}
	return n;
}

static void memory_wire_release(struct wire *wire)
{
	struct memory_wire *m = (struct memory_wire *)wire;

	memory_ring_release(&m->in);
}

static int memory_wire_send_frames(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n)
{
	struct memory_wire *m = (struct memory_wire *)wire;
	uint64_t now = clock_now_ns(CLOCK_REALTIME);

	if (!m->out.shared)
		memory_wire_look_for_peer(m);
	if (!m->out.shared)
		return n; /* no cable, or no process at its other end */
	for (int i = 0; i < n; i++)
		memory_ring_put(&m->out, iov[i], iovcnt[i], now);
	if (memory_ring_must_wake(&m->out))
		syscall(SYS_sendto, m->socket, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL, &m->peer, m->peer_len);
	return n;
}

static void memory_wire_wait(struct wire *wire, unsigned int timeout_us)
{
	struct memory_wire *m = (struct memory_wire *)wire;

	if (memory_ring_sleep(&m->in))
		memory_wire_poll_socket(m, timeout_us);
	memory_ring_awake(&m->in);
	m->next_check_ns = 0;
}

static void memory_wire_stats(struct wire *wire, struct wire_stats *s)
{
	const struct memory_wire *m = (struct memory_wire *)wire;

	s->discards = __atomic_load_n(&m->in.shared->discards, __ATOMIC_RELAXED);
}

static void memory_wire_forked(struct wire *wire)
{
	struct memory_wire *m = (struct memory_wire *)wire;

	memory_ring_unmap(&m->in);
	memory_ring_unmap(&m->out);
	if (m->ring_fd >= 0)
		syscall(SYS_close, m->ring_fd);
	if (m->socket >= 0)
		syscall(SYS_close, m->socket);
	m->ring_fd = m->socket = -1;
}

static void memory_wire_close(struct wire *wire)
{
	memory_wire_forked(wire);
	free(wire);
}

static int memory_wire_open_end(struct memory_wire *m, const struct wire_config *config)
{
	const char *peer = config->peer ? config->peer : "";
	struct sockaddr_un own;
	socklen_t own_len = memory_wire_name(&own, config->netdev, peer);
	int one = 1;

	m->peer_len = memory_wire_name(&m->peer, peer, config->netdev);
	m->socket = (int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (m->socket < 0 || setsockopt(m->socket, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)))
		return -errno;
	if (bind(m->socket, (struct sockaddr *)&own, own_len))
		return errno == EADDRINUSE ? -EBUSY : -errno;
	return 0;
}

int memory_wire_open(struct wire **wire, const struct wire_config *config)
{
	static const struct wire_ops ops = {
		.receive = memory_wire_receive,
		.release = memory_wire_release,
		.send = memory_wire_send_frames,
		.wait = memory_wire_wait,
		.stats = memory_wire_stats,
		.close = memory_wire_close,
		.forked = memory_wire_forked,
	};
	struct memory_wire *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->base.ops = &ops;
	m->socket = m->ring_fd = -1;
	r = link_read(config->netdev, &m->link);
	if (!r)
		r = memory_ring_create(&m->in, config->ring_bytes, m->link.mtu + ETH_HLEN + 2 * VLAN_TAG_BYTES,
		                       &m->ring_fd);
	if (!r)
		r = memory_wire_open_end(m, config);
	if (r) {
		memory_wire_close(&m->base);
		return r;
	}
	/* If there is another end, wait for its ring: frames sent from now on arrive. */
	if (memory_wire_say_hello(m, true))
		while (!m->out.shared && memory_wire_poll_socket(m, ANSWER_MS * 1000))
			memory_wire_hear_hello(m);
	*wire = &m->base;
	return 0;
}
