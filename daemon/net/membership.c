// SPDX-License-Identifier: Apache-2.0
/*
 * Joins multicast groups. A socket can have a limited number of memberships; when one is full, another is opened.
 * Groups with and without a source use different sockets, because on one socket the join with a source replaces the
 * one without. The sockets are bound to no port and so receive nothing.
 */
#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct membership_socket {
	int fd;
	sa_family_t family;
	bool has_source;
};

struct membership {
	struct membership_socket *sockets;
	uint32_t n_sockets;
	unsigned *indexes; /* interfaces that groups were joined on */
	uint32_t n_indexes;
};

int membership_new(struct membership **membership)
{
	*membership = calloc(1, sizeof(**membership));
	return *membership ? 0 : -ENOMEM;
}

void membership_free(struct membership *membership)
{
	if (!membership)
		return;
	for (uint32_t i = 0; i < membership->n_sockets; i++)
		close(membership->sockets[i].fd);
	free(membership->sockets);
	free(membership->indexes);
	free(membership);
}

int membership_fd(const struct membership *membership, uint32_t i)
{
	return i < membership->n_sockets ? membership->sockets[i].fd : -1;
}

bool membership_uses(const struct membership *membership, unsigned interface_index)
{
	for (uint32_t i = 0; i < membership->n_indexes; i++)
		if (membership->indexes[i] == interface_index)
			return true;
	return false;
}

static int membership_note_interface(struct membership *membership, unsigned interface_index)
{
	unsigned *indexes;

	if (membership_uses(membership, interface_index))
		return 0;
	indexes = reallocarray(membership->indexes, membership->n_indexes + 1, sizeof(*indexes));
	if (!indexes)
		return -ENOMEM;
	membership->indexes = indexes;
	indexes[membership->n_indexes++] = interface_index;
	return 0;
}

/* EADDRINUSE, or EADDRNOTAVAIL with a source, means that this socket already has the membership. */
static int membership_join_on(int fd, unsigned interface_index, const struct flow_rule *rule)
{
	int level = rule->family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
	struct group_source_req with_source = {.gsr_interface = interface_index};
	struct group_req any_source = {.gr_interface = interface_index};
	int r;

	if (flow_rule_has_source(rule)) {
		net_socket_address(rule->family, rule->value.destination, 0, 0, &with_source.gsr_group);
		net_socket_address(rule->family, rule->value.source, 0, 0, &with_source.gsr_source);
		r = setsockopt(fd, level, MCAST_JOIN_SOURCE_GROUP, &with_source, sizeof(with_source));
		return r == 0 || errno == EADDRNOTAVAIL ? 0 : -errno;
	}
	net_socket_address(rule->family, rule->value.destination, 0, 0, &any_source.gr_group);
	r = setsockopt(fd, level, MCAST_JOIN_GROUP, &any_source, sizeof(any_source));
	return r == 0 || errno == EADDRINUSE ? 0 : -errno;
}

/* IPv4 limits memberships and sources of a group (ENOBUFS), IPv6 limits the option memory of a socket (ENOMEM). */
static bool membership_is_full(int error)
{
	return error == -ENOBUFS || error == -ENOMEM;
}

static int membership_join_on_open_socket(const struct membership *membership, unsigned interface_index,
                                          const struct flow_rule *rule)
{
	for (uint32_t i = 0; i < membership->n_sockets; i++) {
		const struct membership_socket *s = &membership->sockets[i];
		int r;

		if (s->family != rule->family || s->has_source != flow_rule_has_source(rule))
			continue;
		r = membership_join_on(s->fd, interface_index, rule);
		if (!membership_is_full(r))
			return r;
	}
	return -ENOBUFS;
}

static int membership_join_on_new_socket(struct membership *membership, unsigned interface_index,
                                         const struct flow_rule *rule)
{
	size_t bytes = (membership->n_sockets + 1) * sizeof(*membership->sockets);
	struct membership_socket *sockets = realloc(membership->sockets, bytes);
	int fd, r;

	if (!sockets)
		return -ENOMEM;
	membership->sockets = sockets;
	fd = socket(rule->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = membership_join_on(fd, interface_index, rule);
	if (r < 0) {
		close(fd);
		return r;
	}
	sockets[membership->n_sockets++] =
		(struct membership_socket){.fd = fd, .family = rule->family, .has_source = flow_rule_has_source(rule)};
	return 0;
}

static const char *membership_explain_remedy(int error, const struct flow_rule *rule)
{
	if (error == -ENOBUFS && rule->family == AF_INET)
		return "; the kernel's limits are sysctl net.ipv4.igmp_max_memberships and, for sources, "
		       "net.ipv4.igmp_max_msf";
	if (membership_is_full(error))
		return "; the kernel's limits are sysctl net.core.optmem_max and, for sources, net.ipv6.mld_max_msf";
	if (error == -EMFILE)
		return "; raise the limit of open files: LimitNOFILE= in the unit, or ulimit -n";
	if (rule->family == AF_INET6 && (error == -EAFNOSUPPORT || error == -EINVAL))
		return "; IPv6 is off on it: it needs an MTU of 1280 or more, and no ipv6.disable=1 on the kernel's "
		       "command line";
	return "";
}

/* Reports leave with the tag only through the VLAN's own interface, and only there the kernel receives queries. */
static int membership_find_interface(const struct flow_rule *rule, unsigned *interface_index)
{
	unsigned vlan_index;
	int r;

	if (!rule->mask.vlan_be)
		return 0;
	r = rtnl_find_vlan(*interface_index, flow_rule_vlan(rule), &vlan_index);
	if (r == -ENOENT)
		return MEMBERSHIP_UNTAGGED;
	if (r == 0)
		*interface_index = vlan_index;
	return r;
}

int membership_join(struct membership *membership, unsigned interface_index, const struct flow_rule *rule,
                    struct failure *failure)
{
	char group[FLOW_TEXT_MAX], interface[IF_NAMESIZE];
	int r, found;

	if (!rule->multicast)
		return 0;
	found = membership_find_interface(rule, &interface_index);
	if (found < 0)
		return failure_set(failure, EX_OSERR, -found, "the interface of VLAN %d cannot be looked up: %s",
		                   flow_rule_vlan(rule), strerror(-found));
	r = membership_join_on_open_socket(membership, interface_index, rule);
	if (membership_is_full(r))
		r = membership_join_on_new_socket(membership, interface_index, rule);
	if (r == 0)
		r = membership_note_interface(membership, interface_index);
	if (r == 0)
		return found;
	if (!if_indextoname(interface_index, interface))
		snprintf(interface, sizeof(interface), "%u", interface_index);
	return failure_set(failure, r == -ENODEV ? EX_UNAVAILABLE : EX_OSERR, -r,
	                   "interface %s: cannot join the group of %s: %s%s", interface,
	                   flow_format(rule, group, sizeof(group)), strerror(-r), membership_explain_remedy(r, rule));
}
