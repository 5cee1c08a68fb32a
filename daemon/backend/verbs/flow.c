// SPDX-License-Identifier: Apache-2.0
/*
 * Translates flow rules for the hardware. The first spec decides whether mlx5 treats a rule as multicast, so ETH comes
 * first, with the destination MAC. The IP specs imply the ethertype and name the protocol. Rules that compare the same
 * fields have the same masks, because the device has room for a limited number of mask combinations.
 */
#include "daemon/backend/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void append_spec(struct verbs_flow_attr *flow, const void *spec, size_t bytes)
{
	memcpy((uint8_t *)flow + flow->attr.size, spec, bytes);
	flow->attr.size += (uint16_t)bytes;
	flow->attr.num_of_specs++;
}

static struct ibv_flow_eth_filter eth_filter(const struct flow_fields *fields)
{
	struct ibv_flow_eth_filter filter = {.ether_type = fields->ether_type_be, .vlan_tag = fields->vlan_be};

	memcpy(filter.dst_mac, fields->destination_mac, sizeof(filter.dst_mac));
	memcpy(filter.src_mac, fields->source_mac, sizeof(filter.src_mac));
	return filter;
}

/*
 * mlx5 puts a rule with the MAC of groups into the last of all tables, whatever its priority (mlx5_ib:
 * MLX5_IB_FLOW_MCAST_PRIO). A rule that has to come earlier compares the group's address only.
 */
static void append_eth(struct verbs_flow_attr *flow, const struct flow_rule *rule)
{
	struct ibv_flow_spec_eth spec = {
		.type = IBV_FLOW_SPEC_ETH,
		.size = sizeof(spec),
		.val = eth_filter(&rule->value),
		.mask = eth_filter(&rule->mask),
	};

	if (rule->multicast && rule->priority > 0) {
		memset(spec.val.dst_mac, 0, sizeof(spec.val.dst_mac));
		memset(spec.mask.dst_mac, 0, sizeof(spec.mask.dst_mac));
	}
	append_spec(flow, &spec, sizeof(spec));
}

static struct ibv_flow_ipv4_ext_filter ipv4_filter(const struct flow_fields *fields)
{
	struct ibv_flow_ipv4_ext_filter filter = {.proto = fields->protocol, .tos = fields->traffic_class};

	memcpy(&filter.dst_ip, fields->destination, sizeof(filter.dst_ip));
	memcpy(&filter.src_ip, fields->source, sizeof(filter.src_ip));
	return filter;
}

static void append_ipv4(struct verbs_flow_attr *flow, const struct flow_rule *rule)
{
	const struct ibv_flow_spec_ipv4_ext spec = {
		.type = IBV_FLOW_SPEC_IPV4_EXT,
		.size = sizeof(spec),
		.val = ipv4_filter(&rule->value),
		.mask = ipv4_filter(&rule->mask),
	};

	append_spec(flow, &spec, sizeof(spec));
}

static struct ibv_flow_ipv6_filter ipv6_filter(const struct flow_fields *fields)
{
	struct ibv_flow_ipv6_filter filter = {.next_hdr = fields->protocol, .traffic_class = fields->traffic_class};

	memcpy(filter.dst_ip, fields->destination, sizeof(filter.dst_ip));
	memcpy(filter.src_ip, fields->source, sizeof(filter.src_ip));
	return filter;
}

/* The next header of the IPv6 header is that of fragments, whatever protocol they are of. */
static bool is_ipv6_fragments(const struct flow_rule *rule)
{
	return rule->fragments && rule->family == AF_INET6;
}

static void append_ipv6(struct verbs_flow_attr *flow, const struct flow_rule *rule)
{
	struct ibv_flow_spec_ipv6 spec = {
		.type = IBV_FLOW_SPEC_IPV6,
		.size = sizeof(spec),
		.val = ipv6_filter(&rule->value),
		.mask = ipv6_filter(&rule->mask),
	};

	if (is_ipv6_fragments(rule))
		spec.val.next_hdr = IPPROTO_FRAGMENT;
	append_spec(flow, &spec, sizeof(spec));
}

static void append_ports(struct verbs_flow_attr *flow, const struct flow_rule *rule)
{
	const struct ibv_flow_spec_tcp_udp spec = {
		.type = rule->value.protocol == IPPROTO_TCP ? IBV_FLOW_SPEC_TCP : IBV_FLOW_SPEC_UDP,
		.size = sizeof(spec),
		.val = {.dst_port = rule->value.destination_port_be, .src_port = rule->value.source_port_be},
		.mask = {.dst_port = rule->mask.destination_port_be, .src_port = rule->mask.source_port_be},
	};

	append_spec(flow, &spec, sizeof(spec));
}

static bool flow_attr_has_ports(const struct flow_rule *rule)
{
	return rule->mask.protocol && (rule->value.protocol == IPPROTO_UDP || rule->value.protocol == IPPROTO_TCP);
}

void verbs_flow_attr_build(struct verbs_flow_attr *flow, const struct flow_rule *rule, uint8_t port,
                           struct ibv_counters *counters)
{
	memset(flow, 0, sizeof(*flow));
	flow->attr = (struct ibv_flow_attr){
		.type = IBV_FLOW_ATTR_NORMAL,
		.size = sizeof(flow->attr),
		.priority = (uint16_t)(FLOW_PRIORITY_MAX - rule->priority), /* the device takes the lower first */
		.port = port,
		.flags = rule->copy ? IBV_FLOW_ATTR_FLAGS_DONT_TRAP : 0,
	};
	append_eth(flow, rule);
	if (rule->family == AF_INET6)
		append_ipv6(flow, rule);
	else if (rule->family == AF_INET)
		append_ipv4(flow, rule);
	if (flow_attr_has_ports(rule) && !is_ipv6_fragments(rule))
		append_ports(flow, rule);
	if (rule->tag) { /* 0 is the tag of a rule without one */
		struct ibv_flow_spec_action_tag spec = {
			.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(spec), .tag_id = rule->tag};

		append_spec(flow, &spec, sizeof(spec));
	}
	if (counters) {
		struct ibv_flow_spec_counter_action spec = {
			.type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(spec), .counters = counters};

		append_spec(flow, &spec, sizeof(spec));
	}
}

/*
 * The first key of the rule that no ibv_flow_spec compares; NULL: every key has one. Without an address there is no IP
 * spec, and without that no field for the DSCP or for protocols other than UDP and TCP.
 */
static const char *key_without_spec(const struct flow_rule *rule)
{
	if (rule->match == CONFIG_MATCH_DEFAULT)
		return "match";
	if (rule->family != AF_UNSPEC)
		return NULL;
	if (rule->mask.traffic_class)
		return "dscp";
	return rule->mask.protocol && !flow_attr_has_ports(rule) ? "protocol" : NULL;
}

static int refuse_without_spec(const struct verbs_queue *queue, const struct flow_rule *rule, const char *key,
                               struct failure *failure)
{
	char text[FLOW_TEXT_MAX];

	flow_format(rule, text, sizeof(text));
	if (rule->match == CONFIG_MATCH_DEFAULT)
		return failure_set(
			failure, EX_CONFIG, EOPNOTSUPP,
			"interface %s: %s cannot count what match = \"default\" takes, and without that losses "
			"cannot be named: accepted on verbs are match = \"rule\", \"all\" and \"multicast\"",
			queue->backend->interface, verbs_device_name(queue->backend));
	return failure_set(failure, EX_CONFIG, EOPNOTSUPP,
	                   "interface %s: %s cannot match '%s' of the flow %s without a family: accepted is a "
	                   "destination with it, \"0.0.0.0/0\" for any of IPv4 or \"::/0\" for any of IPv6",
	                   queue->backend->interface, verbs_device_name(queue->backend), key, text);
}

int verbs_add_flow(struct backend_queue *base, const struct flow_rule *rule, struct backend_flow **out,
                   struct failure *failure)
{
	struct verbs_queue *queue = verbs_queue(base);
	const char *key = key_without_spec(rule);
	struct verbs_flow_attr attr;
	struct verbs_flow *flow;
	char text[FLOW_TEXT_MAX];
	struct ibv_qp *qp;
	int error;

	if (key)
		return refuse_without_spec(queue, rule, key, failure);
	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return failure_no_memory(failure);
	flow->base.queue = base;
	verbs_flow_attr_build(&attr, rule, queue->backend->port, queue->counters);
	error = -verbs_group_qp(queue, rule, &qp);
	flow->flow = error ? NULL : ibv_create_flow(qp, &attr.attr);
	if (!flow->flow) {
		error = error ? error : errno;
		free(flow);
		return failure_set(failure, error == EPERM || error == EACCES ? EX_NOPERM : EX_UNAVAILABLE, error,
		                   "cannot steer %s of %s to a queue of %s: %s%s",
		                   flow_format(rule, text, sizeof(text)), queue->backend->interface,
		                   verbs_device_name(queue->backend), strerror(error), verbs_explain_flow(error, rule));
	}
	*out = &flow->base;
	return 0;
}

void verbs_remove_flow(struct backend_flow *base)
{
	struct verbs_flow *flow = (struct verbs_flow *)base;

	if (!flow)
		return;
	ibv_destroy_flow(flow->flow);
	free(flow);
}
