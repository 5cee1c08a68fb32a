// SPDX-License-Identifier: Apache-2.0
/* Sends the datagrams that make the kernel resolve neighbours, with a TTL of 1. */
#include "daemon/net/neighbour_probe.h"

#include "daemon/net/net.h"

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
void neighbour_probe_send(const struct neighbour_probe *probe, unsigned interface_index,
                          const struct config_address *neighbour)
{
	bool is_ipv4 = neighbour->family == AF_INET;
	const struct in_pktinfo ipv4 = {.ipi_ifindex = (int)interface_index};
	const struct in6_pktinfo ipv6 = {.ipi6_ifindex = interface_index};
	size_t info_bytes = is_ipv4 ? sizeof(ipv4) : sizeof(ipv6);
	struct sockaddr_storage to;
	union {
		char bytes[CMSG_SPACE(sizeof(ipv6))];
		struct cmsghdr header;
	} control = {{0}};
	struct msghdr message = {.msg_name = &to, .msg_control = &control, .msg_controllen = CMSG_SPACE(info_bytes)};

	message.msg_namelen =
		net_socket_address(neighbour->family, neighbour->address, htons(DISCARD_PORT), interface_index, &to);
	control.header.cmsg_level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
	control.header.cmsg_type = is_ipv4 ? IP_PKTINFO : IPV6_PKTINFO;
	control.header.cmsg_len = CMSG_LEN(info_bytes);
	memcpy(CMSG_DATA(&control.header), is_ipv4 ? (const void *)&ipv4 : (const void *)&ipv6, info_bytes);
	/* Without IPv6 in the kernel its socket is a negative number: the call fails, as any probe may. */
	(void)sendmsg(is_ipv4 ? probe->ipv4 : probe->ipv6, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}
