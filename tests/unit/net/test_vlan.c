// SPDX-License-Identifier: Apache-2.0
/* Finding the interface of a VLAN, in link lists that the test writes, because a test kernel may lack VLANs. */
#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"
#include "tests/unit/net/namespace.h"
#include "tests/support/flows.h"

#include <arpa/inet.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

/* ---- a kernel, played ------------------------------------------------------------------------------ */

struct link {
	const char *kind;
	unsigned index;
	unsigned on;
	uint16_t vlan;
	uint16_t protocol;
	bool from_elsewhere;
};

static struct link links[8];
static unsigned n_links, n_told, n_lists;
static unsigned n_interrupted; /* lists in whose midst a link comes or goes */
static uint32_t sequence;
static int error; /* the answer, if not 0 */

/* In place of libmnl's. */
ssize_t mnl_socket_sendto(const struct mnl_socket *socket, const void *bytes, size_t n_bytes)
{
	const struct nlmsghdr *request = bytes;

	(void)socket;
	cr_assert(eq(u16, request->nlmsg_type, RTM_GETLINK));
	cr_assert(eq(u16, request->nlmsg_flags, NLM_F_REQUEST | NLM_F_DUMP));
	sequence = request->nlmsg_seq;
	n_told = 0;
	n_lists++;
	return (ssize_t)n_bytes;
}

static void put_link(struct nlmsghdr *message, const struct link *link)
{
	struct ifinfomsg *info = mnl_nlmsg_put_extra_header(message, sizeof(*info));
	struct nlattr *about, *data;

	info->ifi_index = (int)link->index;
	mnl_attr_put_u32(message, IFLA_MTU, 1500);
	if (link->on)
		mnl_attr_put_u32(message, IFLA_LINK, link->on);
	if (link->kind) {
		about = mnl_attr_nest_start(message, IFLA_LINKINFO);
		mnl_attr_put_strz(message, IFLA_INFO_KIND, link->kind);
		data = mnl_attr_nest_start(message, IFLA_INFO_DATA);
		mnl_attr_put_u16(message, IFLA_VLAN_ID, link->vlan);
		mnl_attr_put_u16(message, IFLA_VLAN_PROTOCOL, htons(link->protocol));
		mnl_attr_nest_end(message, data);
		mnl_attr_nest_end(message, about);
	}
	if (link->from_elsewhere)
		mnl_attr_put_u32(message, IFLA_LINK_NETNSID, 0);
}

static void put_end(struct nlmsghdr *message)
{
	struct nlmsgerr *what = mnl_nlmsg_put_extra_header(message, error ? sizeof(*what) : sizeof(what->error));

	message->nlmsg_type = error ? NLMSG_ERROR : NLMSG_DONE;
	what->error = error;
}

/* One link a datagram, then the end. */
ssize_t mnl_socket_recvfrom(const struct mnl_socket *socket, void *buffer, size_t bytes)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);

	cr_assert(ge(sz, bytes, 32768), "the longest message of a link");
	message->nlmsg_seq = sequence;
	message->nlmsg_pid = mnl_socket_get_portid(socket);
	message->nlmsg_type = RTM_NEWLINK;
	message->nlmsg_flags = NLM_F_MULTI;
	if (n_lists <= n_interrupted && n_told > 0)
		message->nlmsg_flags |= NLM_F_DUMP_INTR;
	cr_assert(le(u32, n_told, n_links), "the list was at its end");
	if (error || n_told++ == n_links)
		put_end(message);
	else
		put_link(message, &links[n_told - 1]);
	return (ssize_t)message->nlmsg_len;
}

static void have(struct link link)
{
	links[n_links++] = link;
}

/* ---- finding --------------------------------------------------------------------------------------- */

static int find(unsigned interface_index, int vlan, unsigned *index)
{
	*index = 0;
	n_lists = 0;
	return rtnl_find_vlan(interface_index, vlan, index);
}

Test(vlan, its_interface_is_the_8021q_one_of_that_id_on_that_interface)
{
	unsigned index;

	have((struct link){.index = 1});
	have((struct link){.index = 2, .on = 7}); /* of no kind, as a veth's end is told to be on the other */
	have((struct link){"vlan", .index = 3, .on = 8, .vlan = 5, .protocol = ETH_P_8021Q});
	have((struct link){"vlan", .index = 4, .on = 7, .vlan = 6, .protocol = ETH_P_8021Q});
	have((struct link){"vlan", .index = 5, .on = 7, .vlan = 5, .protocol = ETH_P_8021AD});
	have((struct link){"macvlan", .index = 6, .on = 7, .vlan = 5, .protocol = ETH_P_8021Q});
	have((struct link){"vlan", .index = 9, .on = 7, .vlan = 5, .protocol = ETH_P_8021Q, .from_elsewhere = true});
	cr_expect(eq(int, find(7, 5, &index), -ENOENT));
	have((struct link){"vlan", .index = 10, .on = 7, .vlan = 5, .protocol = ETH_P_8021Q});
	cr_expect(eq(int, find(7, 5, &index), 0));
	cr_expect(eq(u32, index, 10));
	cr_expect(eq(int, find(7, 6, &index), 0));
	cr_expect(eq(u32, index, 4));
	cr_expect(eq(u32, n_lists, 1));
}

Test(vlan, a_list_that_changed_while_it_was_read_is_read_again)
{
	unsigned index;

	have((struct link){.index = 7});
	have((struct link){"vlan", .index = 10, .on = 7, .vlan = 5, .protocol = ETH_P_8021Q});
	n_interrupted = 2;
	cr_expect(eq(int, find(7, 5, &index), 0));
	cr_expect(eq(u32, index, 10));
	cr_expect(eq(u32, n_lists, 3));
	n_interrupted = 1000;
	cr_expect(eq(int, find(7, 5, &index), -EINTR), "but not for ever");
}

static struct link_change read_change(const struct link *link, uint16_t type, uint8_t family, bool *is_interface)
{
	char buffer[512];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct link_change change;

	message->nlmsg_type = type;
	put_link(message, link);
	((struct ifinfomsg *)mnl_nlmsg_get_payload(message))->ifi_family = family;
	*is_interface = rtnl_read_link_change(message, &change);
	return change;
}

Test(vlan, an_event_says_which_interface_went_and_which_vlan_came_on_which)
{
	const struct link five = {"vlan", .index = 10, .on = 7, .vlan = 5, .protocol = ETH_P_8021Q};
	const struct link elsewhere = {"vlan", 11, .on = 7, .vlan = 5, .protocol = ETH_P_8021Q, .from_elsewhere = true};
	const struct link plain = {.index = 7};
	struct link_change change;
	bool is_interface;

	change = read_change(&five, RTM_NEWLINK, AF_UNSPEC, &is_interface);
	cr_expect(is_interface && change.index == 10 && !change.is_gone && change.lower_index == 7 && change.vlan == 5);
	change = read_change(&elsewhere, RTM_NEWLINK, AF_UNSPEC, &is_interface);
	cr_expect(is_interface && change.lower_index == 0);
	change = read_change(&plain, RTM_DELLINK, AF_UNSPEC, &is_interface);
	cr_expect(is_interface && change.index == 7 && change.is_gone && change.lower_index == 0 && change.vlan == -1);
	read_change(&plain, RTM_DELLINK, AF_BRIDGE, &is_interface);
	cr_expect(not(is_interface), "a bridge has lost a port, which is still there");
}

/* ---- joining --------------------------------------------------------------------------------------- */

/* As the kernel lists them: in IPv4 by the group's bytes as they lie. */
static bool is_member(const char *interface, const char *group)
{
	char command[128];

	snprintf(command, sizeof(command), "ip maddress show dev %s | grep -q ' %s$'", interface, group);
	return system(command) == 0;
}

static int join(const char *group, int vlan, struct membership **membership, struct failure *failure)
{
	struct flow_rule rule = {.family = AF_INET, .multicast = true};

	if (vlan >= 0)
		rule_set_vlan(&rule, vlan);
	cr_assert(eq(int, inet_pton(AF_INET, group, rule.value.destination), 1));
	cr_assert(eq(int, membership_new(membership), 0));
	return membership_join(*membership, if_nametoindex("test0"), &rule, failure);
}

Test(vlan, groups_are_joined_where_the_vlan_is, .init = enter_namespace)
{
	struct membership *memberships[3];
	struct failure failure = {0};

	have((struct link){.index = if_nametoindex("test0")});
	have((struct link){"vlan", if_nametoindex("test1"), if_nametoindex("test0"), 5, ETH_P_8021Q, false});
	cr_expect(eq(int, join("239.1.1.5", 5, &memberships[0], &failure), 0));
	cr_expect(is_member("test1", "239.1.1.5") && !is_member("test0", "239.1.1.5"));
	cr_expect(membership_uses(memberships[0], if_nametoindex("test1")));
	cr_expect(not(membership_uses(memberships[0], if_nametoindex("test0"))));
	cr_expect(eq(int, join("239.1.1.6", 6, &memberships[1], &failure), MEMBERSHIP_UNTAGGED));
	cr_expect(is_member("test0", "239.1.1.6") && !is_member("test1", "239.1.1.6"));
	n_lists = 0;
	cr_expect(eq(int, join("239.1.1.7", -1, &memberships[2], &failure), 0));
	cr_expect(is_member("test0", "239.1.1.7") && n_lists == 0, "nobody is asked about no VLAN");
	for (int i = 0; i < 3; i++)
		membership_free(memberships[i]);
}

Test(vlan, a_kernel_that_does_not_tell_its_links_is_a_fault, .init = enter_namespace)
{
	struct membership *membership;
	struct failure failure = {0};

	error = -EPERM;
	cr_expect(eq(int, join("239.1.1.5", 5, &membership, &failure), -EPERM));
	cr_expect(
		eq(str, failure.text, (char *)"the interface of VLAN 5 cannot be looked up: Operation not permitted"));
	cr_expect(eq(int, failure.exit_code, EX_OSERR));
	membership_free(membership);
}
