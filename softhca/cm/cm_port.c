// SPDX-License-Identifier: Apache-2.0
/*
 * A port is claimed by the name of a socket in the abstract namespace: the kernel keeps these apart by network
 * namespace, as rdma_cm does its ports, and gives a name back when the process ends.
 */
#include "cm_port.h"

#include "../wire/own_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_EPHEMERAL 32768u /* net.ipv4.ip_local_port_range */
#define N_EPHEMERAL     28232u
#define N_TRIES         64
#define ALL_ADDRESSES   "all"
#define NAMES_BYTES     (1 << 20)

static const uint8_t no_gid[16];

/* "@softhca-cm-262-7471-" and then the address. */
static int port_prefix(const struct cm_port *p, char *name, size_t size)
{
	return snprintf(name, size, "@softhca-cm-%u-%u-", p->ps, p->number);
}

static void port_name(const struct cm_port *p, char name[108])
{
	int n = port_prefix(p, name, 108);

	if (!memcmp(p->gid, no_gid, sizeof(no_gid))) {
		snprintf(name + n, 108 - (size_t)n, "%s%s", ALL_ADDRESSES, p->ipv6_only ? "-6" : "");
		return;
	}
	for (unsigned int i = 0; i < sizeof(p->gid); i++)
		n += snprintf(name + n, 108 - (size_t)n, "%02x", p->gid[i]);
}

/* Has another process taken the port for addresses of which ours are a part, or the other way (cma_check_port)? */
static bool port_collides(const struct cm_port *p, const char *names, const char *own)
{
	bool all = !memcmp(p->gid, no_gid, sizeof(no_gid));
	char prefix[64];
	size_t n = (size_t)port_prefix(p, prefix, sizeof(prefix));

	for (const char *at = strstr(names, prefix); at; at = strstr(at + n, prefix)) {
		size_t len = strcspn(at, "\n");

		if (len == strlen(own) && !memcmp(at, own, len))
			continue;
		if (all || !strncmp(at + n, ALL_ADDRESSES, strlen(ALL_ADDRESSES)))
			return true;
	}
	return false;
}

/* The names of all sockets of the namespace (proc_pid_net(5)), or NULL. The caller frees it. */
static char *port_read_names(void)
{
	char *names = malloc(NAMES_BYTES + 1);
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/net/unix", O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t r = 1;

	while (names && fd >= 0 && n < NAMES_BYTES && r > 0) {
		r = syscall(SYS_read, fd, names + n, NAMES_BYTES - n);
		n += r > 0 ? (size_t)r : 0;
	}
	own_fd_close(fd);
	if (names)
		names[n] = 0;
	return names;
}

bool cm_port_is_taken(const struct cm_port *port)
{
	char own[108], *names = port_read_names();
	bool taken;

	port_name(port, own);
	taken = names && (strstr(names, own) || port_collides(port, names, own));
	free(names);
	return taken;
}

static int port_claim(const struct cm_port *p)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = own_fd((int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	char own[108], *names;
	socklen_t bytes;
	bool taken;

	if (fd < 0)
		return fd;
	port_name(p, own);
	bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(own));
	memcpy(name.sun_path, own, strlen(own));
	name.sun_path[0] = 0;
	taken = bind(fd, (const struct sockaddr *)&name, bytes);
	names = taken ? NULL : port_read_names();
	if (names)
		taken = port_collides(p, names, own);
	free(names);
	if (!taken)
		return fd;
	own_fd_close(fd);
	return -EADDRINUSE;
}

int cm_port_take(struct cm_port *port)
{
	unsigned int from = 0;
	int fd = -EADDRNOTAVAIL;

	if (port->number)
		return port_claim(port);
	if (getrandom(&from, sizeof(from), 0) < 0)
		from = (unsigned int)getpid();
	for (unsigned int i = 0; i < N_TRIES && fd < 0; i++) {
		port->number = (uint16_t)(FIRST_EPHEMERAL + (from + i) % N_EPHEMERAL);
		fd = port_claim(port);
	}
	return fd < 0 ? -EADDRNOTAVAIL : fd;
}
