// SPDX-License-Identifier: Apache-2.0
/* Requests by netlink, and the parsing of the answers of rtnetlink. */
#include "daemon/net/rtnl.h"

#include "lib/base/min.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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

int rtnl_ask(struct mnl_socket *socket, struct rtnl_request *request, uint16_t flags, mnl_cb_t cb, void *into)
{
	static unsigned sequence;
	struct nlmsghdr *message = &request->message;
	char answer[ANSWER_BYTES];
	int strays = 0, r = MNL_CB_OK;
	ssize_t n;

	message->nlmsg_flags = NLM_F_REQUEST | flags;
	message->nlmsg_seq = ++sequence;
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		return -errno;
	while (r != MNL_CB_STOP) {
		n = mnl_socket_recvfrom(socket, answer, sizeof(answer));
		if (n < 0)
			return -errno;
		r = mnl_cb_run(answer, (size_t)n, message->nlmsg_seq, mnl_socket_get_portid(socket), cb, into);
		if (r < 0 && ((errno != EPROTO && errno != ESRCH) || ++strays == STRAYS_MAX))
			return -errno;
	}
	return 0;
}

void *rtnl_request_init(struct rtnl_request *request, uint16_t type, size_t header_bytes)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(request->bytes);

	message->nlmsg_type = type;
	return mnl_nlmsg_put_extra_header(message, header_bytes);
}

static int rtnl_note_attribute(const struct nlattr *attribute, void *into)
{
	struct rtnl_attributes *attributes = into;

	if (mnl_attr_get_type(attribute) < RTNL_TYPES)
		attributes->of[mnl_attr_get_type(attribute)] = attribute;
	return MNL_CB_OK;
}

struct rtnl_attributes rtnl_read_attributes(const struct nlmsghdr *message, unsigned header_bytes)
{
	struct rtnl_attributes attributes = {0};

	mnl_attr_parse(message, header_bytes, rtnl_note_attribute, &attributes);
	return attributes;
}

struct rtnl_attributes rtnl_read_nested(const struct nlattr *list)
{
	struct rtnl_attributes attributes = {0};

	if (list)
		mnl_attr_parse_nested(list, rtnl_note_attribute, &attributes);
	return attributes;
}

bool rtnl_read_u32(const struct nlattr *attribute, uint32_t *value)
{
	if (!attribute || mnl_attr_get_payload_len(attribute) < sizeof(*value))
		return false;
	*value = mnl_attr_get_u32(attribute);
	return true;
}

/* False: it is not there, or not of six bytes. */
static bool rtnl_read_mac(const struct nlattr *attribute, uint8_t mac[6])
{
	if (!attribute || mnl_attr_get_payload_len(attribute) != 6)
		return false;
	memcpy(mac, mnl_attr_get_payload(attribute), 6);
	return true;
}

static size_t rtnl_address_bytes(sa_family_t family)
{
	return family == AF_INET6 ? 16 : 4;
}

static void rtnl_put_address(struct rtnl_request *request, uint16_t type, const struct config_address *address)
{
	mnl_attr_put(&request->message, type, rtnl_address_bytes(address->family), address->address);
}

static void rtnl_read_address(const struct nlattr *attribute, sa_family_t family, struct config_address *address)
{
	if (!attribute || mnl_attr_get_payload_len(attribute) != rtnl_address_bytes(family))
		return;
	memset(address, 0, sizeof(*address));
	address->family = family;
	memcpy(address->address, mnl_attr_get_payload(attribute), rtnl_address_bytes(family));
}

/* ---- a link --------------------------------------------------------------------------------------- */

/* The driver, the kernel (generic) and the card may have one each. */
static uint32_t rtnl_read_xdp_program(const struct nlattr *xdp)
{
	static const uint16_t types[] = {IFLA_XDP_DRV_PROG_ID, IFLA_XDP_SKB_PROG_ID, IFLA_XDP_HW_PROG_ID};
	const struct rtnl_attributes attributes = rtnl_read_nested(xdp);
	uint32_t id = 0;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && !id; i++)
		rtnl_read_u32(attributes.of[types[i]], &id);
	return id;
}

static int rtnl_on_link(const struct nlmsghdr *message, void *into)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(message);
	const struct rtnl_attributes attributes = rtnl_read_attributes(message, sizeof(*info));
	const struct nlattr *qdisc = attributes.of[IFLA_QDISC], *statistics = attributes.of[IFLA_STATS64];
	struct rtnl_link *link = into;

	link->up = (info->ifi_flags & IFF_UP) && (info->ifi_flags & IFF_RUNNING);
	rtnl_read_u32(attributes.of[IFLA_CARRIER_CHANGES], &link->carrier_changes);
	rtnl_read_u32(attributes.of[IFLA_MTU], &link->mtu);
	link->has_mac = rtnl_read_mac(attributes.of[IFLA_ADDRESS], link->mac);
	link->xdp_program = rtnl_read_xdp_program(attributes.of[IFLA_XDP]);
	snprintf(link->qdisc, sizeof(link->qdisc), "%s", qdisc ? mnl_attr_get_str(qdisc) : "");
	rtnl_read_u32(attributes.of[IFLA_LINK], &link->other_index);
	link->is_other_away = rtnl_read_u32(attributes.of[IFLA_LINK_NETNSID], &link->other_namespace);
	if (statistics) /* other kernels have more of them, or fewer */
		memcpy(&link->statistics, mnl_attr_get_payload(statistics),
		       u64_min(mnl_attr_get_payload_len(statistics), sizeof(link->statistics)));
	return MNL_CB_STOP;
}

static int rtnl_ask_link(struct mnl_socket *socket, struct rtnl_request *request, unsigned interface_index,
                         struct rtnl_link *link)
{
	struct ifinfomsg *info = mnl_nlmsg_get_payload(&request->message);

	info->ifi_index = (int)interface_index;
	memset(link, 0, sizeof(*link));
	return rtnl_ask(socket, request, 0, rtnl_on_link, link);
}

int rtnl_get_link(struct mnl_socket *socket, unsigned interface_index, struct rtnl_link *link)
{
	struct rtnl_request request;

	rtnl_request_init(&request, RTM_GETLINK, sizeof(struct ifinfomsg));
	return rtnl_ask_link(socket, &request, interface_index, link);
}

int rtnl_get_other_link(struct mnl_socket *socket, const struct rtnl_link *link, struct rtnl_link *other)
{
	struct rtnl_request request;

	rtnl_request_init(&request, RTM_GETLINK, sizeof(struct ifinfomsg));
	if (link->is_other_away)
		mnl_attr_put_u32(&request.message, IFLA_TARGET_NETNSID, link->other_namespace);
	return rtnl_ask_link(socket, &request, link->other_index, other);
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

static bool rtnl_is_u16(const struct nlattr *attribute)
{
	return attribute && mnl_attr_get_payload_len(attribute) >= sizeof(uint16_t);
}

/* -1: it is no VLAN (802.1Q). */
static int rtnl_read_vlan(const struct nlattr *link_info)
{
	const struct rtnl_attributes info = rtnl_read_nested(link_info),
				     data = rtnl_read_nested(info.of[IFLA_INFO_DATA]);
	const struct nlattr *kind = info.of[IFLA_INFO_KIND], *id = data.of[IFLA_VLAN_ID];
	const struct nlattr *protocol = data.of[IFLA_VLAN_PROTOCOL];
	bool is_vlan = kind && mnl_attr_get_payload_len(kind) == sizeof("vlan") &&
	               memcmp(mnl_attr_get_payload(kind), "vlan", sizeof("vlan")) == 0 && rtnl_is_u16(id) &&
	               rtnl_is_u16(protocol) && mnl_attr_get_u16(protocol) == htons(ETH_P_8021Q);

	return is_vlan ? mnl_attr_get_u16(id) : -1;
}

bool rtnl_read_link_change(const struct nlmsghdr *message, struct link_change *change)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(message);
	struct rtnl_attributes attributes;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*info) || info->ifi_family != AF_UNSPEC)
		return false;
	attributes = rtnl_read_attributes(message, sizeof(*info));
	*change = (struct link_change){
		.index = (unsigned)info->ifi_index,
		.is_gone = message->nlmsg_type == RTM_DELLINK,
		.is_down = !(info->ifi_flags & IFF_UP) || !(info->ifi_flags & IFF_RUNNING),
		.vlan = rtnl_read_vlan(attributes.of[IFLA_LINKINFO]),
		.xdp_program = rtnl_read_xdp_program(attributes.of[IFLA_XDP]),
	};
	if (!attributes.of[IFLA_LINK_NETNSID]) /* else the index belongs to another network namespace */
		rtnl_read_u32(attributes.of[IFLA_LINK], &change->lower_index);
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
	struct rtnl_request request;
	struct mnl_socket *socket;
	int r = rtnl_open(&socket, NETLINK_ROUTE);

	if (r < 0)
		return r;
	rtnl_request_init(&request, RTM_GETLINK, sizeof(struct ifinfomsg));
	search->found = 0;
	r = rtnl_ask(socket, &request, NLM_F_DUMP, rtnl_on_listed_link, search);
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
	const struct rtvia *via = attribute ? mnl_attr_get_payload(attribute) : NULL;
	size_t bytes = attribute ? mnl_attr_get_payload_len(attribute) : 0;

	if (bytes < sizeof(*via) || bytes - sizeof(*via) != rtnl_address_bytes(via->rtvia_family))
		return;
	memset(gateway, 0, sizeof(*gateway));
	gateway->family = via->rtvia_family;
	memcpy(gateway->address, via->rtvia_addr, bytes - sizeof(*via));
}

static int rtnl_on_route(const struct nlmsghdr *message, void *into)
{
	const struct rtmsg *found = mnl_nlmsg_get_payload(message);
	const struct rtnl_attributes attributes = rtnl_read_attributes(message, sizeof(*found));
	struct rtnl_route *route = into;

	route->type = found->rtm_type;
	rtnl_read_address(attributes.of[RTA_GATEWAY], found->rtm_family, &route->gateway);
	rtnl_read_via(attributes.of[RTA_VIA], &route->gateway);
	rtnl_read_address(attributes.of[RTA_PREFSRC], found->rtm_family, &route->source);
	return MNL_CB_STOP;
}

int rtnl_get_route(struct mnl_socket *socket, unsigned interface_index, const struct config_address *address,
                   struct rtnl_route *route)
{
	struct rtnl_request request;
	struct rtmsg *wanted = rtnl_request_init(&request, RTM_GETROUTE, sizeof(*wanted));

	wanted->rtm_family = (uint8_t)address->family;
	wanted->rtm_dst_len = (uint8_t)(8 * rtnl_address_bytes(address->family));
	rtnl_put_address(&request, RTA_DST, address);
	mnl_attr_put_u32(&request.message, RTA_OIF, interface_index);
	memset(route, 0, sizeof(*route));
	return rtnl_ask(socket, &request, 0, rtnl_on_route, route);
}

/* ---- a neighbour ---------------------------------------------------------------------------------- */

bool rtnl_read_neighbour(const struct nlmsghdr *message, struct rtnl_neighbour *neighbour)
{
	const struct ndmsg *found = mnl_nlmsg_get_payload(message);
	struct rtnl_attributes attributes;

	memset(neighbour, 0, sizeof(*neighbour));
	if (mnl_nlmsg_get_payload_len(message) < sizeof(*found) ||
	    (found->ndm_family != AF_INET && found->ndm_family != AF_INET6))
		return false;
	neighbour->interface_index = (unsigned)found->ndm_ifindex;
	neighbour->state = found->ndm_state;
	attributes = rtnl_read_attributes(message, sizeof(*found));
	rtnl_read_address(attributes.of[NDA_DST], found->ndm_family, &neighbour->address);
	neighbour->has_mac = rtnl_read_mac(attributes.of[NDA_LLADDR], neighbour->mac);
	return neighbour->address.family != AF_UNSPEC;
}

static int rtnl_on_neighbour(const struct nlmsghdr *message, void *into)
{
	return rtnl_read_neighbour(message, into) ? MNL_CB_STOP : MNL_CB_ERROR;
}

int rtnl_get_neighbour(struct mnl_socket *socket, unsigned interface_index, const struct config_address *address,
                       struct rtnl_neighbour *neighbour)
{
	struct rtnl_request request;
	struct ndmsg *wanted = rtnl_request_init(&request, RTM_GETNEIGH, sizeof(*wanted));

	wanted->ndm_family = (uint8_t)address->family;
	wanted->ndm_ifindex = (int)interface_index;
	rtnl_put_address(&request, NDA_DST, address);
	return rtnl_ask(socket, &request, 0, rtnl_on_neighbour, neighbour);
}
