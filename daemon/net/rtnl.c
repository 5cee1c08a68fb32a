// SPDX-License-Identifier: Apache-2.0
/* Requests by netlink, and the parsing of the answers of rtnetlink. */
#include "daemon/net/rtnl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define REQUEST_BYTES 256
#define ANSWER_BYTES  32768 /* the longest is that of a link; the kernel bounds a message to this */
#define LISTS_MAX     5
#define DATAGRAMS_MAX 32 /* with events, in one turn of the event loop */
#define STRAYS_MAX    8  /* late answers to earlier requests that timed out */

/* ---- sockets -------------------------------------------------------------------------------------- */

static int rtnl_open_socket(struct mnl_socket **socket, int bus, int flags)
{
	struct mnl_socket *opened = mnl_socket_open2(bus, SOCK_CLOEXEC | flags);
	int r;

	if (!opened)
		return -errno;
	if (mnl_socket_bind(opened, 0, MNL_SOCKET_AUTOPID) < 0) {
		r = -errno;
		mnl_socket_close(opened);
		return r;
	}
	*socket = opened;
	return 0;
}

int rtnl_open(struct mnl_socket **socket, int bus)
{
	const struct timeval second = {.tv_sec = 1};
	int r = rtnl_open_socket(socket, bus, 0);

	if (r == 0)
		setsockopt(mnl_socket_get_fd(*socket), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	return r;
}

int rtnl_open_events(struct mnl_socket **socket, const int *groups, size_t n_groups)
{
	int r = rtnl_open_socket(socket, NETLINK_ROUTE, SOCK_NONBLOCK);

	for (size_t i = 0; i < n_groups && r == 0; i++)
		if (mnl_socket_setsockopt(*socket, NETLINK_ADD_MEMBERSHIP, (void *)&groups[i], sizeof(groups[i])) < 0) {
			r = -errno;
			mnl_socket_close(*socket);
			*socket = NULL;
		}
	return r;
}

int rtnl_take_events(const struct mnl_socket *socket, rtnl_on_event *on_event, void *context)
{
	char buffer[ANSWER_BYTES];

	for (int i = 0; i < DATAGRAMS_MAX; i++) {
		ssize_t n = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));
		int left = (int)n;

		if (n < 0 && errno != ENOBUFS && errno != ENOSPC)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (n < 0)
			on_event(context, NULL);
		for (const struct nlmsghdr *event = (void *)buffer; n > 0 && mnl_nlmsg_ok(event, left);
		     event = mnl_nlmsg_next(event, &left))
			on_event(context, event);
	}
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------------- */

int rtnl_ask_all(struct mnl_socket *socket, struct nlmsghdr *request, uint16_t flags, mnl_cb_t cb, void *into)
{
	static unsigned sequence;
	char answer[ANSWER_BYTES];
	int strays = 0, r = MNL_CB_OK;
	ssize_t n;

	request->nlmsg_flags = NLM_F_REQUEST | flags;
	request->nlmsg_seq = ++sequence;
	if (mnl_socket_sendto(socket, request, request->nlmsg_len) < 0)
		return -errno;
	while (r != MNL_CB_STOP) {
		n = mnl_socket_recvfrom(socket, answer, sizeof(answer));
		if (n < 0)
			return -errno;
		r = mnl_cb_run(answer, (size_t)n, request->nlmsg_seq, mnl_socket_get_portid(socket), cb, into);
		if (r < 0 && ((errno != EPROTO && errno != ESRCH) || ++strays == STRAYS_MAX))
			return -errno;
	}
	return 0;
}

/* For an answer of one message. */
static int rtnl_ask(struct mnl_socket *socket, struct nlmsghdr *request, mnl_cb_t cb, void *into)
{
	return rtnl_ask_all(socket, request, 0, cb, into);
}

static size_t rtnl_address_bytes(sa_family_t family)
{
	return family == AF_INET6 ? 16 : 4;
}

static void rtnl_put_address(struct nlmsghdr *request, uint16_t type, const struct config_address *address)
{
	mnl_attr_put(request, type, rtnl_address_bytes(address->family), address->address);
}

static void rtnl_read_address(const struct nlattr *attribute, sa_family_t family, struct config_address *address)
{
	if (mnl_attr_get_payload_len(attribute) != rtnl_address_bytes(family))
		return;
	memset(address, 0, sizeof(*address));
	address->family = family;
	memcpy(address->address, mnl_attr_get_payload(attribute), rtnl_address_bytes(family));
}

/* ---- a link --------------------------------------------------------------------------------------- */

static void rtnl_read_xdp(const struct nlattr *xdp, struct rtnl_link *link)
{
	const struct nlattr *attribute;

	mnl_attr_for_each_nested(attribute, xdp)
	{
		if (mnl_attr_get_type(attribute) == IFLA_XDP_PROG_ID)
			link->xdp_program = mnl_attr_get_u32(attribute);
	}
}

static int rtnl_on_link(const struct nlmsghdr *message, void *into)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(message);
	struct rtnl_link *link = into;
	const struct nlattr *attribute;

	link->up = (info->ifi_flags & IFF_UP) && (info->ifi_flags & IFF_RUNNING);
	mnl_attr_for_each(attribute, message, sizeof(*info))
	{
		if (mnl_attr_get_type(attribute) == IFLA_MTU)
			link->mtu = mnl_attr_get_u32(attribute);
		else if (mnl_attr_get_type(attribute) == IFLA_QDISC)
			snprintf(link->qdisc, sizeof(link->qdisc), "%s", mnl_attr_get_str(attribute));
		else if (mnl_attr_get_type(attribute) == IFLA_ADDRESS && mnl_attr_get_payload_len(attribute) == 6) {
			link->has_mac = true;
			memcpy(link->mac, mnl_attr_get_payload(attribute), 6);
		} else if (mnl_attr_get_type(attribute) == IFLA_XDP) {
			rtnl_read_xdp(attribute, link);
		}
	}
	return MNL_CB_STOP;
}

int rtnl_get_link(struct mnl_socket *socket, unsigned interface_index, struct rtnl_link *link)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct ifinfomsg *info;

	request->nlmsg_type = RTM_GETLINK;
	info = mnl_nlmsg_put_extra_header(request, sizeof(*info));
	info->ifi_index = (int)interface_index;
	memset(link, 0, sizeof(*link));
	return rtnl_ask(socket, request, rtnl_on_link, link);
}

/* As rtnl_get_link(), with a socket of its own. */
static int rtnl_read_link(unsigned interface_index, struct rtnl_link *link)
{
	struct mnl_socket *socket;
	int r = rtnl_open(&socket, NETLINK_ROUTE);

	*link = (struct rtnl_link){0};
	if (r < 0)
		return r;
	r = rtnl_get_link(socket, interface_index, link);
	mnl_socket_close(socket);
	return r;
}

int net_queueing_discipline(unsigned interface_index, char kind[NET_QUEUEING_BYTES])
{
	struct rtnl_link link;
	int r = rtnl_read_link(interface_index, &link);

	snprintf(kind, NET_QUEUEING_BYTES, "%s", link.qdisc);
	return r;
}

uint32_t net_xdp_program(unsigned interface_index)
{
	struct rtnl_link link;

	return rtnl_read_link(interface_index, &link) == 0 ? link.xdp_program : 0;
}

/* ---- the interface of a VLAN --------------------------------------------------------------------------- */

struct vlan_search {
	uint32_t interface_index;
	int vlan;
	unsigned found; /* 0: not found yet */
};

/* An attribute in a nested list. NULL: there is none, or it has fewer bytes. */
static const struct nlattr *rtnl_find_nested(const struct nlattr *list, uint16_t type, size_t bytes)
{
	const struct nlattr *attribute;

	mnl_attr_for_each_nested(attribute, list)
	{
		if (mnl_attr_get_type(attribute) == type)
			return mnl_attr_get_payload_len(attribute) >= bytes ? attribute : NULL;
	}
	return NULL;
}

/* -1: it is no VLAN (802.1Q). */
static int rtnl_read_vlan(const struct nlattr *link_info)
{
	const struct nlattr *kind = rtnl_find_nested(link_info, IFLA_INFO_KIND, sizeof("vlan"));
	const struct nlattr *data = rtnl_find_nested(link_info, IFLA_INFO_DATA, 0);
	const struct nlattr *id = data ? rtnl_find_nested(data, IFLA_VLAN_ID, 2) : NULL;
	const struct nlattr *protocol = data ? rtnl_find_nested(data, IFLA_VLAN_PROTOCOL, 2) : NULL;
	bool is_vlan = kind && strcmp(mnl_attr_get_payload(kind), "vlan") == 0 && id && protocol &&
	               mnl_attr_get_u16(protocol) == htons(ETH_P_8021Q);

	return is_vlan ? mnl_attr_get_u16(id) : -1;
}

bool rtnl_read_link_change(const struct nlmsghdr *message, struct link_change *change)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute;
	bool is_lower_elsewhere = false;

	*change = (struct link_change){.vlan = -1};
	if (mnl_nlmsg_get_payload_len(message) < sizeof(*info) || info->ifi_family != AF_UNSPEC)
		return false;
	change->index = (unsigned)info->ifi_index;
	change->is_gone = message->nlmsg_type == RTM_DELLINK;
	change->is_down = !(info->ifi_flags & IFF_UP) || !(info->ifi_flags & IFF_RUNNING);
	mnl_attr_for_each(attribute, message, sizeof(*info))
	{
		switch (mnl_attr_get_type(attribute)) {
		case IFLA_LINK:
			change->lower_index = mnl_attr_get_u32(attribute);
			break;
		case IFLA_LINK_NETNSID: /* the index belongs to another network namespace */
			is_lower_elsewhere = true;
			break;
		case IFLA_LINKINFO:
			change->vlan = rtnl_read_vlan(attribute);
			break;
		}
	}
	if (is_lower_elsewhere)
		change->lower_index = 0;
	return true;
}

/* Reads the list to its end, because only the end tells whether it changed while it was read. */
static int rtnl_on_listed_link(const struct nlmsghdr *message, void *into)
{
	struct vlan_search *search = into;
	struct link_change link;

	if (rtnl_read_link_change(message, &link) && link.lower_index == search->interface_index &&
	    link.vlan == search->vlan)
		search->found = link.index;
	return MNL_CB_OK;
}

static int rtnl_list_links(struct vlan_search *search)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct mnl_socket *socket;
	int r = rtnl_open(&socket, NETLINK_ROUTE);

	if (r < 0)
		return r;
	request->nlmsg_type = RTM_GETLINK;
	mnl_nlmsg_put_extra_header(request, sizeof(struct ifinfomsg));
	search->found = 0;
	r = rtnl_ask_all(socket, request, NLM_F_DUMP, rtnl_on_listed_link, search);
	mnl_socket_close(socket);
	return r;
}

int rtnl_find_vlan(unsigned interface_index, int vlan, unsigned *vlan_index)
{
	struct vlan_search search = {.interface_index = interface_index, .vlan = vlan};
	int r = -EINTR;

	/* -EINTR: a link came or went while the list was read. */
	for (int i = 0; i < LISTS_MAX && r == -EINTR; i++)
		r = rtnl_list_links(&search);
	*vlan_index = search.found;
	return r == 0 && search.found == 0 ? -ENOENT : r;
}

/* ---- a route -------------------------------------------------------------------------------------- */

static void rtnl_read_via(const struct nlattr *attribute, struct config_address *gateway)
{
	const struct rtvia *via = mnl_attr_get_payload(attribute);
	size_t bytes = mnl_attr_get_payload_len(attribute);

	if (bytes < sizeof(*via) || bytes - sizeof(*via) != rtnl_address_bytes(via->rtvia_family))
		return;
	memset(gateway, 0, sizeof(*gateway));
	gateway->family = via->rtvia_family;
	memcpy(gateway->address, via->rtvia_addr, bytes - sizeof(*via));
}

static int rtnl_on_route(const struct nlmsghdr *message, void *into)
{
	const struct rtmsg *found = mnl_nlmsg_get_payload(message);
	struct rtnl_route *route = into;
	const struct nlattr *attribute;

	route->type = found->rtm_type;
	mnl_attr_for_each(attribute, message, sizeof(*found))
	{
		switch (mnl_attr_get_type(attribute)) {
		case RTA_GATEWAY:
			rtnl_read_address(attribute, found->rtm_family, &route->gateway);
			break;
		case RTA_VIA:
			rtnl_read_via(attribute, &route->gateway);
			break;
		case RTA_PREFSRC:
			rtnl_read_address(attribute, found->rtm_family, &route->source);
			break;
		}
	}
	return MNL_CB_STOP;
}

int rtnl_get_route(struct mnl_socket *socket, unsigned interface_index, const struct config_address *address,
                   struct rtnl_route *route)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct rtmsg *wanted;

	request->nlmsg_type = RTM_GETROUTE;
	wanted = mnl_nlmsg_put_extra_header(request, sizeof(*wanted));
	wanted->rtm_family = (uint8_t)address->family;
	wanted->rtm_dst_len = (uint8_t)(8 * rtnl_address_bytes(address->family));
	rtnl_put_address(request, RTA_DST, address);
	mnl_attr_put_u32(request, RTA_OIF, interface_index);
	memset(route, 0, sizeof(*route));
	return rtnl_ask(socket, request, rtnl_on_route, route);
}

/* ---- a neighbour ---------------------------------------------------------------------------------- */

bool rtnl_read_neighbour(const struct nlmsghdr *message, struct rtnl_neighbour *neighbour)
{
	const struct ndmsg *found = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute;

	memset(neighbour, 0, sizeof(*neighbour));
	if (mnl_nlmsg_get_payload_len(message) < sizeof(*found) ||
	    (found->ndm_family != AF_INET && found->ndm_family != AF_INET6))
		return false;
	neighbour->interface_index = (unsigned)found->ndm_ifindex;
	neighbour->state = found->ndm_state;
	mnl_attr_for_each(attribute, message, sizeof(*found))
	{
		if (mnl_attr_get_type(attribute) == NDA_DST) {
			rtnl_read_address(attribute, found->ndm_family, &neighbour->address);
		} else if (mnl_attr_get_type(attribute) == NDA_LLADDR && mnl_attr_get_payload_len(attribute) == 6) {
			memcpy(neighbour->mac, mnl_attr_get_payload(attribute), 6);
			neighbour->has_mac = true;
		}
	}
	return neighbour->address.family != AF_UNSPEC;
}

static int rtnl_on_neighbour(const struct nlmsghdr *message, void *into)
{
	return rtnl_read_neighbour(message, into) ? MNL_CB_STOP : MNL_CB_ERROR;
}

int rtnl_get_neighbour(struct mnl_socket *socket, unsigned interface_index, const struct config_address *address,
                       struct rtnl_neighbour *neighbour)
{
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct ndmsg *wanted;

	request->nlmsg_type = RTM_GETNEIGH;
	wanted = mnl_nlmsg_put_extra_header(request, sizeof(*wanted));
	wanted->ndm_family = (uint8_t)address->family;
	wanted->ndm_ifindex = (int)interface_index;
	rtnl_put_address(request, NDA_DST, address);
	return rtnl_ask(socket, request, rtnl_on_neighbour, neighbour);
}
