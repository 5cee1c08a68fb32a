// SPDX-License-Identifier: Apache-2.0
/* Finds flows of a stream whose packets a queue cannot split at one place, and flows that exclude each other. */
#include "daemon/flow/flow.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

/* ---- one packet for two flows -------------------------------------------------------------------- */

/* The EtherType that the rule's packets have; 0: more than one. */
static uint16_t flow_rule_ether_type_be(const struct flow_rule *rule)
{
	if (rule->mask.ether_type_be)
		return rule->value.ether_type_be;
	return rule->family == AF_INET ? htons(ETH_P_IP) : rule->family == AF_INET6 ? htons(ETH_P_IPV6) : 0;
}

static bool flow_rule_is_ip(const struct flow_rule *rule)
{
	return rule->family != AF_UNSPEC || rule->mask.protocol || rule->mask.traffic_class;
}

/* A rule of no family compares no addresses. */
static bool flow_fields_agree(const struct flow_rule *a, const struct flow_rule *b)
{
	const uint8_t *value_a = (const uint8_t *)&a->value, *value_b = (const uint8_t *)&b->value;
	const uint8_t *mask_a = (const uint8_t *)&a->mask, *mask_b = (const uint8_t *)&b->mask;

	for (size_t i = 0; i < sizeof(struct flow_fields); i++)
		if ((value_a[i] ^ value_b[i]) & mask_a[i] & mask_b[i])
			return false;
	return true;
}

static bool flow_rules_overlap(const struct flow_rule *a, const struct flow_rule *b)
{
	uint16_t type_a = flow_rule_ether_type_be(a), type_b = flow_rule_ether_type_be(b);

	if (type_a && type_b && type_a != type_b)
		return false;
	if ((a->mask.ether_type_be && flow_rule_is_ip(b)) || (b->mask.ether_type_be && flow_rule_is_ip(a)))
		return false;
	return flow_fields_agree(a, b);
}

static bool flow_overlaps(const struct config_flow *a, const struct config_flow *b)
{
	struct flow_rule rule_a, rule_b;

	if (a->match == CONFIG_MATCH_DEFAULT || b->match == CONFIG_MATCH_DEFAULT)
		return a->match == b->match;
	flow_resolve(a, NULL, &rule_a);
	flow_resolve(b, NULL, &rule_b);
	return flow_rules_overlap(&rule_a, &rule_b);
}

bool flow_conflicts(const struct config_flow *a, const struct config_flow *b)
{
	return a->priority == b->priority && a->copy == b->copy && flow_overlaps(a, b);
}

/* The stream would have such a packet twice: as a copy, and by the flow that takes it. */
static bool flow_is_copied_twice(const struct config_flow *a, const struct config_flow *b)
{
	return a->copy != b->copy && flow_overlaps(a, b);
}

/* ---- flows with different backends --------------------------------------------------------------- */

/* AUTO may become any of them. */
static bool flow_backend_may_be_first(enum config_backend first, enum config_backend other)
{
	if (first == CONFIG_BACKEND_AUTO)
		return other != CONFIG_BACKEND_VERBS;
	if (other == CONFIG_BACKEND_AUTO)
		return first != CONFIG_BACKEND_PACKET;
	return first < other;
}

/* The backends do not share packets: one that the first backend takes never reaches the other. */
static bool flow_hides(const struct config_stream *first, const struct config_flow *flow,
                       const struct config_stream *other, const struct config_flow *hidden)
{
	return flow_backend_may_be_first(first->backend, other->backend) && !flow->copy &&
	       flow->priority <= hidden->priority && flow_overlaps(flow, hidden);
}

static int flow_check_backends(const struct config_stream *mine, const struct config_flow *it,
                               const struct config_stream *other, const struct config_flow *its,
                               struct failure *failure)
{
	char text[FLOW_TEXT_MAX], other_text[FLOW_TEXT_MAX];

	if (!flow_hides(mine, it, other, its) && !flow_hides(other, its, mine, it))
		return 0;
	return failure_set(failure, EX_CONFIG, EINVAL,
	                   "%s:%d: stream '%s', backend = \"%s\": this flow (%s) overlaps with that of stream '%s', "
	                   "backend = \"%s\", at %s:%d (%s) on the same interface: verbs has a packet before xdp, and "
	                   "xdp before packet, and what one takes never reaches the next; accepted are flows of which "
	                   "no packet matches two, or with a higher priority or copy = true in that of the first "
	                   "backend, which both streams name",
	                   it->file, it->line, mine->name, config_backend_name(mine->backend),
	                   flow_describe(it, text, sizeof(text)), other->name, config_backend_name(other->backend),
	                   its->file, its->line, flow_describe(its, other_text, sizeof(other_text)));
}

/* ---- flows of an interface ----------------------------------------------------------------------- */

/* Refused because devices differ in which queue gets a packet that two rules match, or whether both get a copy. */
static int flow_check_pair(const struct config_stream *mine, const struct config_flow *it,
                           const struct config_stream *other, const struct config_flow *its, struct failure *failure)
{
	char text[FLOW_TEXT_MAX], other_text[FLOW_TEXT_MAX];

	if (mine->backend != other->backend) {
		int r = flow_check_backends(mine, it, other, its, failure);

		if (r < 0 || !config_may_share_backend(mine->backend, other->backend))
			return r;
	}
	if (!flow_conflicts(its, it) && !(other == mine && flow_is_copied_twice(its, it)))
		return 0;
	return failure_set(failure, EX_CONFIG, EINVAL,
	                   "%s:%d: stream '%s': this flow (%s) overlaps with that of stream '%s' at %s:%d (%s) on the "
	                   "same interface: a packet can match both; accepted are flows of which no packet matches "
	                   "two, or with another priority each, or one of them with copy = true and in another stream; "
	                   "several consumers may attach to one stream",
	                   it->file, it->line, mine->name, flow_describe(it, text, sizeof(text)), other->name,
	                   its->file, its->line, flow_describe(its, other_text, sizeof(other_text)));
}

static int flow_check_conflicts(const struct config *config, uint32_t stream, uint32_t flow, struct failure *failure)
{
	const struct config_stream *mine = &config->streams[stream];
	int r = 0;

	for (uint32_t s = 0; s <= stream; s++) {
		const struct config_stream *other = &config->streams[s];
		uint32_t n_flows = s == stream ? flow : other->n_flows;

		for (uint32_t i = 0; i < n_flows && r == 0 && strcmp(other->interface, mine->interface) == 0; i++)
			r = flow_check_pair(mine, &mine->flows[flow], other, &other->flows[i], failure);
	}
	return r;
}

/* ---- one layout for a stream --------------------------------------------------------------------- */

/* Why the headers of this flow's packets are not all of one length, and what helps. */
static const char *flow_without_layout(const struct config_flow *flow)
{
	if (flow->match != CONFIG_MATCH_RULE)
		return "this match takes packets of every kind";
	if (flow->vlan == CONFIG_VLAN_ANY)
		return "with vlan = \"any\" some packets have a tag, and others have none: make it two streams";
	if (flow->protocol != IPPROTO_UDP)
		return "with this protocol not all packets are UDP";
	if (flow->ether_type != CONFIG_ANY)
		return "with this ether_type not all packets are UDP";
	return "without an address it takes IPv4 and IPv6: give it destination = \"0.0.0.0/0\" (any of IPv4) or "
	       "\"::/0\" (any of IPv6)";
}

static int flow_check_layout(const struct config_stream *stream, struct failure *failure)
{
	uint32_t header_bytes = flow_header_bytes(&stream->flows[0]);

	for (uint32_t i = 0; i < stream->n_flows && stream->layout == CONFIG_LAYOUT_UDP; i++) {
		const struct config_flow *flow = &stream->flows[i], *first = &stream->flows[0];
		uint32_t bytes = flow_header_bytes(flow);

		if (bytes == 0)
			return failure_set(
				failure, EX_CONFIG, EINVAL,
				"%s:%d: stream '%s': this flow's packets differ in the length of their headers, behind "
				"which rows of payloads begin: %s; or set layout = \"frame\", for rows of whole "
				"frames",
				flow->file, flow->line, stream->name, flow_without_layout(flow));
		if (bytes != header_bytes)
			return failure_set(
				failure, EX_CONFIG, EINVAL,
				"%s:%d: stream '%s': this flow has %u bytes of headers and the one at %s:%d has %u, "
				"but a queue splits all packets at one place: accepted are flows that are all IPv4 or "
				"all IPv6, all with a VLAN or all without; put this flow into a stream of its own, or "
				"set layout = \"frame\"",
				flow->file, flow->line, stream->name, bytes, first->file, first->line, header_bytes);
	}
	return 0;
}

int flow_check(const struct config *config, struct failure *failure)
{
	for (uint32_t s = 0; s < config->n_streams; s++) {
		int r = flow_check_layout(&config->streams[s], failure);

		for (uint32_t i = 0; i < config->streams[s].n_flows && r == 0; i++)
			r = flow_check_conflicts(config, s, i, failure);
		if (r < 0)
			return r;
	}
	return 0;
}
