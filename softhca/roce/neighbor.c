// SPDX-License-Identifier: Apache-2.0
/* Looks up MAC addresses in the kernel's routes and neighbours, by rtnetlink. */
#include "neighbor.h"

#include "../wire/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_STEPS   500 /* of WAIT_STEP_NS, together a second (ib_core: rdma_addr_find_l2_eth_by_grh) */
#define WAIT_STEP_NS 2000000
#define DISCARD_PORT 9
#define NUD_USABLE   (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

/* An IP address as rtnetlink and sockets have it. */
struct address {
	uint8_t family;
	size_t bytes;
	const uint8_t *data;
};

static struct address neighbor_address(const uint8_t gid[16])
{
	bool ipv4 = !memcmp(gid, mapped, sizeof(mapped));

	return (struct address){ipv4 ? AF_INET : AF_INET6, ipv4 ? 4 : 16, ipv4 ? gid + 12 : gid};
}

bool gid_is_multicast(const uint8_t gid[16])
{
	return gid[0] == 0xff || (!memcmp(gid, mapped, sizeof(mapped)) && gid[12] >> 4 == 0xe);
}

int neighbor_own_mac(const char *netdev, uint8_t mac[6])
{
	struct link_facts link;
	int r = link_read(netdev, &link);

	if (!r)
		memcpy(mac, link.mac, sizeof(link.mac));
	return r;
}

/* RFC 1112, 6.4, and RFC 2464, 7. */
static void neighbor_group_mac(const uint8_t gid[16], uint8_t mac[6])
{
	static const uint8_t ipv4[3] = {0x01, 0x00, 0x5e}, ipv6[2] = {0x33, 0x33};

	memcpy(mac + 2, gid + 12, 4);
	if (gid[0] == 0xff) {
		memcpy(mac, ipv6, 2);
		return;
	}
	memcpy(mac, ipv4, 3);
	mac[3] &= 0x7f;
}

struct request {
	struct nlmsghdr header;
	union {
		struct rtmsg route;
		struct ndmsg neighbor;
	};
	char attributes[64];
};

static void neighbor_add(struct request *q, unsigned short type, const void *data, size_t bytes)
{
	struct rtattr *a = (void *)((char *)q + NLMSG_ALIGN(q->header.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(bytes);
	memcpy(RTA_DATA(a), data, bytes);
	q->header.nlmsg_len = NLMSG_ALIGN(q->header.nlmsg_len) + (uint32_t)RTA_ALIGN(a->rta_len);
}

/* Sends the request and reads the one answer. Its length, or negative errno, which is the kernel's if it refuses. */
static ssize_t neighbor_ask(const struct request *q, void *answer, size_t bytes)
{
	int fd = (int)syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	const struct nlmsghdr *h = answer;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = send(fd, q, q->header.nlmsg_len, 0);
	if (n >= 0)
		n = recv(fd, answer, bytes, 0);
	if (n < 0)
		n = -errno;
	syscall(SYS_close, fd);
	if (n >= 0 && (n < (ssize_t)sizeof(*h) || h->nlmsg_len > (size_t)n))
		return -EIO;
	if (n >= 0 && h->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
	return n;
}

static const void *neighbor_attribute(const struct nlmsghdr *h, size_t header_bytes, unsigned short type, size_t bytes)
{
	const struct rtattr *a = (const void *)((const char *)NLMSG_DATA(h) + NLMSG_ALIGN(header_bytes));
	int left = (int)(h->nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(header_bytes)));

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == type && RTA_PAYLOAD(a) >= bytes)
			return RTA_DATA(a);
	return NULL;
}

/* The address of the next hop: a gateway's, or that of the destination. */
static int neighbor_next_hop(unsigned int ifindex, const struct address *to, uint8_t hop[16])
{
	struct request q = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(q.route)),
	                               .nlmsg_type = RTM_GETROUTE,
	                               .nlmsg_flags = NLM_F_REQUEST},
	                    .route = {.rtm_family = to->family, .rtm_dst_len = (uint8_t)(to->bytes * 8)}};
	_Alignas(struct nlmsghdr) char answer[1024];
	const void *gateway;
	ssize_t n;

	neighbor_add(&q, RTA_DST, to->data, to->bytes);
	neighbor_add(&q, RTA_OIF, &ifindex, sizeof(ifindex));
	n = neighbor_ask(&q, answer, sizeof(answer));
	if (n < 0)
		return (int)n;
	gateway = neighbor_attribute((const struct nlmsghdr *)answer, sizeof(struct rtmsg), RTA_GATEWAY, to->bytes);
	memcpy(hop, gateway ? gateway : to->data, to->bytes);
	return 0;
}

/* 0, or -ENOENT while the kernel does not know the neighbour. */
static int neighbor_look_up(unsigned int ifindex, const struct address *hop, uint8_t mac[6])
{
	struct request q = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(q.neighbor)),
	                               .nlmsg_type = RTM_GETNEIGH,
	                               .nlmsg_flags = NLM_F_REQUEST},
	                    .neighbor = {.ndm_family = hop->family, .ndm_ifindex = (int)ifindex}};
	_Alignas(struct nlmsghdr) char answer[1024];
	const struct nlmsghdr *h = (const void *)answer;
	const void *address;
	ssize_t n;

	neighbor_add(&q, NDA_DST, hop->data, hop->bytes);
	n = neighbor_ask(&q, answer, sizeof(answer));
	if (n < 0)
		return -ENOENT;
	address = neighbor_attribute(h, sizeof(struct ndmsg), NDA_LLADDR, ETH_ALEN);
	if (!address || !(((const struct ndmsg *)NLMSG_DATA(h))->ndm_state & NUD_USABLE))
		return -ENOENT;
	memcpy(mac, address, ETH_ALEN);
	return 0;
}

/* A datagram to the neighbour makes the kernel look for it. */
static void neighbor_call(const char *netdev, unsigned int ifindex, const struct address *hop)
{
	int fd = (int)syscall(SYS_socket, hop->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 ipv6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(DISCARD_PORT), .sin6_scope_id = ifindex};
	struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(DISCARD_PORT)};

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, netdev, (socklen_t)strlen(netdev));
	if (hop->family == AF_INET) {
		memcpy(&ipv4.sin_addr, hop->data, hop->bytes);
		sendto(fd, "", 0, MSG_DONTWAIT, (struct sockaddr *)&ipv4, sizeof(ipv4));
	} else {
		memcpy(&ipv6.sin6_addr, hop->data, hop->bytes);
		sendto(fd, "", 0, MSG_DONTWAIT, (struct sockaddr *)&ipv6, sizeof(ipv6));
	}
	syscall(SYS_close, fd);
}

int neighbor_find(const char *netdev, struct roce_path *path)
{
	const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
	struct address hop = neighbor_address(path->dgid);
	unsigned int ifindex = if_nametoindex(netdev);
	uint8_t next[16];
	int r;

	if (gid_is_multicast(path->dgid)) {
		neighbor_group_mac(path->dgid, path->dmac);
		return 0;
	}
	r = neighbor_next_hop(ifindex, &hop, next);
	if (r)
		return r;
	hop.data = next;
	if (!neighbor_look_up(ifindex, &hop, path->dmac))
		return 0;
	neighbor_call(netdev, ifindex, &hop);
	for (unsigned int i = 0; i < WAIT_STEPS; i++) {
		nanosleep(&step, NULL);
		if (!neighbor_look_up(ifindex, &hop, path->dmac))
			return 0;
	}
	return -ETIMEDOUT;
}
