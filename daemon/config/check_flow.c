// SPDX-License-Identifier: Apache-2.0
/* Checks of flows that concern several keys at once. */
#include "daemon/config/config_reader.h"

#include <linux/if_ether.h>

/* The first key that compares something of IP and is not as open as it can be. NULL: none. */
static const char *check_find_ip_key(const struct config_flow *flow)
{
	if (flow->destination.family != AF_UNSPEC)
		return "destination";
	if (flow->source.family != AF_UNSPEC)
		return "source";
	if (flow->destination_port)
		return "port";
	if (flow->source_port)
		return "source_port";
	if (flow->protocol != IPPROTO_UDP && flow->protocol != CONFIG_ANY)
		return "protocol";
	return flow->dscp != CONFIG_ANY ? "dscp" : NULL;
}

/* Likewise of Ethernet. */
static const char *check_find_ethernet_key(const struct config_flow *flow)
{
	if (flow->has_destination_mac)
		return "destination_mac";
	if (flow->has_source_mac)
		return "source_mac";
	if (flow->vlan != CONFIG_VLAN_UNTAGGED)
		return "vlan";
	return flow->ether_type != CONFIG_ANY ? "ether_type" : NULL;
}

/* all, multicast and default name their packets already. */
static int check_flow_match(const struct config_reader *reader, const config_setting_t *setting,
                            const struct config_flow *flow)
{
	bool is_default = flow->match == CONFIG_MATCH_DEFAULT;
	const char *key = check_find_ip_key(flow);

	if (!key)
		key = check_find_ethernet_key(flow);
	if (!key && is_default)
		key = flow->copy ? "copy" : flow->priority ? "priority" : NULL;
	if (!key)
		return 0;
	return config_reader_failure(reader, config_reader_find(setting, key),
	                             "'%s' in a flow with match other than \"rule\": accepted is %s", key,
	                             is_default ? "match alone: it takes what is left over after all others"
	                                        : "match with copy and priority only");
}

static int check_flow_ether_type(const struct config_reader *reader, const config_setting_t *setting,
                                 const struct config_flow *flow)
{
	const char *key = check_find_ip_key(flow);

	if (flow->ether_type == ETH_P_8021Q || flow->ether_type == ETH_P_8021AD)
		return config_reader_failure(reader, config_reader_find(setting, "ether_type"),
		                             "ether_type = 0x%04x is that of a tag: accepted is vlan = 1 to 4094, and "
		                             "in ether_type the type behind the tags",
		                             (unsigned)flow->ether_type);
	if (flow->ether_type == ETH_P_IP || flow->ether_type == ETH_P_IPV6) {
		sa_family_t family = flow->ether_type == ETH_P_IP ? AF_INET : AF_INET6;
		sa_family_t other =
			flow->destination.family != AF_UNSPEC ? flow->destination.family : flow->source.family;

		return other == AF_UNSPEC || other == family
		               ? 0
		               : config_reader_failure(reader, config_reader_find(setting, "ether_type"),
		                                       "ether_type = 0x%04x with an address of the other family: "
		                                       "accepted is the address alone",
		                                       (unsigned)flow->ether_type);
	}
	return key ? config_reader_failure(reader, config_reader_find(setting, key),
	                                   "'%s' with ether_type = 0x%04x, whose packets have no IP header: accepted "
	                                   "are vlan and the MACs with it",
	                                   key, (unsigned)flow->ether_type)
	           : 0;
}

static bool check_has_ports(const struct config_flow *flow)
{
	return flow->protocol == IPPROTO_UDP || flow->protocol == IPPROTO_TCP;
}

static int check_flow_protocol(const struct config_reader *reader, const config_setting_t *setting,
                               const struct config_flow *flow)
{
	bool is_ipv6 = flow->destination.family == AF_INET6 || flow->source.family == AF_INET6;

	if (check_has_ports(flow) && !config_setting_get_member(setting, "port"))
		return config_reader_failure(reader, setting,
		                             "a flow of UDP or TCP needs 'port': the destination port; 0: any");
	if (!check_has_ports(flow) && (flow->destination_port || flow->source_port))
		return config_reader_failure(
			reader, config_reader_find(setting, flow->destination_port ? "port" : "source_port"),
			"a port in a flow of another protocol than UDP and TCP: accepted is protocol = \"udp\" or "
			"\"tcp\" with it");
	if (flow->protocol == IPPROTO_ICMP && is_ipv6)
		return config_reader_failure(reader, config_reader_find(setting, "protocol"),
		                             "protocol = \"icmp\" with an IPv6 address: accepted is \"icmpv6\"");
	return 0;
}

static int check_flow_addresses(const struct config_reader *reader, const config_setting_t *setting,
                                const struct config_flow *flow)
{
	if (flow->source.family != AF_UNSPEC && flow->destination.family != AF_UNSPEC &&
	    flow->source.family != flow->destination.family)
		return config_reader_failure(
			reader, config_reader_find(setting, "source"),
			"source and destination of a flow: accepted are two addresses of one family");
	if (config_is_multicast(&flow->source))
		return config_reader_failure(reader, config_reader_find(setting, "source"),
		                             "source is a group's address, and no packet comes from a group: accepted "
		                             "is a unicast address or prefix");
	return 0;
}

int config_check_flow(const struct config_reader *reader, const config_setting_t *setting, const void *entry)
{
	const struct config_flow *flow = entry;
	int r;

	if (flow->match != CONFIG_MATCH_RULE)
		return check_flow_match(reader, setting, flow);
	r = check_flow_addresses(reader, setting, flow);
	if (r == 0 && flow->ether_type != CONFIG_ANY)
		r = check_flow_ether_type(reader, setting, flow);
	if (r == 0 &&
	    (flow->ether_type == CONFIG_ANY || flow->ether_type == ETH_P_IP || flow->ether_type == ETH_P_IPV6))
		r = check_flow_protocol(reader, setting, flow);
	if (r == 0 && flow->protocol == CONFIG_ANY && !check_find_ip_key(flow) && !check_find_ethernet_key(flow))
		r = config_reader_failure(reader, setting,
		                          "a flow that names nothing: accepted is match = \"all\" for every packet");
	return r;
}
