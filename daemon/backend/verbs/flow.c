// SPDX-License-Identifier: Apache-2.0
/*
 * Translates flow rules for the hardware. The first spec decides whether mlx5 treats a rule as multicast, so ETH comes
 * first, with the whole destination MAC. The IP specs imply the ethertype and name the protocol. All rules of a family
 * have one combination of masks, because the device has room for a limited number of mask combinations.
 */
#include "daemon/backend/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VLAN_ID_MASK 0x0fff /* any priority and DEI match */

static void append_spec(struct verbs_flow_attr *flow, const void *spec, size_t bytes)
{
	memcpy((uint8_t *)flow + flow->attr.size, spec, bytes);
	flow->attr.size += (uint16_t)bytes;
	flow->attr.num_of_specs++;
}

static void append_eth(struct verbs_flow_attr *flow, const struct flow_rule *rule)
{
	struct ibv_flow_spec_eth spec = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(spec)};

	memcpy(spec.val.dst_mac, rule->destination_mac, sizeof(spec.val.dst_mac));
	memset(spec.mask.dst_mac, 0xff, sizeof(spec.mask.dst_mac));
	if (rule->vlan >= 0) {
		spec.val.vlan_tag = htons((uint16_t)rule->vlan);
		spec.mask.vlan_tag = htons(VLAN_ID_MASK);
	}
	append_spec(flow, &spec, sizeof(spec));
}

static void append_ipv4(struct verbs_flow_attr *flow, const struct flow_rule *rule)
{
	struct ibv_flow_spec_ipv4_ext spec = {.type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof(spec)};

	memcpy(&spec.val.dst_ip, rule->destination, sizeof(spec.val.dst_ip));
	spec.mask.dst_ip = UINT32_MAX;
	spec.val.proto = IPPROTO_UDP;
	spec.mask.proto = UINT8_MAX;
	if (rule->has_source) {
		memcpy(&spec.val.src_ip, rule->source, sizeof(spec.val.src_ip));
		spec.mask.src_ip = UINT32_MAX;
	}
	append_spec(flow, &spec, sizeof(spec));
}

static void append_ipv6(struct verbs_flow_attr *flow, const struct flow_rule *rule)
{
	struct ibv_flow_spec_ipv6 spec = {.type = IBV_FLOW_SPEC_IPV6, .size = sizeof(spec)};

	memcpy(spec.val.dst_ip, rule->destination, sizeof(spec.val.dst_ip));
	memset(spec.mask.dst_ip, 0xff, sizeof(spec.mask.dst_ip));
	spec.val.next_hdr = IPPROTO_UDP;
	spec.mask.next_hdr = UINT8_MAX;
	if (rule->has_source) {
		memcpy(spec.val.src_ip, rule->source, sizeof(spec.val.src_ip));
		memset(spec.mask.src_ip, 0xff, sizeof(spec.mask.src_ip));
	}
	append_spec(flow, &spec, sizeof(spec));
}

static void append_udp(struct verbs_flow_attr *flow, const struct flow_rule *rule)
{
	struct ibv_flow_spec_tcp_udp spec = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(spec)};

	spec.val.dst_port = rule->destination_port_be;
	spec.mask.dst_port = UINT16_MAX;
	if (rule->source_port_be) {
		spec.val.src_port = rule->source_port_be;
		spec.mask.src_port = UINT16_MAX;
	}
	append_spec(flow, &spec, sizeof(spec));
}

void verbs_flow_attr_build(struct verbs_flow_attr *flow, const struct flow_rule *rule, uint8_t port,
                           struct ibv_counters *counters)
{
	memset(flow, 0, sizeof(*flow));
	flow->attr = (struct ibv_flow_attr){
		.type = IBV_FLOW_ATTR_NORMAL,
		.size = sizeof(flow->attr),
		.port = port,
	};
	append_eth(flow, rule);
	if (rule->family == AF_INET6)
		append_ipv6(flow, rule);
	else
		append_ipv4(flow, rule);
	append_udp(flow, rule);
	if (counters) {
		struct ibv_flow_spec_counter_action spec = {
			.type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(spec), .counters = counters};

		append_spec(flow, &spec, sizeof(spec));
	}
}

int verbs_add_flow(struct backend_queue *base, const struct flow_rule *rule, struct backend_flow **out,
                   struct failure *failure)
{
	struct verbs_queue *queue = verbs_queue(base);
	struct verbs_flow_attr attr;
	struct verbs_flow *flow;
	char text[160];

	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return failure_set(failure, EX_OSERR, ENOMEM, "no memory for a flow");
	flow->base.queue = base;
	verbs_flow_attr_build(&attr, rule, queue->backend->port, queue->counters);
	flow->flow = ibv_create_flow(queue->qp, &attr.attr);
	if (!flow->flow) {
		int error = errno;

		free(flow);
		return failure_set(failure, error == EPERM || error == EACCES ? EX_NOPERM : EX_UNAVAILABLE, error,
		                   "cannot steer %s of %s to a queue of %s: %s%s",
		                   flow_format(rule, text, sizeof(text)), queue->backend->interface,
		                   verbs_device_name(queue->backend), strerror(error), verbs_explain_flow(error));
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
