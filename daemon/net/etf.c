// SPDX-License-Identifier: Apache-2.0
/*
 * Asks the kernel where packets of an interface pass the queueing discipline tc-etf(8), which sends each at its time:
 * at the root of the interface, or below tc-mqprio(8), which gives each class of priorities queues of its own.
 */
#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define QUEUES_MAX 256

struct etf_reading {
	int interface_index;
	bool has_classes; /* tc-mqprio(8) is the root */
	uint32_t root;    /* its handle */
	struct tc_mqprio_qopt classes;
	struct net_etf of_root;
	struct net_etf of_queues[QUEUES_MAX];
};

static struct net_etf etf_take(const struct nlattr *options)
{
	const struct nlattr *parameters = options ? rtnl_read_nested(options).of[TCA_ETF_PARMS] : NULL;
	struct net_etf etf = {.flags = NET_ETF_THERE};
	struct tc_etf_qopt found;

	if (!parameters || mnl_attr_get_payload_len(parameters) < sizeof(found))
		return etf;
	memcpy(&found, mnl_attr_get_payload(parameters), sizeof(found));
	etf.delta_ns = found.delta > 0 ? (uint32_t)found.delta : 0;
	if (found.flags & TC_ETF_OFFLOAD_ON)
		etf.flags |= NET_ETF_OFFLOAD;
	if (found.flags & TC_ETF_DEADLINE_MODE_ON)
		etf.flags |= NET_ETF_DEADLINE;
	return etf;
}

static void etf_take_root(struct etf_reading *reading, const char *kind, uint32_t handle, const struct nlattr *options)
{
	if (strcmp(kind, "etf") == 0)
		reading->of_root = etf_take(options);
	if (strcmp(kind, "mqprio") != 0 || !options || mnl_attr_get_payload_len(options) < sizeof(reading->classes))
		return;
	memcpy(&reading->classes, mnl_attr_get_payload(options), sizeof(reading->classes));
	reading->root = handle;
	reading->has_classes = true;
}

/* The kernel tells of the root first, and then of what is below. */
static int etf_on_discipline(const struct nlmsghdr *message, void *into)
{
	const struct tcmsg *info = mnl_nlmsg_get_payload(message);
	struct etf_reading *reading = into;
	struct rtnl_attributes attributes;
	uint32_t queue;

	if (message->nlmsg_type != RTM_NEWQDISC || info->tcm_ifindex != reading->interface_index)
		return MNL_CB_OK;
	attributes = rtnl_read_attributes(message, sizeof(*info));
	if (!attributes.of[TCA_KIND])
		return MNL_CB_OK;
	if (info->tcm_parent == TC_H_ROOT)
		etf_take_root(reading, mnl_attr_get_str(attributes.of[TCA_KIND]), info->tcm_handle,
		              attributes.of[TCA_OPTIONS]);
	queue = TC_H_MIN(info->tcm_parent) - 1;
	if (reading->has_classes && TC_H_MAJ(info->tcm_parent) == reading->root && queue < QUEUES_MAX &&
	    strcmp(mnl_attr_get_str(attributes.of[TCA_KIND]), "etf") == 0)
		reading->of_queues[queue] = etf_take(attributes.of[TCA_OPTIONS]);
	return MNL_CB_OK;
}

/* The discipline of all queues of a class. */
static struct net_etf etf_of_class(const struct etf_reading *reading, uint32_t class)
{
	uint32_t first = reading->classes.offset[class], n = reading->classes.count[class], n_found = 0;
	struct net_etf all = {.flags = NET_ETF_OFFLOAD};

	for (uint32_t i = 0; i < n; i++) {
		const struct net_etf *one = &reading->of_queues[first + i < QUEUES_MAX ? first + i : QUEUES_MAX - 1];

		if (!(one->flags & NET_ETF_THERE))
			continue;
		n_found++;
		all.flags = (all.flags | one->flags) & (one->flags | ~NET_ETF_OFFLOAD);
		if (one->delta_ns > all.delta_ns)
			all.delta_ns = one->delta_ns;
	}
	if (n_found == 0)
		return (struct net_etf){0};
	if (n_found < n)
		all.flags |= NET_ETF_PARTIAL;
	return all;
}

int net_etf_read(unsigned interface_index, struct net_etf etf[NET_PRIORITIES])
{
	struct etf_reading reading = {.interface_index = (int)interface_index};
	struct rtnl_request request;
	struct mnl_socket *socket;
	int r = rtnl_open(&socket, NETLINK_ROUTE);

	memset(etf, 0, NET_PRIORITIES * sizeof(etf[0]));
	if (r < 0)
		return r;
	((struct tcmsg *)rtnl_request_init(&request, RTM_GETQDISC, sizeof(struct tcmsg)))->tcm_ifindex =
		(int)interface_index;
	r = rtnl_ask(socket, &request, NLM_F_DUMP, etf_on_discipline, &reading);
	mnl_socket_close(socket);
	for (uint32_t i = 0; i < NET_PRIORITIES && r == 0; i++)
		etf[i] = reading.has_classes
		                 ? etf_of_class(&reading, reading.classes.prio_tc_map[i] % TC_QOPT_MAX_QUEUE)
		                 : reading.of_root;
	return r;
}
