// SPDX-License-Identifier: Apache-2.0
/* Sends the datagrams that make the kernel resolve neighbours, with a TTL of 1. */
#include "daemon/net/neighbour_probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DISCARD_PORT 9

static int neighbour_probe_open_socket(sa_family_t family)
{
	const int one_hop = 1;
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (family == AF_INET)
		setsockopt(fd, IPPROTO_IP, IP_TTL, &one_hop, sizeof(one_hop));
	else
		setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &one_hop, sizeof(one_hop));
	return fd;
}

int neighbour_probe_open(struct neighbour_probe *probe)
{
	probe->ipv6 = -1;
	probe->ipv4 = neighbour_probe_open_socket(AF_INET);
	if (probe->ipv4 < 0)
		return probe->ipv4;
	probe->ipv6 = neighbour_probe_open_socket(AF_INET6);
	return probe->ipv6 < 0 && probe->ipv6 != -EAFNOSUPPORT ? probe->ipv6 : 0;
}

void neighbour_probe_close(struct neighbour_probe *probe)
{
	if (probe->ipv4 >= 0)
		close(probe->ipv4);
	if (probe->ipv6 >= 0)
		close(probe->ipv6);
	*probe = (struct neighbour_probe){-1, -1};
}

/* The message names the interface, so one socket serves all interfaces. */
static void neighbour_probe_send_empty(int fd, void *to, socklen_t to_bytes, int level, int type, const void *info,
                                       size_t info_bytes)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
		struct cmsghdr aligned;
	} control = {{0}};
	struct msghdr message = {.msg_name = to,
	                         .msg_namelen = to_bytes,
	                         .msg_control = &control,
	                         .msg_controllen = CMSG_SPACE(info_bytes)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = level;
	header->cmsg_type = type;
	header->cmsg_len = CMSG_LEN(info_bytes);
	memcpy(CMSG_DATA(header), info, info_bytes);
	(void)sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void neighbour_probe_send(const struct neighbour_probe *probe, unsigned interface_index,
                          const struct config_address *neighbour)
{
	if (neighbour->family == AF_INET) {
		const struct in_pktinfo info = {.ipi_ifindex = (int)interface_index};
		struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(DISCARD_PORT)};

		memcpy(&to.sin_addr, neighbour->address, sizeof(to.sin_addr));
		neighbour_probe_send_empty(probe->ipv4, &to, sizeof(to), IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	} else if (probe->ipv6 >= 0) {
		const struct in6_pktinfo info = {.ipi6_ifindex = interface_index};
		struct sockaddr_in6 to = {
			.sin6_family = AF_INET6, .sin6_port = htons(DISCARD_PORT), .sin6_scope_id = interface_index};

		memcpy(&to.sin6_addr, neighbour->address, sizeof(to.sin6_addr));
		neighbour_probe_send_empty(probe->ipv6, &to, sizeof(to), IPPROTO_IPV6, IPV6_PKTINFO, &info,
		                           sizeof(info));
	}
}
